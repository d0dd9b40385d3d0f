"""What the store keeps, as plain values: one class a table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import JsonValue, TypeAdapter

from standfast.arguments import LONGEST_MESSAGE, LONGEST_TRACEBACK, ends_of, middle_left_out
from standfast.equal_writes import Writes
from standfast.lazily import adapter
from standfast.loops import Rounds
from standfast.records import (
    Budget,
    CallRef,
    Channel,
    Effect,
    Hold,
    InFlight,
    Json,
    MailKind,
    Mark,
    PlanItem,
    Receipt,
    Residue,
    Settles,
    Spent,
    Status,
    Trigger,
    Undo,
)
from standfast.redaction import LONGEST_HELD, Redactor

REDIRECTS_READ = "mail:redirect:"  # how a step's journal names the redirects it has read

CallStatus = Literal[
    "asking",  # a person is asked; not admitted yet
    "approved",  # a person said yes; may be admitted with the stored arguments
    "denied",
    "withdrawn",  # asked, but the step no longer wants it
    "started",  # admitted: its body may be running
    "not_begun",  # admitted, but known not to have run: may be issued with the same key
    "finished",
    "failed",  # raised; for effects: what happened is unknown
    "not_performed",  # raised NotPerformed: nothing happened
    "in_doubt",
    "check",  # in doubt, and the probe is to be asked again
    "cut",  # a repeatable call that was cut
]
UndoOutcome = Literal["pending", "undone", "failed", "impossible", "in_doubt"]

CLEANING_UP = "cleaning up"  # stands in a run's `retrying` for a call that was cut and has not ended


@dataclass(slots=True)
class HoldInfo:
    """Why a run is held, for people."""

    since: float
    text: str = ""
    data: JsonValue = None


@dataclass(slots=True)
class Fact:
    """What a step relied on: a read call and what it answered."""

    tool: str
    args: JsonValue
    result: JsonValue
    step: int


FrameKind = Literal["task", "later", "next", "now"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A thought on the stack: its goal, how far it has got, and what it stood on when it was put on hold."""

    id: str
    goal: str
    steps: tuple[str, ...] = ()
    done: int = 0
    status: Literal["active", "held", "finished", "abandoned"] = "active"
    kind: FrameKind = "task"  # what it answers: a message of that class, or the task itself
    mail: str | None = None
    opened_at: float = 0.0
    held_at: float | None = None
    worked_at: float = 0.0  # when it was last worked on
    tokens: int = 0  # what its context costs; set by whoever owns it
    relied: tuple[str, ...] = ()  # names of facts it relied on while it was active
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])  # those facts, as they were when it was held
    note: str = ""
    returned: str = ""  # how it was returned to, until it goes on
    why: str = ""  # why that was a reconstruction; empty for a continuation

    @property
    def next(self) -> str | None:
        """The title of the next step; None when all are done or none were declared."""
        return self.steps[self.done] if self.done < len(self.steps) else None


@dataclass(slots=True)
class Stop:
    """A pause or cancel under way, from asked to settled."""

    verb: Literal["pause", "cancel", "rewind", "fail", "release"]
    asked_at: float
    accepted_at: float
    by: str | None = None
    reason: str = ""
    route: str = ""  # by which way they came
    by_token: str = ""  # the token that a server was shown for it
    trigger: Trigger = "api"
    marks: list[Mark] = field(default_factory=list[Mark])
    undo: Undo = "step"
    soft: bool = False
    in_flight: list[CallRef] = field(default_factory=list[CallRef])
    outcomes: list[InFlight] = field(default_factory=list[InFlight])
    residue: list[Residue] = field(default_factory=list[Residue])
    calls_after: int = 0
    result: JsonValue = None


@dataclass(slots=True)
class Target:
    """Where a rewind is going."""

    step: int
    then: Literal["paused", "queued"]
    undoing: list[int] = field(default_factory=list[int])  # the ledger rows it takes back
    by: str | None = None  # who asked for it, for one that has to wait
    reason: str = ""
    trigger: Trigger = "api"
    route: str = ""
    by_token: str = ""


@dataclass(slots=True)
class ErrorInfo:
    """An error that holds or failed a run."""

    type: str
    message: str
    traceback: str
    hint: str = ""

    @property
    def text(self) -> str:
        """What happened, and what to do about it."""
        return f"{self.type}: {self.message}" + (f" ({self.hint})" if self.hint else "")

    def as_kept(self, redactor: Redactor | None) -> ErrorInfo:
        """As it is kept and shown: not longer than people read, and without the key that a provider refused, say."""

        def clean(text: str, most: int = LONGEST_MESSAGE) -> str:
            if redactor is None:
                return middle_left_out(text, most)
            near = most // 2 + 2 * LONGEST_HELD
            if len(text) <= 2 * near:
                return middle_left_out(redactor.text(text), most)
            # Of a huge text only the ends are searched; where they were cut off may be half a secret that nobody knows.
            before, after = redactor.text(text[:near])[:-LONGEST_HELD], redactor.text(text[-near:])[LONGEST_HELD:]
            return ends_of(before, after, len(text), most)

        return ErrorInfo(self.type, clean(self.message), clean(self.traceback, LONGEST_TRACEBACK), clean(self.hint))


@dataclass(slots=True)
class Resume:
    """A resume that waits for a pause to settle."""

    by: str | None
    reason: str
    note: str | None
    accept_stale: bool
    budget: Budget | None
    route: str = ""
    by_token: str = ""


@dataclass(slots=True)
class Taken:
    """A person has the run: who, since when, and what they have done in it."""

    by: str | None
    since: float
    performed: list[Json] = field(default_factory=list[Json])
    settled: bool = False  # what was changed in the run counts from the first time it stood still
    route: str = ""
    by_token: str = ""


@dataclass(slots=True)
class PersonCall:
    """A tool that a person performs in a run they have taken over: a step of its own."""

    id: str  # of the mail that orders it
    tool: str
    args: JsonValue
    by: str | None
    kept: list[Hold]  # what held the run before, and holds it again afterwards
    route: str = ""  # by which way they came
    by_token: str = ""
    decided: bool = False  # what it asked was decided while the run was pausing: it goes on once that has settled


@dataclass(slots=True)
class SetAside:
    """A step of the agent that stands still while a person performs tools."""

    since: int  # where in the record its text begins
    calls: list[str] = field(default_factory=list[str])  # the person's, which are no part of it


@dataclass(slots=True)
class Withheld:
    """What a tripwire kept from everybody: evidence, shown to nobody but whoever reads the store."""

    call: str
    attempt: int
    channel: Channel
    start: int  # of the span, as in its event; on a channel beside it, where holding back began
    text: str


@dataclass(slots=True)
class Left:
    """What went on running when the run had stopped, and the process it is in; kept until it has ended."""

    residue: Residue
    holder: str | None
    blocking: bool = False  # the event loop of that process


@dataclass(slots=True)
class LastWords:
    """What a run ends with, once its locks are released: its last step is over, nothing can change it."""

    result: JsonValue


@dataclass(frozen=True, slots=True)
class Missed:
    """A redirect that a step was to read, and has ended without reading."""

    step: int
    at: float
    item: str = ""  # the plan item that the step worked on, by its id
    title: str = ""


@dataclass(slots=True)
class RunDoc:
    """The part of a run's row that changes seldom; stored as JSON."""

    by: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    deadline: float | None = None
    contract: str = ""
    salt: str = ""  # of digests in the record that stand for what the record must not hold, nor let be guessed
    start_digest: str = ""
    budget: Budget = field(default_factory=Budget)
    holds: dict[Hold, HoldInfo] = field(default_factory=dict[Hold, HoldInfo])
    stop: Stop | None = None
    left: dict[str, Left] = field(default_factory=dict[str, Left])  # by call, or by where the code is
    asked_again: dict[str, int] = field(default_factory=dict[str, int])  # the stop that holds; written repeats, by whom
    target: Target | None = None
    resume_noted: Resume | None = None
    rewind_noted: Target | None = None
    rewinds: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # (epoch, to which step)
    step_once: bool = False
    accept_stale: bool = False
    stale_shown: str = ""  # what the person who accepted it was shown
    set_back: bool = False
    interrupted: bool = False  # a message for now: the step is taken again and may do something first
    branch: bool = False
    diverged_ok: list[str] = field(default_factory=list[str])
    tripwire_ok: list[str] = field(default_factory=list[str])  # calls that a person lets say what they say
    programs: bool = False  # it has started programs, of which something may still be running
    withheld: list[Withheld] = field(default_factory=list[Withheld])
    plan: list[PlanItem] = field(default_factory=list[PlanItem])
    frames: list[Frame] = field(default_factory=list[Frame])  # open ones, the active one last
    orders: list[str] = field(default_factory=list[str])  # mail ids of what people want done to frames
    facts: dict[str, Fact] = field(default_factory=dict[str, Fact])
    values: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    # what calls wait for before they try again, or that they are cleaning up
    retrying: dict[str, str] = field(default_factory=dict[str, str])
    taken: Taken | None = None
    person: PersonCall | None = None
    steps_of_people: list[int] = field(default_factory=list[int])  # which of the run's steps people took
    person_steps: int = 0  # how many, in stores that did not keep which ones
    set_aside: SetAside | None = None
    took_mail: bool = False
    turn_given_for: str = ""
    redirects: dict[str, int] = field(default_factory=dict[str, int])  # sent, not yet read: the first attempt that can
    missed: dict[str, Missed] = field(default_factory=dict[str, Missed])  # redirects that were not read, by mail id
    stage_ids: dict[str, str] = field(default_factory=dict[str, str])  # of snapshots that knew stages by position
    rounds: Rounds | None = None  # what a run with a budget of repeats did lately
    writes: Writes | None = None  # made in one step after the other
    changed: str = ""
    redirected: list[str] = field(default_factory=list[str])  # the redirects in `changed`
    baseline: int = 0
    parent_call: str = ""
    ending: LastWords | None = None
    result: JsonValue = None
    error: ErrorInfo | None = None
    receipt: Receipt | None = None
    paused_at: float | None = None
    paused_for: float = 0.0
    ended_at: float | None = None
    forked_from: str | None = None
    forgotten: str = ""  # when, by whom and why its content was deleted, in words

    def own_step(self, step: int) -> int:
        """Which of the agent's own steps a step of the run is: `run.step`, and what keys of its calls are made from."""
        return step - len(self.steps_of_people) - self.person_steps

    @property
    def may_differ(self) -> bool:
        """May the step, taken again, do something else than it did before? Somebody has said something new."""
        return self.set_back or self.interrupted

    @property
    def read_now(self) -> set[str]:
        """The redirects that the step in progress has read: journaled, so that it reads the same when repeated."""
        lists = [v for name, v in self.values.items() if name.startswith(REDIRECTS_READ) and isinstance(v, list)]
        return {mail for value in lists for mail in value if isinstance(mail, str)}

    @property
    def unread(self) -> dict[str, Missed]:
        """Redirects that a step has missed, and that the step in progress has not read either."""
        if not self.missed:
            return {}
        read = self.read_now
        return {mail: one for mail, one in self.missed.items() if mail not in read}


@dataclass(slots=True)
class RunRow:
    """A run. `seq` and `fence` guard every write: a writer that read an older row loses."""

    n: int
    id: str
    agent: str
    status: Status
    seq: int
    head: bytes
    fence: int
    attempt: int
    epoch: int
    step: int
    snapshot: int
    holder: str | None
    in_flight: list[CallRef]
    spent: Spent
    doc: RunDoc
    parent: str | None
    created: float
    wake_at: float | None = None

    @property
    def named_in_flight(self) -> list[CallRef]:
        """The calls in flight, each with its run: beside them an answer may name calls of child runs."""
        return [replace(ref, run=self.id) for ref in self.in_flight]

    def copy(self) -> RunRow:
        """A row that can be changed without changing this one; the document is shared."""
        return self.gone_on(self.attempt, self.step, self.in_flight.copy(), replace(self.spent))

    def gone_on(self, attempt: int, step: int, in_flight: list[CallRef], spent: Spent) -> RunRow:
        """The row of a run that has got so far; this one is not changed, the document is shared."""
        return RunRow(
            self.n,
            self.id,
            self.agent,
            self.status,
            self.seq,
            self.head,
            self.fence,
            attempt,
            self.epoch,
            step,
            self.snapshot,
            self.holder,
            in_flight,
            spent,
            self.doc,
            self.parent,
            self.created,
            self.wake_at,
        )


@dataclass(slots=True, kw_only=True)
class CallRow:
    """A call of a run: journal, question and ledger in one."""

    n: int = 0
    run: int
    id: str
    epoch: int
    step: int
    attempt: int
    tool: str
    kind: str
    effect: Effect
    settles: Settles = "step"
    undoable: bool = False
    status: CallStatus
    args: bytes
    wanted: str | None = None  # the arguments the step asked for, if a person approved others
    before: bytes | None = None
    result: bytes | None = None
    error: str | None = None
    message: str | None = None
    question: str | None = None
    options: JsonValue = None
    schema: JsonValue = None
    wake_at: float | None = None
    default: bytes | None = None
    undo: UndoOutcome | None = None
    tries: int = 0
    undo_reason: str = ""
    left_by: str | None = None  # the driver that had begun it, when it was taken over or left: it may still be at it
    title: str = ""
    since: float = 0.0
    person: str = ""  # the order of a person whose call this is; empty: the agent's

    @property
    def ref(self) -> CallRef:
        return CallRef(self.id, self.tool, self.effect, self.since, self.title)


def superseded(call: CallRow, rewinds: list[tuple[int, int]]) -> bool:
    """Did a rewind go back before this call's step? Then no later state builds on it."""
    return any(epoch > call.epoch and to <= call.step for epoch, to in rewinds)


@dataclass(slots=True, kw_only=True)
class MailRow:
    """A redirect, a message or an order about a frame, and what became of it."""

    run: int
    id: str
    kind: MailKind
    text: str
    data: JsonValue = None
    when: Literal["now", "next", "later"]
    by: str | None = None
    route: str = ""  # by which way it came; filled in when it is written
    by_token: str = ""
    at: float = 0.0
    status: Literal["pending", "consumed", "returned"] = "pending"
    step: int | None = None
    reason: str = ""
    not_before: int = 0
    always: bool = False  # read whatever is on the stack: what a person says on handing the run back


def order_of(mail: MailRow) -> Json:
    """What an order says: which it is, about which frame, and why; empty for other mail."""
    return mail.data if mail.kind == "order" and isinstance(mail.data, dict) else {}


@dataclass(slots=True, kw_only=True)
class HaltRow:
    """An operator's halt as it is stored: `doc` is what was signed."""

    id: str
    doc: bytes
    key: bytes | None = None
    signature: bytes | None = None
    lifted: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltDoc:
    """What a halt says: which runs it holds, who set it, and why."""

    id: str
    at: float = 0.0
    by: str | None = None
    reason: str = ""
    agent: str | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    all: bool = False
    then: Literal["pause", "cancel"] = "pause"
    route: str = ""  # by which way it was set
    by_token: str = ""  # the token that a server was shown for it


@dataclass(slots=True, kw_only=True)
class LeaseRow:
    """A process that drives runs, as others see it."""

    id: str
    counter: int
    boot: str
    pid: int
    started: str
    agents: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """A signed statement of where the records stood."""

    n: int
    at: float
    doc: bytes
    key: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Stood:
    """Where a run stood; `side` is the digest of what stands beside its record, if the run was at rest."""

    run: str
    status: str
    seq: int
    head: bytes
    side: bytes | None


documents: TypeAdapter[RunDoc] = adapter(RunDoc)


def child_id(parent: str, call: str) -> str:
    """A child's id derives from the key of the call that begins it: a repeated call finds the same child."""
    return f"{parent}.{call.rpartition('-')[2]}"
