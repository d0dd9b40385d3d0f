"""The parts of `standfast watch` that need no terminal: bars over time, forms from schemas, filters (R26)."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field
from rich.cells import cell_len

from standfast import Misuse
from standfast import events as ev
from standfast.cli.access import Wanted
from standfast.records import ENDED, LIVE
from standfast.tui.fields import fields_of, read
from standfast.tui.filtering import wanted
from standfast.tui.model import CallLine, RunModel
from standfast.tui.timeline import drawn, lanes, lines_of


def started(seq: int, at: float, call: str, effect: Any = "read") -> ev.CallStarted:
    return ev.CallStarted(seq=seq, at=at, call=call, tool=call, effect=effect, args={}, attempt=1)


def a_run() -> RunModel:
    """Ten seconds: a step with two calls at once, a pause of four, a second step."""
    model = RunModel()
    for event in (
        ev.RunStarted(seq=1, at=100, agent="a"),
        ev.RunClaimed(seq=2, at=100, driver="d", fence=1, step=0, attempt=1),
        started(3, 100, "read_it"),
        started(4, 101, "write_it", "write"),
        ev.CallFinished(seq=5, at=102, call="read_it", result=None),
        ev.CallFinished(seq=6, at=103, call="write_it", result=None),
        ev.StepFinished(seq=7, at=103, step=0, attempt=1),
        ev.PauseAsked(seq=8, at=104, by="ann", reason="", trigger="key", status="paused"),
        ev.ResumeAsked(seq=9, at=108, by="ann", reason=""),
        ev.RunClaimed(seq=10, at=108, driver="d", fence=2, step=1, attempt=1),
        ev.RunDone(seq=11, at=110, result=None),
    ):
        model.take(event)
    return model


def test_bars_lie_where_things_happened() -> None:
    """Forty columns for ten seconds: four a second."""
    steps, held, first, second = lines_of(a_run(), 0.0, 40, str)
    assert [(bar.begin, bar.end, bar.label) for bar in steps.bars] == [(0, 12, "0"), (12, 16, "1"), (32, 40, "1")]
    assert [(bar.begin, bar.end, bar.label) for bar in held.bars] == [(16, 32, "paused")]
    assert [(bar.begin, bar.end, bar.label) for bar in first.bars] == [(0, 8, "read_it")]
    assert [(bar.begin, bar.end, bar.label) for bar in second.bars] == [(4, 12, "write_it")]


@pytest.mark.parametrize("width", [10, 33, 200])
def test_a_line_is_as_wide_as_there_is_room(width: int) -> None:
    for line in lines_of(a_run(), 0.0, width, lambda _: "red"):
        assert cell_len(drawn(line, width).plain) == width


def test_wide_letters_and_control_characters_do_not_break_a_line() -> None:
    model = a_run()
    model.calls["read_it"].title = "読む\x1b[2J読む"
    lines = lines_of(model, 0.0, 40, lambda _: "red")
    assert [cell_len(drawn(line, 40).plain) for line in lines] == [40] * len(lines)
    assert all("\x1b" not in drawn(line, 40).plain for line in lines)


def test_calls_that_overlap_have_lanes_of_their_own() -> None:
    calls = [
        CallLine(name, name, "read", began=began, ended=end)
        for name, began, end in (("a", 0, 5), ("b", 1, 2), ("c", 3, 4))
    ]
    assert [(call.id, lane) for call, lane in lanes(calls, 9.0)] == [("a", 0), ("b", 1), ("c", 1)]


def test_what_still_lasts_grows_to_now() -> None:
    model = RunModel()
    model.take(ev.RunStarted(seq=1, at=100, agent="a"))
    model.take(started(2, 105, "slow"))
    *_, calls = lines_of(model, 110.0, 10, str)
    assert [(bar.begin, bar.end) for bar in calls.bars] == [(5, 10)]


class Nested(BaseModel):
    n: int = 0


class State(BaseModel):
    name: str
    question: str = "why?"
    times: int = 3
    share: float | None = None
    sure: bool = True
    colour: Literal["red", "green"] = "red"
    tags: list[str] = []
    inner: Nested = Nested()
    noted: str = Field("", description="for the record")


def test_a_schema_becomes_fields() -> None:
    fields = {field.name: field for field in fields_of(State.model_json_schema())}
    kinds = [field.kind for field in fields.values()]
    assert kinds == ["text", "long", "integer", "number", "boolean", "choice", "lines", "json", "text"]
    assert [field.name for field in fields.values() if field.required] == ["name"]
    assert (fields["sure"].initial, fields["times"].initial, fields["inner"].initial) == ("true", "3", '{\n  "n": 0\n}')
    assert (fields["colour"].choices, fields["noted"].help) == (("red", "green"), "for the record")


@pytest.mark.parametrize(
    ("name", "typed", "value"),
    [
        ("times", "4", 4),
        ("share", "0.5", 0.5),
        ("sure", "false", False),
        ("colour", "green", "green"),
        ("tags", "a\n\n b ", ["a", "b"]),
        ("inner", '{"n": 2}', {"n": 2}),
        ("name", "Ann", "Ann"),
    ],
)
def test_what_is_typed_becomes_a_value(name: str, typed: str, value: Any) -> None:
    field = next(one for one in fields_of(State.model_json_schema()) if one.name == name)
    assert read(field, typed) == (True, value)


@pytest.mark.parametrize(("name", "typed"), [("name", " "), ("times", "4.5"), ("share", "much"), ("inner", "{")])
def test_what_is_wrong_is_said(name: str, typed: str) -> None:
    field = next(one for one in fields_of(State.model_json_schema()) if one.name == name)
    with pytest.raises(Misuse, match=field.label):
        read(field, typed)


def test_what_is_left_empty_is_left_to_its_default() -> None:
    field = next(one for one in fields_of(State.model_json_schema()) if one.name == "times")
    assert read(field, "") == (False, None)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("", Wanted(limit=200)),
        ("big invoice", Wanted(text="big invoice", limit=200)),
        ("agent:memo needs", Wanted(agent="memo", needs=True, limit=200)),
        ("status:live", Wanted(status=LIVE, limit=200)),
        ("status:ended status:paused", Wanted(status=(*ENDED, "paused"), limit=200)),
        ("team=growth x", Wanted(labels={"team": "growth"}, text="x", limit=200)),
        ("status:odd http://a=b", Wanted(text="status:odd http://a=b", limit=200)),
    ],
)
def test_a_line_of_words_says_which_runs(line: str, meant: Wanted) -> None:
    assert wanted(line) == meant
