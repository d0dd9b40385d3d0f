"""Differences between two versions of an agent are named, the first of them in full (R16)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import differing
from standfast.differing import line_difference, line_marks, schema_difference


def _state(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


def test_fields_that_came_went_or_changed_are_named() -> None:
    old, new = _state("a", "b"), _state("b", "c")
    new["properties"]["b"] = {"type": "integer"}
    assert schema_difference(old, new) == "new field c (with a default), field a is gone, b: string -> integer"


def test_after_twelve_differences_the_rest_is_counted() -> None:
    words = schema_difference(_state(), _state(*(f"f{n}" for n in range(15))))
    assert words.count("new field") == 12
    assert words.endswith("and 3 more")


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    node: dict[str, Any] = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    old = {"$ref": "#/$defs/Node", "$defs": {"Node": node}}
    assert schema_difference(old, old) == ""
    assert schema_difference({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, old) != ""


def test_changed_lines_of_the_instructions_are_named_by_their_numbers() -> None:
    old, new = line_marks("be kind\nbe brief"), line_marks("be kind\nbe long\nbe done")
    assert line_difference(old, new) == "line 2 changed, now lines 2 to 3"


def _mesh(kind: str, breadth: int) -> dict[str, Any]:
    """A schema of which each field is of the same kind again, and that has one field of another."""
    fields: dict[str, Any] = {f"f{n}": {"$ref": "#/$defs/Node"} for n in range(breadth)}
    return {"$ref": "#/$defs/Node", "$defs": {"Node": {"properties": {**fields, "kind": {"type": kind}}}}}


def test_a_schema_that_refers_to_itself_in_many_fields_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """R16: each level has as many parts as there are fields; six levels of forty would be four thousand million."""
    looks: list[Any] = []
    followed = differing._followed
    monkeypatch.setattr(differing, "_followed", lambda *given: (looks.append(given), followed(*given))[1])
    assert schema_difference(_mesh("string", 40), _mesh("string", 40)) == ""
    assert schema_difference(_mesh("string", 40), _mesh("integer", 40)) == "kind: string -> integer"
    assert len(looks) < 1000


def test_a_part_that_was_met_too_deep_is_looked_at_again_where_it_is_not() -> None:
    def nested(kind: str) -> dict[str, Any]:
        part: dict[str, Any] = {"$ref": "#/$defs/Part"}
        for _ in range(differing._DEEPEST):
            part = {"properties": {"in": part}}
        return {
            "properties": {"deep": part, "near": {"$ref": "#/$defs/Part"}},
            "$defs": {"Part": {"properties": {"kind": {"type": kind}}}},
        }

    assert "near.kind: string -> integer" in schema_difference(nested("string"), nested("integer"))


def test_a_schema_without_end_is_given_up_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differing, "_MOST_LOOKS", 10)
    words = schema_difference(_state(*(f"f{n}" for n in range(15))), _state(*(f"f{n}" for n in range(15))))
    assert words == "and perhaps others"


class Line(str):
    """A line that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Line.compared += 1
        return str.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        pytest.param(["same"] * 4000, ["same"] * 3999, "line 4000 removed", id="the same line"),
        pytest.param(["a", "b"] * 2000, ["b", "a"] * 2000, "lines 1 to 4000 changed", id="the same two lines"),
        pytest.param(["a"] * 4000, ["b"] * 4000, "lines 1 to 4000 changed", id="all others"),
        pytest.param(
            [f"{n}" for n in range(4000)],
            [f"{n}" if n not in (7, 3000) else "x" for n in range(4000)],
            "line 8 changed, line 3001 changed",
            id="two of many",
        ),
        pytest.param(
            [f"{n}" for n in range(4000)], [f"{n}" for n in range(4000)][::-1], None, id="the other way round"
        ),
    ],
)
def test_long_instructions_are_compared_in_time_that_goes_with_their_length(
    old: list[str], new: list[str], words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R16: however they repeat themselves."""
    each_with_each: list[int] = []
    closely = differing.SequenceMatcher

    def counted(junk: None, a: list[str], b: list[str], *, autojunk: bool) -> Any:
        each_with_each.append(len(a) * len(b))
        return closely(junk, a, b, autojunk=autojunk)

    monkeypatch.setattr(differing, "SequenceMatcher", counted)
    Line.compared = 0
    found = line_difference([Line(line) for line in old], [Line(line) for line in new])
    assert Line.compared < 20 * len(old)
    assert sum(each_with_each) <= differing._SMALL * (len(old) + len(new))
    if words is not None:
        assert found == words


@given(st.lists(st.sampled_from("abcdefgh"), max_size=60), st.lists(st.sampled_from("abcdefgh"), max_size=60))
def test_stretches_that_differ_make_one_text_of_the_other(old: list[str], new: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(differing, "_SMALL", 3)
        made: list[str] = []
        at = 0
        for i, j, k, m in differing._stretches(old, new):
            assert (j - i) + (m - k) > 0
            made += [*old[at:i], *new[k:m]]
            at = j
        assert [*made, *old[at:]] == new
