"""What goes over the wire beside the shapes of runs and events: live text, refusals, and bodies of requests."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pydantic_core import from_json, to_json

from standfast import said_texts
from standfast.errors import NotStorable
from standfast.events import ClientsReached, Event, TextDelta, TextFlushed
from standfast.json_values import is_array, is_object
from standfast.odd_text import mended
from standfast.records import Accepted, Answer, Refused, Span
from standfast.server.problems import Problem
from standfast.shapes import answer_json, event_json

DEEPEST = 60  # levels of a request; what is stored must be readable inside other documents


def delta_json(delta: TextDelta) -> dict[str, Any]:
    """Live text."""
    return {
        "call_id": delta.call_id,
        "offset": delta.offset,
        "text": delta.text,
        "channel": delta.channel,
        "attempt": delta.attempt,
        "take": delta.take,
    }


def told_json(event: Event) -> dict[str, Any]:
    """An event as whoever may view a run is told it: who else was watching is for those who may see the stop record."""
    if isinstance(event, ClientsReached):
        event = replace(event, clients=(), left_out=len(event.clients) + event.left_out)
    return event_json(event)


def span_of(event: Event) -> Span | None:
    """The text that an event hands over."""
    return said_texts.span_of(event) if isinstance(event, TextFlushed) else None


def said_no(answer: Answer, run: str) -> Problem:
    """409, with the truth."""
    if isinstance(answer, Refused):
        detail, hint = f"refused: {answer.why}", "; ".join(c.label for c in answer.choices if c.label)
    else:
        assert not isinstance(answer, Accepted)
        detail = f"too late: the run is already {answer.status}"
        hint = (
            "fork it to go on from one of its steps" if answer.status != "cancelling" else "wait until it has settled"
        )
    return Problem(409, detail, hint, kind=type(answer).__name__, run=run, answer=answer_json(answer))


def encode(value: Any) -> bytes:
    """JSON, whatever users have put into it."""
    return to_json(value, inf_nan_mode="null")


def parse(raw: bytes | str) -> Any:
    """A JSON value of a request; Problem if it is none, or one that no store should be asked to keep."""
    try:
        value = from_json(raw, allow_inf_nan=False)
        to_json(value)
    except (ValueError, NotStorable) as error:
        raise Problem(400, f"the body is not JSON: {error}", "send a JSON object") from None
    if too_deep(value):
        raise Problem(422, f"the body is nested more than {DEEPEST} levels deep", "send a flatter value")
    return value


def parse_stop(raw: bytes | str) -> Any:
    """The same, for a stop: no letter in it keeps it out. What is none becomes a replacement character."""
    try:
        return parse(raw)
    except Problem as problem:
        text = raw if isinstance(raw, str) else raw.decode("utf-8", "replace")
        try:
            return parse(mended(json.dumps(json.loads(text), ensure_ascii=False)))
        except (ValueError, RecursionError, Problem):
            raise problem from None


def too_deep(value: Any, left: int = DEEPEST) -> bool:
    """Is it nested beyond what can be stored inside other documents?"""
    if left <= 0:
        return True
    children: Any = value.values() if is_object(value) else value if is_array(value) else ()
    return any(too_deep(child, left - 1) for child in children if isinstance(child, dict | list))
