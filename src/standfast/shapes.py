"""How runs, events and answers are written as JSON, and read back: as they are in Python, snake_case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic import TypeAdapter

from standfast.events import Emitted, Event, TextDelta, plain, read_event
from standfast.json_values import is_object
from standfast.lazily import adapter
from standfast.records import (
    NO_TOOLS,
    Accepted,
    Answer,
    CheckAgain,
    Choice,
    Happened,
    Json,
    Need,
    NotHappened,
    Receipt,
    Refused,
    RunView,
    TooLate,
)
from standfast.stop_records import StopRecord
from standfast.transcripts import Said

_views: TypeAdapter[RunView] = adapter(RunView)
_receipts: TypeAdapter[Receipt] = adapter(Receipt)
_stops: TypeAdapter[list[StopRecord]] = adapter(list[StopRecord])
_said: TypeAdapter[list[Said]] = adapter(list[Said])
_answers: TypeAdapter[Answer] = adapter(Answer)
_kinds: dict[str, TypeAdapter[Any]] = {
    "accepted": adapter(Accepted),
    "refused": adapter(Refused),
    "too_late": adapter(TooLate),
}
_choices: TypeAdapter[Choice] = adapter(Choice)
_deltas: TypeAdapter[TextDelta] = adapter(TextDelta)


# --- written -------------------------------------------------------------------------------------


def view_json(view: RunView) -> dict[str, Any]:
    """A run; what a person may decide about a doubt is told by its word."""
    body = cast("dict[str, Any]", _views.dump_python(view, mode="json"))
    for need, shown in zip(view.needs, body["needs"], strict=True):
        shown["choices"] = [
            choice_json(one, as_it_is) for one, as_it_is in zip(need.choices, shown["choices"], strict=True)
        ]
    return body


def choice_json(choice: Any, as_it_is: Any = None) -> Any:
    """One of a need's choices."""
    match choice:
        case Happened():
            return {"decision": "happened", "result": choice.result}
        case NotHappened():
            return {"decision": "not_happened"}
        case CheckAgain():
            return {"decision": "check_again"}
        case _:
            return as_it_is


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """What a stop did."""
    return cast("dict[str, Any]", _receipts.dump_python(receipt, mode="json")) | {"last_byte_at": receipt.last_byte_at}


def stops_json(stops: Sequence[StopRecord]) -> list[dict[str, Any]]:
    """Stop records, each with whether anybody has told of its clients."""
    bodies = cast("list[dict[str, Any]]", _stops.dump_python(list(stops), mode="json"))
    return [body | {"clients_known": stop.clients_known} for body, stop in zip(bodies, stops, strict=True)]


def said_json(said: list[Said]) -> list[dict[str, Any]]:
    """A transcript."""
    return cast("list[dict[str, Any]]", _said.dump_python(said, mode="json"))


def answer_json(answer: Answer) -> dict[str, Any]:
    """What a verb answered, with its kind in a word."""
    kind = "accepted" if isinstance(answer, Accepted) else "refused" if isinstance(answer, Refused) else "too_late"
    return {"answer": kind, **cast("dict[str, Any]", _answers.dump_python(answer, mode="json"))}


def event_json(event: Event | TextDelta) -> dict[str, Any]:
    """An event of the record, or live text."""
    return cast("dict[str, Any]", _deltas.dump_python(event)) if isinstance(event, TextDelta) else plain(event)


def agent_json(name: str, contract: Json, description: str = "", models: Sequence[str] = ()) -> dict[str, Any]:
    """An agent, from its contract: what a run of it begins with, and the tools that a person can perform in one."""
    given = contract.get("tools")
    tools: Json = given if is_object(given) else {}
    return {
        "name": name,
        "description": description,
        "schema": contract.get("state"),
        "text_field": contract.get("text_field") or None,
        "plan": contract.get("plan") or [],
        "redirects": contract.get("redirects", True),
        "instructions": "instructions" in contract,
        "models": list(models),
        "tools": [
            {"name": tool, "effect": one.get("effect"), "schema": one.get("schema")}
            for tool, one in sorted(tools.items())
            if is_object(one) and tool not in NO_TOOLS
        ],
    }


# --- read back -----------------------------------------------------------------------------------


def view_from(body: Json) -> RunView:
    """A run, with choices that can be sent back as they are."""
    view = _views.validate_python(body)
    return replace(view, needs=[_need(need) for need in view.needs])


def _need(need: Need) -> Need:
    if need.kind == "question":
        return need  # its choices are the answers themselves
    return replace(need, choices=tuple(map(_choice, need.choices)))


def _choice(choice: Any) -> Any:
    decision = choice.get("decision") if isinstance(choice, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if decision == "happened":
        return Happened(cast("Json", choice).get("result"))
    if decision is not None:
        return NotHappened() if decision == "not_happened" else CheckAgain()
    return _choices.validate_python(choice)


def receipt_from(body: Json) -> Receipt:
    """What a stop did."""
    return _receipts.validate_python(body)


def stops_from(body: Any) -> list[StopRecord]:
    """Stop records."""
    return _stops.validate_python(body)


def said_from(body: Any) -> list[Said]:
    """A transcript."""
    return _said.validate_python(body)


def answer_from(body: Json) -> Answer:
    """What a verb answered."""
    fields = dict(body)
    return cast("Answer", _kinds[str(fields.pop("answer"))].validate_python(fields))


def event_from(body: Json) -> Event | TextDelta:
    """An event or live text; one of a kind that this version does not know is kept whole, never dropped."""
    if body.get("type") == "text_delta":
        return _deltas.validate_python(body)
    try:
        return read_event(body)
    except ValueError:
        place: dict[str, Any] = {name: body[name] for name in ("seq", "at", "run") if name in body}
        return Emitted(name=str(body.get("type")), data=cast("Any", body), attempt=0, **place)
