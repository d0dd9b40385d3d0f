"""Calls: begun, ended, in doubt, asked about, undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from standfast.events.base import ByPerson, Recorded
from standfast.records import Effect, Json


@dataclass(slots=True, kw_only=True)
class CallStarted(Recorded):
    type: Literal["call_started"] = "call_started"
    call: str
    tool: str
    effect: Effect
    args: JsonValue
    attempt: int
    title: str = ""
    why: str = ""


@dataclass(slots=True, kw_only=True)
class CallFinished(Recorded):
    type: Literal["call_finished"] = "call_finished"
    call: str
    result: JsonValue


@dataclass(slots=True, kw_only=True)
class CallFailed(Recorded):
    type: Literal["call_failed"] = "call_failed"
    call: str
    error: str
    message: str
    effect_unknown: bool = False


@dataclass(slots=True, kw_only=True)
class CallCut(Recorded):
    type: Literal["call_cut"] = "call_cut"
    call: str
    outcome: str
    why: str


@dataclass(slots=True, kw_only=True)
class CallInDoubt(Recorded):
    type: Literal["call_in_doubt"] = "call_in_doubt"
    call: str
    tool: str
    why: str


@dataclass(slots=True, kw_only=True)
class CallResolved(ByPerson):
    type: Literal["call_resolved"] = "call_resolved"
    call: str
    decision: Literal["happened", "not_happened", "check_again"]
    by: str | None
    reason: str = ""
    result: JsonValue = None


@dataclass(slots=True, kw_only=True)
class UsageCounted(Recorded):
    """What calls (or a child run, by `calls`) have used since the last commit."""

    type: Literal["usage_counted"] = "usage_counted"
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    calls: int = 0


@dataclass(slots=True, kw_only=True)
class LateResult(Recorded):
    """A body ended after its run had gone on without it; kept out of the run."""

    type: Literal["late_result"] = "late_result"
    call: str
    result: JsonValue = None
    error: str = ""


@dataclass(slots=True, kw_only=True)
class CallProgress(Recorded):
    type: Literal["call_progress"] = "call_progress"
    call: str
    fraction: float
    text: str


@dataclass(slots=True, kw_only=True)
class CallWaits(Recorded):
    """A call waits before it tries again: a provider asked it to, or did not answer."""

    type: Literal["call_waits"] = "call_waits"
    call: str
    seconds: float
    why: str
    tries: int


@dataclass(slots=True, kw_only=True)
class Asked(Recorded):
    type: Literal["asked"] = "asked"
    call: str
    kind: Literal["approval", "question"]
    text: str
    args: JsonValue = None
    options: JsonValue = None


@dataclass(slots=True, kw_only=True)
class Answered(ByPerson):
    type: Literal["answered"] = "answered"
    call: str
    answer: Literal["approved", "denied", "answered", "withdrawn", "timed_out"]
    by: str | None
    value: JsonValue = None
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class UndoEnded(Recorded):
    type: Literal["undo_ended"] = "undo_ended"
    call: str
    tool: str
    outcome: Literal["undone", "failed", "impossible", "in_doubt", "retrying"]
    tries: int
    reason: str = ""
    details: Json = field(default_factory=dict[str, JsonValue])
