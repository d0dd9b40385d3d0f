"""The record's events: a typed union, each with its `seq` and time.

Everything shown, streamed or proved comes from these. They are written as JSON, one
row a commit, and read back through `decode`.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, cast

from pydantic import Field, TypeAdapter

from standfast.events.base import Asking, ByPerson, Stamped
from standfast.events.calls import (
    Answered,
    Asked,
    CallCut,
    CallFailed,
    CallFinished,
    CallInDoubt,
    CallProgress,
    CallResolved,
    CallStarted,
    CallWaits,
    LateResult,
    UndoEnded,
    UsageCounted,
)
from standfast.events.frames import (
    FrameAbandoned,
    FrameAdvanced,
    FrameFinished,
    FrameHeld,
    FrameOpened,
    FrameReturned,
    Replied,
)
from standfast.events.mail import MailConsumed, MailNotRead, MailReceived, MailResent, MailReturned
from standfast.events.people import (
    Forked,
    HandedBack,
    PersonActed,
    RewindAsked,
    Rewound,
    StateEdited,
    TakenOver,
    VerbNoted,
)
from standfast.events.runs import (
    CancelAsked,
    DriverFenced,
    OutputSuspected,
    PauseAsked,
    ResumeAsked,
    RunCancelled,
    RunClaimed,
    RunDone,
    RunFailed,
    RunHalted,
    RunLifted,
    RunPaused,
    RunQueued,
    RunReleased,
    RunStarted,
)
from standfast.events.speech import (
    ClientsReached,
    StreamEnded,
    TextDelta,
    TextFlushed,
    TripwireExcused,
    TripwireTripped,
)
from standfast.events.steps import Emitted, LeftBehind, Noted, PlanChanged, StepFailed, StepFinished, StepSetBack
from standfast.lazily import adapter

__all__ = [
    "Answered",
    "Asked",
    "Asking",
    "ByPerson",
    "CallCut",
    "CallFailed",
    "CallFinished",
    "CallInDoubt",
    "CallProgress",
    "CallResolved",
    "CallStarted",
    "CallWaits",
    "CancelAsked",
    "ClientsReached",
    "DriverFenced",
    "Emitted",
    "Event",
    "Forked",
    "FrameAbandoned",
    "FrameAdvanced",
    "FrameFinished",
    "FrameHeld",
    "FrameOpened",
    "FrameReturned",
    "HandedBack",
    "LateResult",
    "LeftBehind",
    "MailConsumed",
    "MailNotRead",
    "MailReceived",
    "MailResent",
    "MailReturned",
    "Noted",
    "OutputSuspected",
    "PauseAsked",
    "PersonActed",
    "PlanChanged",
    "Replied",
    "ResumeAsked",
    "RewindAsked",
    "Rewound",
    "RunCancelled",
    "RunClaimed",
    "RunDone",
    "RunFailed",
    "RunHalted",
    "RunLifted",
    "RunPaused",
    "RunQueued",
    "RunReleased",
    "RunStarted",
    "Stamped",
    "StateEdited",
    "StepFailed",
    "StepFinished",
    "StepSetBack",
    "StreamEnded",
    "TakenOver",
    "TextDelta",
    "TextFlushed",
    "TripwireExcused",
    "TripwireTripped",
    "UndoEnded",
    "UsageCounted",
    "VerbNoted",
    "decode",
    "plain",
    "read_event",
]

Event: TypeAlias = Annotated[
    RunStarted
    | RunClaimed
    | RunReleased
    | DriverFenced
    | PauseAsked
    | RunHalted
    | RunLifted
    | RunPaused
    | ResumeAsked
    | RunQueued
    | CancelAsked
    | OutputSuspected
    | RunCancelled
    | RunDone
    | RunFailed
    | StepFinished
    | StepSetBack
    | StepFailed
    | Noted
    | Emitted
    | PlanChanged
    | LeftBehind
    | CallStarted
    | CallFinished
    | CallFailed
    | CallCut
    | CallInDoubt
    | CallResolved
    | LateResult
    | UsageCounted
    | CallProgress
    | CallWaits
    | TextFlushed
    | TripwireTripped
    | TripwireExcused
    | StreamEnded
    | ClientsReached
    | Asked
    | Answered
    | MailReceived
    | MailConsumed
    | MailNotRead
    | MailResent
    | MailReturned
    | FrameOpened
    | FrameAdvanced
    | FrameHeld
    | FrameReturned
    | FrameFinished
    | FrameAbandoned
    | Replied
    | TakenOver
    | PersonActed
    | HandedBack
    | StateEdited
    | RewindAsked
    | Rewound
    | Forked
    | VerbNoted
    | UndoEnded,
    Field(discriminator="type"),
]
"""One of the record's events; each has its `seq`, its time and its run."""

_rows: TypeAdapter[list[Event]] = adapter(list[Event])


def decode(body: bytes) -> list[Event]:
    """The events of one row of the record: its first line."""
    return _rows.validate_json(body.partition(b"\n")[0])


def plain(event: Event) -> dict[str, Any]:
    """An event as JSON values."""
    return cast("list[dict[str, Any]]", _rows.dump_python([event], mode="json"))[0]


def read_event(body: Any) -> Event:
    """An event from JSON values."""
    return _rows.validate_python([body])[0]
