"""What people do to a run beside stopping it: taking over, editing, travelling in time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from standfast.events.base import Asking, ByPerson, Recorded
from standfast.records import CallRef, Json, Status, Trigger


@dataclass(slots=True, kw_only=True)
class TakenOver(Asking):
    type: Literal["taken_over"] = "taken_over"
    by: str | None
    reason: str
    trigger: Trigger
    in_flight: Sequence[CallRef] = ()
    status: Status


@dataclass(slots=True, kw_only=True)
class PersonActed(ByPerson):
    """A person performed a tool in the run, as a step of its own; `order` is the mail that asked for it."""

    type: Literal["person_acted"] = "person_acted"
    order: str
    by: str | None
    step: int
    tool: str
    args: JsonValue
    call: str
    result: JsonValue = None
    error: str = ""
    message: str = ""
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class HandedBack(ByPerson):
    type: Literal["handed_back"] = "handed_back"
    by: str | None
    note: str
    performed: Sequence[Json] = ()


@dataclass(slots=True, kw_only=True)
class StateEdited(ByPerson):
    type: Literal["state_edited"] = "state_edited"
    by: str | None
    reason: str
    changed: str


@dataclass(slots=True, kw_only=True)
class RewindAsked(Asking):
    type: Literal["rewind_asked"] = "rewind_asked"
    to: int
    epoch: int
    by: str | None
    reason: str
    trigger: Trigger
    in_flight: Sequence[CallRef] = ()
    status: Status = "pausing"


@dataclass(slots=True, kw_only=True)
class Rewound(Recorded):
    type: Literal["rewound"] = "rewound"
    to: int
    epoch: int


@dataclass(slots=True, kw_only=True)
class Forked(ByPerson):
    type: Literal["forked"] = "forked"
    at_step: int
    fork: str
    by: str | None


@dataclass(slots=True, kw_only=True)
class VerbNoted(ByPerson):
    """A verb that changes nothing now but was heard."""

    type: Literal["verb_noted"] = "verb_noted"
    verb: str
    by: str | None
    reason: str = ""
    text: str = ""
