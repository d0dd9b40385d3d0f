"""AG-UI: a stream that joins late or stays long (R36)."""

from __future__ import annotations

from typing import Any

import pytest

from standfast.events import TextDelta
from standfast.server.agui_events import MOST_EARLY, MOST_ENDED, Known, Saying
from standfast.server.agui_messages import LONGEST_SNAPSHOT, Conversation


def started(call: str, attempt: int = 1) -> dict[str, Any]:
    return {"type": "call_started", "call": call, "tool": "look", "effect": "read", "args": {}, "attempt": attempt}


def flushed(call: str, offset: int, text: str) -> dict[str, Any]:
    return {"type": "text_flushed", "call": call, "offset": offset, "text": text, "channel": "text", "attempt": 1}


def finished(call: str) -> dict[str, Any]:
    return {"type": "call_finished", "call": call, "result": 1}


def contents(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(line["messageId"], line["delta"]) for line in lines if line["type"] == "TEXT_MESSAGE_CONTENT"]


def test_text_whose_beginning_is_long_gone_is_told_from_the_join_on_in_a_message_of_its_own() -> None:
    saying = Saying("t", "r", "run", Known({"c.1.text": "Once"}))
    assert contents(list(saying.event(flushed("c", 100, "and then")))) == [("c.1.text.from-100", "and then")]
    assert contents(list(saying.delta(TextDelta("c", 108, " the end")))) == [("c.1.text.from-100", " the end")]
    saying = Saying("t", "r", "run", Known({"c.1.text": "Once upon"}))
    assert contents(list(saying.event(flushed("c", 4, " upon a time")))) == [("c.1.text", " a time")]


def test_live_text_that_is_faster_than_its_call_is_told_once_the_call_is() -> None:
    saying = Saying("t", "r", "run")
    assert list(saying.delta(TextDelta("c", 0, "Once"))) == []
    assert contents(list(saying.event(started("c", attempt=3)))) == [("c.3.text", "Once")]


def test_late_words_of_a_call_that_ended_begin_no_message() -> None:
    saying = Saying("t", "r", "run")
    lines = [*saying.event(started("c")), *saying.event(finished("c")), *saying.delta(TextDelta("c", 0, "Once"))]
    assert contents(lines) == []


def test_the_last_words_of_calls_that_ended_together_go_on_in_their_messages() -> None:
    """R28, R36: a stop cuts two calls, then the record has the last words of both; none is told twice."""
    saying = Saying("t", "r", "run")
    cut = [{"type": "call_cut", "call": call, "outcome": "aborted"} for call in "ab"]
    said = [flushed("a", 0, "Once"), flushed("b", 0, "Twice"), *cut, flushed("a", 4, " upon"), flushed("b", 5, " a")]
    lines = [line for event in [started("a"), started("b"), *said] for line in saying.event(event)]
    assert contents(lines) == [("a.1.text", "Once"), ("b.1.text", "Twice"), ("a.1.text", " upon"), ("b.1.text", " a")]
    ended = [line for line in saying.event({"type": "verb_noted"}) if line["type"] == "TEXT_MESSAGE_END"]
    assert [line["messageId"] for line in ended] == ["a.1.text", "b.1.text"]


def test_a_long_stream_keeps_nothing_of_what_is_over() -> None:
    saying = Saying("t", "r", "run")
    for n in range(5 * MOST_ENDED):
        for event in (started(f"c{n}"), flushed(f"c{n}", 0, "words"), finished(f"c{n}")):
            list(saying.event(event))
        list(saying.delta(TextDelta(f"lost{n}", 0, "words")))
    kept = {name: value for name, value in vars(saying).items() if hasattr(value, "__len__")}
    assert {name: len(value) for name, value in kept.items() if len(value) > max(MOST_ENDED, MOST_EARLY)} == {}
    assert len(kept["_speech"]) <= 1


def test_a_conversation_is_said_again_up_to_its_limit_and_not_beyond() -> None:
    """R36, R38"""
    sent = {"id": "u", "role": "user", "content": "Go on."}
    talk = Conversation([sent])
    talk.heard({"type": "TEXT_MESSAGE_START", "messageId": "a", "role": "assistant"})
    room = LONGEST_SNAPSHOT - len("Go on.")
    for text in ("x" * (room - 1), "y"):
        talk.heard({"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": text})
    (line,) = talk.snapshot()
    assert line["messages"][0] == sent
    assert line["messages"][1] == {"id": "a", "role": "assistant", "content": "x" * (room - 1) + "y"}
    talk.heard({"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": "z"})
    assert talk.snapshot() == []


def test_a_conversation_keeps_what_the_client_sent_as_it_was_and_adds_to_a_text_that_goes_on() -> None:
    picture = {"id": "p", "role": "user", "content": [{"type": "binary", "mimeType": "image/png", "data": "AA=="}]}
    begun = {"id": "a", "role": "assistant", "content": "Once"}
    asked = {"id": "c", "role": "assistant", "toolCalls": [{"id": "c", "type": "function", "function": {}}]}
    talk = Conversation([picture, begun, asked])
    talk.heard({"type": "TEXT_MESSAGE_START", "messageId": "a", "role": "assistant"})
    talk.heard({"type": "TEXT_MESSAGE_CONTENT", "messageId": "a", "delta": " upon"})
    result = {"type": "TOOL_CALL_RESULT", "messageId": "c.result", "toolCallId": "c", "content": "ok", "role": "tool"}
    talk.heard(result)
    (line,) = talk.snapshot()
    told = {"id": "c.result", "role": "tool", "toolCallId": "c", "content": "ok"}
    assert line["messages"] == [picture, {**begun, "content": "Once upon"}, asked, told]


@pytest.mark.parametrize("kind", ["pause_asked", "taken_over", "run_halted"])
def test_a_run_that_was_paused_while_it_was_queued_has_stopped(kind: str) -> None:
    """Nobody had it, so nobody had to stop: no run_paused follows, and the interrupt is due (R36)."""
    saying = Saying("t", "a", "r")
    told = [{"type": "run_started", "seq": 1, "status": "queued"}, {"type": kind, "seq": 2, "status": "paused"}]
    list(saying.recall(told))
    assert saying.stopped
    list(saying.event({"type": "run_queued", "seq": 3, "status": "queued", "why": "resumed", "holds": []}))
    assert not saying.stopped
    list(saying.event({"type": kind, "seq": 4, "status": "pausing"}))
    assert not saying.stopped, "it has a step under way"
