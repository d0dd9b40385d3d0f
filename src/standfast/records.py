"""The plain values that pass between standfast and its users."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from pydantic import JsonValue

from standfast.caps import Unsaid, known_end, other_cap, whole_cap

Json: TypeAlias = dict[str, JsonValue]
"""A JSON object."""

R = TypeVar("R")
B = TypeVar("B")

Effect = Literal["read", "idempotent", "write", "irreversible"]
Settles = Literal["step", "run", "never"]
Undo = Literal["step", "all", "none"]
Mode = Literal["pause", "soft", "cancel"]  # how what is in flight is stopped
When = Literal["now", "next", "later"]
PlanStatus = Literal["queued", "running", "done", "dropped"]
MailKind = Literal["redirect", "message", "order"]
Channel = Literal["text", "reasoning", "tool_call"]
Trigger = Literal["api", "button", "key", "terminal", "operator", "parent", "deadline", "budget", "tripwire", "run"]
"""What set off a stop: a program; a button, a key, a typed command; an operator's halt; the run above it, its deadline,
its budget, a tripwire; or the run itself (it asks, failed, or is in doubt)."""
Hand = Literal["api", "button", "key", "terminal"]
"""The triggers that are somebody's hand: what a client may say of itself."""
NeedKind = Literal["approval", "question", "doubt", "stale", "budget", "error", "diverged", "tripwire", "unread"]
MailFate = Literal["sent", "read", "applied", "not_read", "returned"]

NO_TOOLS = ("ask", "sleep", "child")
"""Calls of a step that are nothing by themselves: no person performs them."""

Status = Literal["queued", "running", "pausing", "paused", "cancelling", "cancelled", "done", "failed"]
LIVE: tuple[Status, ...] = ("queued", "running", "pausing", "paused", "cancelling")
ENDED: tuple[Status, ...] = ("cancelled", "done", "failed")

Hold = Literal[
    "user", "budget", "loop", "asks", "waiting", "in_doubt", "stale", "diverged", "error", "tripwire", "halted", "taken"
]


# --- what a step returns -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Done(Generic[R]):
    """The run is finished, with this result."""

    result: R


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to do until mail comes: paused(waiting)."""


@dataclass(frozen=True, slots=True)
class Again:
    """The stage is taken again, after a boundary."""


# --- what a person decides about a call in doubt -----------------------------------------------


@dataclass(frozen=True, slots=True)
class Happened:
    """The effect took place, with this result."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NotHappened:
    """The effect did not take place; the call may be issued with the same key."""


@dataclass(frozen=True, slots=True)
class CheckAgain:
    """Ask the probe once more."""


Decision: TypeAlias = Happened | NotHappened | CheckAgain


# --- what a verb answers -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallRef:
    """A call, named so that a person knows which one is meant."""

    id: str
    tool: str
    effect: Effect = "read"
    since: float = 0.0
    title: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The verb holds from `at` on, durably. `in_flight` names the calls it could not precede."""

    at: float
    seq: int
    in_flight: tuple[CallRef, ...] = ()
    mail: str | None = None
    note: str = ""

    def __bool__(self) -> Literal[True]:
        return True


@dataclass(frozen=True, slots=True)
class Choice:
    """A verb with its arguments, ready to be sent: `await handle.choose(need, choice)`."""

    verb: str
    args: Json = field(default_factory=dict[str, JsonValue])
    label: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The verb makes no sense now; nothing was changed. `choices` are what would."""

    why: str
    choices: tuple[Choice, ...] = ()

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True, slots=True)
class TooLate:
    """The run had already reached `status`; nothing was changed."""

    status: Status

    def __bool__(self) -> Literal[False]:
        return False


Answer: TypeAlias = Accepted | Refused | TooLate
"""What every verb answers; only Accepted is truthy."""


# --- budgets ------------------------------------------------------------------------------


def _unsaid() -> Literal["pause"]:
    return cast("Literal['pause']", Unsaid("pause"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Caps that pause (or cancel) a run; None means no cap."""

    steps: int | None = None
    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    repeats: int | None = None
    then: Literal["pause", "cancel"] | None = field(default_factory=_unsaid)  # None: as the budget before it says

    def __post_init__(self) -> None:
        whole_cap("steps", self.steps)
        whole_cap("calls", self.calls)
        whole_cap("tokens", self.tokens)
        other_cap("cost", self.cost)
        other_cap("seconds", self.seconds)
        whole_cap("repeats", self.repeats)
        known_end(self.then)


@dataclass(slots=True)
class Spent:
    """What a run has used so far, its children included."""

    steps: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


# --- what tools, undos and probes are given --------------------------------------------------


@dataclass(frozen=True, slots=True)
class Performed(Generic[R, B]):
    """A call as its undo or probe sees it. `result` is None when it was cut or is in doubt."""

    key: str
    args: dict[str, Any]
    before: B
    result: R | None
    status: str


@dataclass(frozen=True, slots=True)
class Completed:
    """How a program ended."""

    returncode: int
    stdout: str
    stderr: str


# --- mail ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """Something a person sent into the run."""

    id: str
    text: str
    data: JsonValue = None
    when: When = "next"
    by: str | None = None
    at: float = 0.0
    always: bool = False  # came with the run when a person handed it back: read whatever is on the stack
    by_token: str = ""  # the token that a server was shown for it; empty: `by` is what they called themselves


@dataclass(frozen=True, slots=True)
class MailView:
    """A piece of mail and what became of it."""

    id: str
    kind: MailKind
    text: str
    when: str
    by: str | None
    at: float
    status: Literal["pending", "consumed", "returned"]
    step: int | None = None
    reason: str = ""
    disposition: str = ""  # what will become of it or has, in words
    fate: MailFate = "sent"  # "not_read": a step that was to read it, or the run, has ended without doing so
    route: str = ""  # by which way it came
    by_token: str = ""  # the token that a server was shown for it; empty: `by` is what they called themselves


# --- views --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanItem:
    """A line of the plan that people see."""

    id: str
    title: str
    status: PlanStatus = "queued"
    step: int | None = None  # the step that began it
    was: str = ""  # what it said before a person rewrote it
    redirects: bool = True  # False: the code of this item reads no redirect, so none is taken for it


@dataclass(frozen=True, slots=True)
class Need:
    """Something only a person can settle. `choices` can be sent back as they are.

    `Happened()` among them is for a call that returns nothing; of one that returns something, give the result.
    """

    id: str
    kind: NeedKind
    text: str
    call: str | None = None
    since: float = 0.0
    choices: tuple[Any, ...] = ()
    about: str = ""  # the call that waits for approval, with its arguments

    @property
    def words(self) -> str:
        """What is asked, and about which call."""
        return f"{self.text} {self.about}" if self.about else self.text


@dataclass(frozen=True, slots=True)
class Interruption:
    """What an earlier attempt at this step left: partial text, finished and cut calls."""

    text: str = ""
    finished: tuple[CallRef, ...] = ()
    cut: tuple[CallRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Consequences:
    """What each control would do to the run now, in words; empty where nobody can tell."""

    pause: str = ""  # of a paused run: what resume would do
    redirect: str = ""
    cancel: str = ""
    no_redirect: str = ""  # why a redirect of what the run does now is not offered; empty if it is


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run as people see it now."""

    id: str
    agent: str
    status: Status
    holds: tuple[Hold, ...] = ()
    waiting_for: str = ""
    step: int = 0
    attempt: int = 0
    epoch: int = 0
    seq: int = 0
    plan: tuple[PlanItem, ...] = ()
    elapsed: float = 0.0
    paused_for: float = 0.0
    created_at: float = 0.0
    budget: Budget = field(default_factory=Budget)
    spent: Spent = field(default_factory=Spent)
    frames: tuple[Json, ...] = ()  # open ones, the active one last
    held_tokens: int = 0  # what the frames on hold cost
    taken_by: str = ""  # who has taken the run over; "somebody" if they gave no name
    taken_route: str = ""  # by which way they came
    taken_token: str = ""  # the token that a server was shown for it
    mail: tuple[MailView, ...] = ()
    needs: list[Need] = field(default_factory=list[Need])
    in_flight: tuple[CallRef, ...] = ()
    labels: dict[str, str] = field(default_factory=dict[str, str])
    parent: str | None = None
    changed: str = ""
    error: str = ""
    traceback: str = ""
    driver: str = ""
    not_read: tuple[str, ...] = ()  # redirects that a step, or the run, has ended without reading, in words
    child_needs: dict[str, str] = field(default_factory=dict[str, str])  # runs below it that need someone: in words
    consequences: Consequences = field(default_factory=Consequences)


# --- halts --------------------------------------------------------------------------------

HaltSignature = Literal["none", "unchecked", "good", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """An operator's halt: what it holds, who set it and why. It holds until it is lifted, signed or not."""

    id: str
    at: float
    by: str | None = None
    reason: str = ""
    agent: str | None = None  # of this agent; with labels: and with these labels
    labels: dict[str, str] = field(default_factory=dict[str, str])
    all: bool = False
    then: Literal["pause", "cancel"] = "pause"
    lifted_at: float | None = None
    signature: HaltSignature = "none"
    key: str = ""  # whose signature it is, in hex
    runs: int = 0  # stopped as it was set, freed as it was lifted; in a list: held now
    in_flight: tuple[CallRef, ...] = ()  # as it was set: the calls it could not precede
    unreadable: tuple[str, ...] = ()  # runs whose rows are damaged; nobody can drive those
    note: str = ""
    route: str = ""  # by which way it was set
    by_token: str = ""  # the token that a server was shown for it; empty: `by` is what they called themselves


# --- moments ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """A time by two clocks: the wall clock's, and seconds since the start of a machine, which `boot` names."""

    at: float
    uptime: float | None = None
    boot: str | None = None


# --- what clients were given ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of what one try of a call said on a channel."""

    call: str
    attempt: int
    take: int  # how often the call had begun anew in this attempt
    channel: Channel
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Characters of a channel, from `start` on, that a tripwire kept in; `digest` is SHA-256 of them."""

    channel: Channel
    start: int
    characters: int
    digest: str


Way = Literal["page", "events", "all_events", "agui"]
"""How a client was connected: the WebSocket of pages and bars, the event streams of one run or of all, AG-UI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReach:
    """What one client had been handed, as its server counted it: handed to the connection, not seen by anybody."""

    client: str
    by: str | None = None  # the actor's name: a token's, never its secret
    by_token: str = ""  # the token that the server was shown; empty: `by` is what they called themselves
    way: Way
    program: str = ""  # what it calls itself
    since: Moment
    after: int = 0  # it was given the record's events from here ...
    seq: int = 0  # ... to here
    last_byte: Moment | None = None  # of the run's text; None: it was given none
    after_accepted: int = 0  # characters that it was handed after the stop had been accepted
    at_least: bool = False  # it was given too much since for all of that to be counted
    left: Moment | None = None  # it had gone by then
    spans: tuple[Span, ...] = ()  # newest last
    left_out: int = 0  # older spans


# --- receipts -----------------------------------------------------------------------------


EndedAs = Literal["aborted", "finished", "failed", "in_doubt", "still_running"]
ByItself = Literal["finished", "failed"]


@dataclass(frozen=True, slots=True)
class InFlight:
    """A call the stop found in flight, and how it ended."""

    call: CallRef
    outcome: EndedAs
    tokens: int = 0  # that had come from a model
    estimated: bool = False  # a cut stream has no last word on its usage
    last_byte_at: float | None = None  # from the provider
    threads: ByItself | None = None  # how the threads of a cut write ended, if they came to their own end


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in what a run says that somebody found suspicious: `offset` characters of the call's text."""

    call: str
    offset: int


@dataclass(frozen=True, slots=True)
class Undone:
    """An effect the stop set out to take back, and what became of that."""

    call: CallRef
    outcome: Literal["undone", "failed", "impossible", "in_doubt"]
    tries: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Residue:
    """Something that could not be stopped or undone."""

    what: str
    why: str
    call: CallRef | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a stop did. Everything in it is counted or recorded, never assumed."""

    run: str
    status: Status
    asked_at: float
    accepted_at: float
    settled_at: float
    by: str | None = None
    reason: str = ""
    finished_steps: int = 0
    in_flight: tuple[InFlight, ...] = ()
    undone: tuple[Undone, ...] = ()
    residue: tuple[Residue, ...] = ()
    kept: tuple[CallRef, ...] = ()
    partial_output: str = ""
    result: JsonValue = None
    calls_after_cancel: int = 0
    usage: Spent = field(default_factory=Spent)
    trigger: Trigger = "api"
    marks: tuple[Mark, ...] = ()  # where its output was called suspicious
    undo: Undo | None = None
    soft: bool = False
    not_read: tuple[str, ...] = ()  # redirects that nobody has read, in words
    route: str = ""  # by which way the stop was asked for
    by_token: str = ""  # the token that a server was shown for it; empty: `by` is what they called themselves

    @property
    def last_byte_at(self) -> float | None:
        """When the last byte came from a model's provider, if one was speaking."""
        return max((f.last_byte_at for f in self.in_flight if f.last_byte_at is not None), default=None)
