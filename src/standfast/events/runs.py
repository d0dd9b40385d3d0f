"""The life of a run: started, driven, stopped, held, ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from standfast.events.base import Asking, ByPerson, Recorded, Stamped
from standfast.records import CallRef, Receipt, Status, Trigger, Undo


@dataclass(slots=True, kw_only=True)
class RunStarted(ByPerson):
    type: Literal["run_started"] = "run_started"
    agent: str
    by: str | None = None
    reason: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    parent: str | None = None
    forked_from: str | None = None
    status: Status = "queued"


@dataclass(slots=True, kw_only=True)
class RunClaimed(Recorded):
    type: Literal["run_claimed"] = "run_claimed"
    driver: str
    fence: int
    step: int
    attempt: int
    taken_from: str | None = None
    status: Status = "running"


@dataclass(slots=True, kw_only=True)
class RunReleased(Recorded):
    type: Literal["run_released"] = "run_released"
    driver: str
    why: str
    status: Status = "queued"


@dataclass(slots=True, kw_only=True)
class DriverFenced(Recorded):
    """A driver found that the run had been taken from it, and stopped acting on it."""

    type: Literal["driver_fenced"] = "driver_fenced"
    driver: str
    fence: int
    still_running: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class PauseAsked(Asking):
    type: Literal["pause_asked"] = "pause_asked"
    by: str | None
    reason: str
    trigger: Trigger
    in_flight: Sequence[CallRef] = ()
    status: Status


@dataclass(slots=True, kw_only=True)
class RunHalted(Asking):
    """An operator's halt holds the run from here on, whatever else does."""

    type: Literal["run_halted"] = "run_halted"
    halt: str
    by: str | None
    reason: str
    in_flight: Sequence[CallRef] = ()
    status: Status


@dataclass(slots=True, kw_only=True)
class RunLifted(ByPerson):
    """A halt holds the run no longer; `holds` is what still does."""

    type: Literal["run_lifted"] = "run_lifted"
    halt: str
    by: str | None
    reason: str
    holds: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class RunPaused(Stamped):
    type: Literal["run_paused"] = "run_paused"
    holds: Sequence[str]
    text: str = ""
    residue: Sequence[str] = ()
    status: Status = "paused"


@dataclass(slots=True, kw_only=True)
class ResumeAsked(ByPerson):
    type: Literal["resume_asked"] = "resume_asked"
    by: str | None
    reason: str
    note: str | None = None
    changed: str = ""
    cleared: Sequence[str] = ()
    status: Status = "queued"


@dataclass(slots=True, kw_only=True)
class RunQueued(Stamped):
    """It goes on: by an answer, a decision or mail, or to perform what a person wants; `holds` still hold the agent."""

    type: Literal["run_queued"] = "run_queued"
    why: str
    holds: Sequence[str] = ()
    status: Status = "queued"


@dataclass(slots=True, kw_only=True)
class CancelAsked(Asking):
    type: Literal["cancel_asked"] = "cancel_asked"
    by: str | None
    reason: str
    trigger: Trigger
    undo: Undo
    soft: bool
    suspicious: bool = False  # the marks follow as `output_suspected`
    in_flight: Sequence[CallRef] = ()
    status: Status = "cancelling"


@dataclass(slots=True, kw_only=True)
class OutputSuspected(ByPerson):
    """Somebody stopped the run for what it says, `offset` characters into the call's text; None: nothing was said."""

    type: Literal["output_suspected"] = "output_suspected"
    by: str | None
    reason: str
    trigger: Trigger
    call: str | None = None
    offset: int = 0


@dataclass(slots=True, kw_only=True)
class RunCancelled(Stamped):
    type: Literal["run_cancelled"] = "run_cancelled"
    receipt: Receipt
    status: Status = "cancelled"


@dataclass(slots=True, kw_only=True)
class RunDone(Stamped):
    type: Literal["run_done"] = "run_done"
    result: JsonValue
    status: Status = "done"


@dataclass(slots=True, kw_only=True)
class RunFailed(Stamped):
    type: Literal["run_failed"] = "run_failed"
    error: str
    traceback: str
    status: Status = "failed"
