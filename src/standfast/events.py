"""The record's events: a typed union, each with its `seq` and time.

Everything shown, streamed or proved comes from these. They are written as JSON, one
row a commit, and read back through `decode`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import Field, JsonValue, TypeAdapter

from standfast.guarding import Action, Excused, TripKind
from standfast.lazily import adapter
from standfast.records import (
    CallRef,
    Channel,
    ClientReach,
    Effect,
    EndedAs,
    HeldBack,
    Json,
    MailKind,
    Moment,
    PlanItem,
    Receipt,
    Status,
    Trigger,
    Undo,
)


@dataclass(slots=True, kw_only=True)
class _Event:
    seq: int = 0
    at: float = 0.0
    run: str = ""  # filled in when read: the record itself belongs to one run


@dataclass(slots=True, kw_only=True)
class ByPerson(_Event):
    """What somebody did: `by` says who, `route` by which way they came (a path of the server, a command)."""

    route: str = ""


@dataclass(slots=True, kw_only=True)
class Stamped(_Event):
    """An event of a stop: beside its time, the seconds since its machine was started, and which start that was."""

    uptime: float | None = None
    boot: str | None = None


@dataclass(slots=True, kw_only=True)
class Asking(ByPerson):
    """The commit with which a stop holds, stamped too; `asked` is when somebody, or something, asked for it."""

    asked: Moment | None = None
    uptime: float | None = None
    boot: str | None = None


# --- the life of a run -----------------------------------------------------------------------


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
class RunClaimed(_Event):
    type: Literal["run_claimed"] = "run_claimed"
    driver: str
    fence: int
    step: int
    attempt: int
    taken_from: str | None = None
    status: Status = "running"


@dataclass(slots=True, kw_only=True)
class RunReleased(_Event):
    type: Literal["run_released"] = "run_released"
    driver: str
    why: str
    status: Status = "queued"


@dataclass(slots=True, kw_only=True)
class DriverFenced(_Event):
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
class RunLifted(_Event):
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
    """The last hold went by an answer, a decision or mail."""

    type: Literal["run_queued"] = "run_queued"
    why: str
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
class OutputSuspected(_Event):
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


# --- steps -----------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class StepFinished(_Event):
    type: Literal["step_finished"] = "step_finished"
    step: int
    attempt: int


@dataclass(slots=True, kw_only=True)
class StepSetBack(_Event):
    type: Literal["step_set_back"] = "step_set_back"
    step: int
    attempt: int
    why: str


@dataclass(slots=True, kw_only=True)
class StepFailed(_Event):
    type: Literal["step_failed"] = "step_failed"
    step: int
    attempt: int
    error: str
    traceback: str


@dataclass(slots=True, kw_only=True)
class Noted(_Event):
    type: Literal["noted"] = "noted"
    text: str
    attempt: int


@dataclass(slots=True, kw_only=True)
class Emitted(_Event):
    type: Literal["emitted"] = "emitted"
    name: str
    data: JsonValue
    attempt: int


@dataclass(slots=True, kw_only=True)
class PlanChanged(_Event):
    type: Literal["plan_changed"] = "plan_changed"
    plan: Sequence[PlanItem]


@dataclass(slots=True, kw_only=True)
class LeftBehind(_Event):
    """Something of this run is still running although it should not be."""

    type: Literal["left_behind"] = "left_behind"
    what: str
    where: str


# --- calls -----------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class CallStarted(_Event):
    type: Literal["call_started"] = "call_started"
    call: str
    tool: str
    effect: Effect
    args: JsonValue
    attempt: int
    title: str = ""
    why: str = ""


@dataclass(slots=True, kw_only=True)
class CallFinished(_Event):
    type: Literal["call_finished"] = "call_finished"
    call: str
    result: JsonValue


@dataclass(slots=True, kw_only=True)
class CallFailed(_Event):
    type: Literal["call_failed"] = "call_failed"
    call: str
    error: str
    message: str
    effect_unknown: bool = False


@dataclass(slots=True, kw_only=True)
class CallCut(_Event):
    type: Literal["call_cut"] = "call_cut"
    call: str
    outcome: str
    why: str


@dataclass(slots=True, kw_only=True)
class CallInDoubt(_Event):
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
class UsageCounted(_Event):
    """What calls (or a child run, by `calls`) have used since the last commit."""

    type: Literal["usage_counted"] = "usage_counted"
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    calls: int = 0


@dataclass(slots=True, kw_only=True)
class LateResult(_Event):
    """A body ended after its run had gone on without it; kept out of the run."""

    type: Literal["late_result"] = "late_result"
    call: str
    result: JsonValue = None
    error: str = ""


@dataclass(slots=True, kw_only=True)
class CallProgress(_Event):
    type: Literal["call_progress"] = "call_progress"
    call: str
    fraction: float
    text: str


@dataclass(slots=True, kw_only=True)
class CallWaits(_Event):
    """A call waits before it tries again: a provider asked it to, or did not answer."""

    type: Literal["call_waits"] = "call_waits"
    call: str
    seconds: float
    why: str
    tries: int


@dataclass(slots=True, kw_only=True)
class TextFlushed(_Event):
    """What a call has said since the last flush. Offset 0 begins anew: the call was repeated."""

    type: Literal["text_flushed"] = "text_flushed"
    call: str
    offset: int
    text: str
    attempt: int = 0
    channel: Channel = "text"
    take: int = 0  # how often the call had begun anew in this attempt


@dataclass(slots=True, kw_only=True)
class TripwireTripped(_Event):
    """A call gave away what a tripwire guards: where on its channel, in which form, never the words.

    Told again with `open` false when a flagged span has ended. Of what its channel had said, `held_back` characters
    from `held_from` on were kept in; `digest` is theirs. `held_beside` is the same of the call's other channels.
    """

    type: Literal["tripwire_tripped"] = "tripwire_tripped"
    call: str
    channel: Channel
    kind: TripKind
    variant: str
    start: int
    end: int
    action: Action
    open: bool = False
    held_back: int = 0
    held_from: int | None = None  # None: nothing was held back
    digest: str = ""
    held_beside: Sequence[HeldBack] = ()
    attempt: int = 0
    take: int = 0


@dataclass(slots=True, kw_only=True)
class TripwireExcused(_Event):
    """Matches that a tripwire let pass: the user had said them, or everybody may know them."""

    type: Literal["tripwire_excused"] = "tripwire_excused"
    call: str
    why: Excused
    hits: int
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class StreamEnded(_Event):
    """The stream of a provider that a stop found open: when its last byte came, and how much it had said.

    `characters` count what came, also what was held back; a request of somebody's own client says none.
    """

    type: Literal["stream_ended"] = "stream_ended"
    call: str
    tool: str
    outcome: EndedAs
    last_byte: Moment | None = None  # None: nothing had come
    characters: dict[Channel, int] = field(default_factory=dict[Channel, int])
    attempt: int = 0
    take: int = 0


@dataclass(slots=True, kw_only=True)
class ClientsReached(Stamped):
    """What each client of one server had been handed when a stop had settled; written once a stop and server."""

    type: Literal["clients_reached"] = "clients_reached"
    server: str
    stop: int  # seq of the event with which the stop was accepted
    settled: int  # seq of the event with which it had settled
    clients: Sequence[ClientReach] = ()
    left_out: int = 0  # clients beyond those named
    fetched: int = 0  # requests this server had answered with what the run had said


@dataclass(slots=True, kw_only=True)
class Asked(_Event):
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


# --- mail ------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class MailReceived(ByPerson):
    type: Literal["mail_received"] = "mail_received"
    mail: str
    kind: MailKind
    text: str
    when: str
    by: str | None
    disposition: str
    data: JsonValue = None


@dataclass(slots=True, kw_only=True)
class MailConsumed(_Event):
    type: Literal["mail_consumed"] = "mail_consumed"
    mail: str
    step: int


@dataclass(slots=True, kw_only=True)
class MailReturned(_Event):
    type: Literal["mail_returned"] = "mail_returned"
    mail: str
    reason: str


# --- frames: tagged with the attempt, as everything a step says of itself --------------------------


@dataclass(slots=True, kw_only=True)
class FrameOpened(_Event):
    type: Literal["frame_opened"] = "frame_opened"
    frame: str
    goal: str
    steps: Sequence[str] = ()
    kind: str = "task"
    mail: str | None = None
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameAdvanced(_Event):
    type: Literal["frame_advanced"] = "frame_advanced"
    frame: str
    done: int
    of: int
    next: str | None = None
    note: str = ""
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameHeld(_Event):
    type: Literal["frame_held"] = "frame_held"
    frame: str
    goal: str
    at_step: str
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameReturned(_Event):
    """The run has come back to a thought, aloud; `why` says why that is no continuation."""

    type: Literal["frame_returned"] = "frame_returned"
    frame: str
    text: str
    reconstructed: bool = False
    why: str = ""
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameFinished(_Event):
    type: Literal["frame_finished"] = "frame_finished"
    frame: str
    goal: str
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameAbandoned(ByPerson):
    type: Literal["frame_abandoned"] = "frame_abandoned"
    frame: str
    goal: str
    by: str | None
    reason: str
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class Replied(_Event):
    """What the agent answered; `lines` are the runtime's own: what is on hold, and what was returned to."""

    type: Literal["replied"] = "replied"
    mail: str | None
    text: str
    lines: Sequence[str] = ()
    attempt: int = 0


# --- a person in the run ------------------------------------------------------------------------


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


# --- edits, time travel ------------------------------------------------------------------------


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
class Rewound(_Event):
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


@dataclass(slots=True, kw_only=True)
class UndoEnded(_Event):
    type: Literal["undo_ended"] = "undo_ended"
    call: str
    tool: str
    outcome: Literal["undone", "failed", "impossible", "in_doubt", "retrying"]
    tries: int
    reason: str = ""
    details: Json = field(default_factory=dict[str, JsonValue])


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


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text as it comes, before it is flushed: placed by call and offset, without a seq."""

    call_id: str
    offset: int
    text: str
    channel: Channel = "text"
    type: Literal["text_delta"] = "text_delta"
    attempt: int = 0
    take: int = 0


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
