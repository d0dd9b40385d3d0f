"""What the screen knows of a run, without a screen: events go in, text, calls and lines come out."""

from __future__ import annotations

from standfast import events as ev
from standfast.events import TextDelta
from standfast.tui.model import MOST_CHARACTERS, RunModel


def started(seq: int, call: str, tool: str = "speak") -> ev.CallStarted:
    return ev.CallStarted(seq=seq, call=call, tool=tool, effect="read", args={}, attempt=0)


def test_text_that_was_seen_live_is_not_said_twice_when_it_is_flushed() -> None:
    """R26."""
    model = RunModel()
    model.take(started(1, "a"))
    model.take(TextDelta("a", 0, "one "))
    model.take(TextDelta("a", 4, "two"))
    model.take(ev.TextFlushed(seq=2, call="a", offset=0, text="one two"))
    model.take(ev.TextFlushed(seq=3, call="a", offset=7, text=" three"))
    assert model.output() == "── speak\none two three\n"


def test_a_call_that_is_repeated_begins_anew_and_the_cut_text_stays() -> None:
    """R3: partial text is kept."""
    model = RunModel()
    model.take(started(1, "a"))
    model.take(TextDelta("a", 0, "once upon"))
    model.take(ev.CallCut(seq=2, call="a", outcome="aborted", why="pause"))
    model.take(TextDelta("a", 0, "once upon a time"))
    assert model.output() == "── speak (cut)\nonce upon\n\n── speak\nonce upon a time\n"


def test_lost_live_text_leaves_a_gap_that_can_be_seen() -> None:
    model = RunModel()
    model.take(TextDelta("a", 0, "one"))
    model.take(TextDelta("a", 100, "two"))
    assert "one…two" in model.output()


def test_an_event_that_comes_twice_changes_nothing() -> None:
    """R28: a reader that reconnects may be told its last event again."""
    model = RunModel()
    for event in (started(1, "a"), started(2, "b"), started(1, "a")):
        model.take(event)
    assert list(model.calls) == ["a", "b"]
    assert model.recorded == 2


def test_agents_cannot_steer_the_terminal() -> None:
    model = RunModel()
    model.take(TextDelta("a", 0, "\x1b]0;owned\x07\x1b[2Jhello\x9b31m"))
    assert "\x1b" not in model.output()
    assert "\x9b" not in model.output()
    assert "hello" in model.output()


def test_a_long_output_gives_way_at_its_beginning() -> None:
    model = RunModel()
    for n in range(50):
        model.take(TextDelta(str(n), 0, f"<{n}> " + "x" * 1000))
    assert len(model.output()) <= MOST_CHARACTERS
    assert "<49>" in model.output()


def test_each_line_of_the_record_is_new_once() -> None:
    model = RunModel()
    for seq in range(1, 3000):
        model.take(ev.Noted(seq=seq, text=str(seq), attempt=0))
    assert model.recorded == 2999
    assert len(model.record) == 2000
