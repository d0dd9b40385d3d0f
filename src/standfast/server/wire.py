"""How runs, events and answers are written as JSON: as they are in Python, snake_case."""

from __future__ import annotations

from typing import Any, cast

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from standfast.errors import NotStorable
from standfast.events import Event, TextDelta, plain
from standfast.json_values import is_array, is_object
from standfast.records import Accepted, Answer, CheckAgain, Happened, NotHappened, Receipt, Refused, RunView
from standfast.server.problems import Problem
from standfast.transcripts import Said

_views: TypeAdapter[RunView] = TypeAdapter(RunView)
_receipts: TypeAdapter[Receipt] = TypeAdapter(Receipt)
_said: TypeAdapter[list[Said]] = TypeAdapter(list[Said])
_answers: TypeAdapter[Answer] = TypeAdapter(Answer)
_deltas: TypeAdapter[TextDelta] = TypeAdapter(TextDelta)

DEEPEST = 60  # levels of a request; what is stored must be readable inside other documents


def view_json(view: RunView) -> dict[str, Any]:
    """A run; what a person may decide about a doubt is told by its word."""
    body = cast("dict[str, Any]", _views.dump_python(view, mode="json"))
    for need, shown in zip(view.needs, body["needs"], strict=True):
        shown["choices"] = [
            _choice_json(choice, as_it_is) for choice, as_it_is in zip(need.choices, shown["choices"], strict=True)
        ]
    return body


def _choice_json(choice: Any, as_it_is: Any) -> Any:
    match choice:
        case Happened():
            return {"decision": "happened", "result": choice.result}
        case NotHappened():
            return {"decision": "not_happened"}
        case CheckAgain():
            return {"decision": "check_again"}
        case _:
            return as_it_is


def event_json(event: Event) -> dict[str, Any]:
    """An event of the record."""
    return plain(event)


def delta_json(delta: TextDelta) -> dict[str, Any]:
    """Live text."""
    return {"call_id": delta.call_id, "offset": delta.offset, "text": delta.text, "channel": delta.channel}


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """What a stop did."""
    return cast("dict[str, Any]", _receipts.dump_python(receipt, mode="json")) | {"last_byte_at": receipt.last_byte_at}


def said_json(said: list[Said]) -> list[dict[str, Any]]:
    """A transcript."""
    return cast("list[dict[str, Any]]", _said.dump_python(said, mode="json"))


def answer_json(answer: Answer) -> dict[str, Any]:
    """What a verb answered, with its kind in a word."""
    kind = "accepted" if isinstance(answer, Accepted) else "refused" if isinstance(answer, Refused) else "too_late"
    return {"answer": kind, **cast("dict[str, Any]", _answers.dump_python(answer, mode="json"))}


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


def too_deep(value: Any, left: int = DEEPEST) -> bool:
    """Is it nested beyond what can be stored inside other documents?"""
    if left <= 0:
        return True
    children: Any = value.values() if is_object(value) else value if is_array(value) else ()
    return any(too_deep(child, left - 1) for child in children if isinstance(child, dict | list))
