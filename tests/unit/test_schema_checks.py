"""Whether a value fits a schema is found out with a bound on the work, whatever the value (R34)."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import BadTool, Misuse, WrongState, linear_patterns, schema_checks
from standfast.codec import JsonSchema
from standfast.linear_patterns import Uncheckable, fits
from standfast.schema_checks import Checker, TooMuch
from standfast.schema_tools import SchemaTool

HOSTILE = ("a" * 200) + "!"
SLOW = [  # each with a text on which Python's own engine would not come to an end
    (r"^(a+)+$", HOSTILE),
    (r"^(a|a)*$", HOSTILE),
    (r"^(a|aa)+$", HOSTILE),
    (r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", "0" * 100_000 + "x"),
    (r"^(?=(a+)+$).*$", HOSTILE),
]
PATTERNS = [
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$",
    r"^(?=.*\d)(?=.*[A-Z]).{3,}$",
    r"^(?!ab|ba)[ab]+$",
    r"^[^[\]]+$",
    r"^[]a]+$",
    r"^[a&b]+$",
    r"^a(?:b|\(c)+\Z",
    r"^\\Z",
    r"a.b",
    r"(?:^|,)b+(?:,|$)",
]


@pytest.mark.parametrize(("pattern", "text"), SLOW)
def test_a_pattern_reads_a_text_once(pattern: str, text: str) -> None:
    assert not fits(pattern, text)


@pytest.mark.parametrize("pattern", PATTERNS)
@given(text=st.text("abA01[]&\\Z(c,.+-", max_size=12))
def test_patterns_mean_what_they_mean_to_python(pattern: str, text: str) -> None:
    assert fits(pattern, text) is (re.search(pattern, text) is not None)


@pytest.mark.parametrize("pattern", [r"(\w)\1", r"x(?=y)", r"(?<=a)b", r"^(?=a)b|c", "("])
def test_a_pattern_that_no_such_engine_knows_is_not_tried(pattern: str) -> None:
    with pytest.raises(Uncheckable):
        fits(pattern, "text")
    with pytest.raises(WrongState, match=r"the answer cannot be checked: the pattern .* looks around or refers back"):
        JsonSchema.validate({"type": "string", "pattern": pattern}, "text", "the answer")


def test_without_re2_patterns_are_read_just_as_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> Any:
        raise ImportError

    monkeypatch.setattr(linear_patterns, "import_module", missing)
    linear_patterns._searches.cache_clear()
    try:
        assert not fits(r"^(a+)+$", HOSTILE)
        for pattern in PATTERNS:
            fits(pattern, "a")
    finally:
        linear_patterns._searches.cache_clear()


NAMES = {"type": "object", "patternProperties": {"^(a+)+$": {"type": "integer"}}}
WHEREVER: dict[str, tuple[Any, Any]] = {
    "a value": ({"type": "string", "pattern": "^(a+)+$"}, HOSTILE),
    "a name of a field": ({**NAMES, "additionalProperties": False}, {HOSTILE: 1}),
    "a name that is not listed": ({**NAMES, "additionalProperties": {"type": "string"}}, {HOSTILE: 1}),
    "all names": ({"propertyNames": {"pattern": "^(a+)+$"}}, {HOSTILE: 1}),
    "behind the name of a draft": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$defs": {"one": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"}},
            "items": {"$ref": "#/$defs/one"},
        },
        [HOSTILE],
    ),
    "a schema in itself": (
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "pattern": "^(a+)+$", "items": {"$ref": "#"}},
        [[HOSTILE]],
    ),
}


@pytest.mark.parametrize("place", WHEREVER)
def test_wherever_a_pattern_stands_it_reads_a_text_once(place: str) -> None:
    schema, value = WHEREVER[place]
    assert Checker(schema).error(value) is not None
    assert Checker(schema, any_draft=True).error(value) is not None


def test_names_of_patterns_that_others_would_look_for_are_not_tried() -> None:
    with pytest.raises(TooMuch, match="unevaluatedProperties"):
        Checker({**NAMES, "unevaluatedProperties": False}).error({HOSTILE: 1})


@given(st.lists(st.recursive(st.integers(0, 2) | st.booleans() | st.just(1.0), st.lists, max_leaves=3), max_size=6))
def test_equal_elements_are_found_as_jsonschema_finds_them(value: list[Any]) -> None:
    schema: Any = {"uniqueItems": True}
    untyped: Any = jsonschema
    assert (Checker(schema).error(value) is None) is untyped.Draft202012Validator(schema).is_valid(value)


def test_many_elements_that_cannot_be_ordered_are_looked_at_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    same = schema_checks._same
    monkeypatch.setattr(schema_checks, "_same", lambda value: (looked.append(value), same(value))[1])
    assert Checker({"uniqueItems": True}).error([{"n": n} for n in range(1000)]) is None
    assert len(looked) <= 3 * 1000  # each element, and what is in it


# Both alternatives have a `left`: each level is looked at twice as often as the one above it.
TREE: Any = {
    "$defs": {
        "node": {"anyOf": [{"$ref": "#/$defs/sum"}, {"$ref": "#/$defs/product"}, {"type": "number"}]},
        "sum": {"properties": {"kind": {"const": "+"}, "left": {"$ref": "#/$defs/node"}}, "required": ["kind"]},
        "product": {"properties": {"kind": {"const": "*"}, "left": {"$ref": "#/$defs/node"}}, "required": ["kind"]},
    },
    "$ref": "#/$defs/node",
}


def _tree(depth: int) -> Any:
    return {"kind": "*", "left": _tree(depth - 1)} if depth else 1


def test_a_deep_value_of_a_schema_that_refers_to_itself_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_checks, "MOST_CHECKS", 10_000)
    JsonSchema.validate(TREE, _tree(5))
    with pytest.raises(WrongState, match="the state cannot be checked: its schema asks for more than 10,000 checks"):
        JsonSchema.validate(TREE, _tree(100))
    JsonSchema.validate(TREE, _tree(5))  # each value has a bound of its own


def test_what_a_model_gives_a_tool_with_a_schema_is_checked_with_the_same_bounds() -> None:
    async def note(**given: Any) -> Any:
        return given

    schema: Any = {"type": "object", "properties": {"word": {"type": "string", "pattern": "^(a+)+$"}}}
    made = SchemaTool("note", "Note it.", schema, note)
    assert made.parse({"word": "aaa"}).args == {"word": "aaa"}
    with pytest.raises(Misuse, match="argument word: 'aaa"):
        made.parse({"word": HOSTILE})
    schema["properties"]["word"]["pattern"] = r"(\w)\1"
    made = SchemaTool("note", "Note it.", schema, note)
    with pytest.raises(Misuse, match="they cannot be checked: the pattern"):
        made.parse({"word": "aaa"})
    with pytest.raises(BadTool):
        SchemaTool("note", "Note it.", {"type": 5}, note)
