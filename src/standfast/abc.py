"""The seams: what can be replaced, and what a replacement must keep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, runtime_checkable

from standfast.errors import StoreDamaged, StoreFailed
from standfast.events import Event
from standfast.house_events import HouseEvent
from standfast.log_places import LogRows
from standfast.quick_events import Quick, Sealed
from standfast.records import Json, Moment, Status
from standfast.replies import Delta, Dialect, Request
from standfast.rights import Scope, Token
from standfast.rows import CallRow, CheckpointRow, HaltRow, LeaseRow, MailRow, RunDoc, RunRow, Stood

if TYPE_CHECKING:
    from standfast.replies import Reply
    from standfast.tools import Call

T = TypeVar("T")

Point = Literal["admitted", "performed", "recorded"]

Use = Literal["ordinary", "upkeep", "control"]
"""What a write is to a full disk: refused; let through if there is room; or a stop, for which room is kept."""


class Clock(Protocol):
    """Time. Wall time is for people, monotonic time for deadlines."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...

    async def back_off(self, seconds: float) -> None:
        """Wait before trying again; a test's clock need not be moved for it."""
        ...


class Ids(Protocol):
    """Where new ids come from."""

    def run(self) -> str: ...

    def mail(self) -> str: ...

    def process(self) -> str: ...

    def halt(self) -> str: ...


class Points(Protocol):
    """Places in a call's life where a test may stop the world. None of them exists in production."""

    async def reached(self, run: str, tool: str, point: Point) -> None: ...


class Cursor(Protocol):
    """The part of sqlite3.Cursor that the store uses."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...


class Connection(Protocol):
    """The part of sqlite3.Connection that the store uses; raises sqlite3's exceptions."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...

    def close(self) -> None: ...


Connect = Callable[[str], Connection]


class House(Protocol):
    """The part of a transaction that concerns the store as a whole: rights, refused attempts, halts, exports."""

    def note(self, *events: HouseEvent) -> None:
        """Append to the record of the house; each event is given its `seq` and its time."""
        ...

    def house(self, after: int = ..., limit: int = ...) -> list[HouseEvent]: ...

    def house_head(self) -> tuple[int, bytes]:
        """Where the record of the house stands: the last seq and its hash."""
        ...

    def verify_house(self) -> str:
        """Why the record of the house is not what was written; empty if it is."""
        ...


class Halts(Protocol):
    """The part of a transaction that concerns operators' halts."""

    def insert_halt(self, halt: HaltRow) -> str:
        """A digest of the row, for the record of the house."""
        ...

    def halt(self, id: str) -> HaltRow | None: ...  # noqa: A002 - the word users know

    def halts(self, *, lifted: bool = ...) -> list[HaltRow]:
        """Those that hold, oldest first; with `lifted`, every one there ever was."""
        ...

    def lift_halt(self, id: str) -> bool:  # noqa: A002
        """It holds no longer; False if it did not hold."""
        ...

    def runs_to_halt(self, agent: str | None, labels: dict[str, str]) -> list[str]:
        """Live runs of that agent with those labels, and all that live below them; a parent before its children."""
        ...

    def runs_halted_by(self, id: str) -> list[str]:  # noqa: A002
        """Runs whose halted hold names this halt; a parent before its children."""
        ...


class Tokens(Protocol):
    """The part of a transaction that knows rights."""

    def put_token(self, token: Token, hash: bytes) -> str:  # noqa: A002
        """Keep a token under the hash of its secret; a digest of the row, for the record of the house."""
        ...

    def token(self, hash: bytes) -> Token | None: ...  # noqa: A002

    def token_named(self, id: str) -> Token | None: ...  # noqa: A002

    def tokens(self) -> list[Token]:
        """All of them, oldest first, those that count no longer too."""
        ...

    def end_token(self, id: str) -> None:  # noqa: A002
        """It counts no longer; the first time stands."""
        ...

    def lineage(self, run: str) -> list[tuple[str, dict[str, str]]]:
        """A run and those it descends from, with their labels; empty if there is no such run."""
        ...


class Evidence(House, Protocol):
    """The part of a transaction that concerns proof: where the records stand, and who has signed for it."""

    def moved(self, after: int) -> list[int]:
        """The row numbers of the runs whose record has grown after a place (see `last_record`)."""
        ...

    def resting(self, after: int) -> bool:
        """Is one of them paused or ended now?"""
        ...

    def numbers(self, ids: list[str]) -> list[int]:
        """The row numbers of those of these runs that are there."""
        ...

    def stood(self, n: int) -> Stood | None: ...

    def house_side(self) -> bytes:
        """The digest of what stands beside the record of the house."""
        ...

    def last_checkpoint(self) -> CheckpointRow | None: ...

    def checkpoints(self, after: int = ..., limit: int = ...) -> list[CheckpointRow]: ...

    def add_checkpoint(self, checkpoint: CheckpointRow) -> None: ...

    def forks(self, source: str, after: int = ...) -> list[str]:
        """Runs that were forked from this one; those whose numbers come after this one."""
        ...

    def last_run(self) -> int:
        """The number of the newest run."""
        ...

    def has_content(self, n: int) -> bool:
        """Has the first row of a run's record its content? It is the last to lose it when the run is forgotten."""
        ...

    def requests_of(self, run: str) -> list[str]:
        """Requests about a run whose answers are remembered."""
        ...

    def delete_some(self, n: int, logs: list[str], requests: list[str]) -> bool:
        """Delete a little of the calls and mail of a run, of these logs and answers; False if nothing is left."""
        ...

    def bury_some(self, n: int, before: int) -> int:
        """Delete the content of some rows of a run's record, newest first; each keeps its place by its digests.

        Returns the seq of the oldest one that has lost it, or 0 if none before this seq is left.
        """
        ...

    def forget_row(self, n: int, doc: bytes) -> None:
        """Put this document in place of the run's."""
        ...

    # Rows as they are, with the columns that `stores.sides` names.

    def plain_run(self, n: int) -> Sequence[Any] | None: ...

    def plain_runs(self) -> list[int]: ...

    def plain_record(self, n: int) -> Iterator[Sequence[Any]]: ...

    def plain_calls(self, n: int) -> list[Sequence[Any]]: ...

    def plain_mail(self, n: int) -> list[Sequence[Any]]: ...

    def plain_contract(self, id: str | None) -> Sequence[Any] | None: ...  # noqa: A002

    def plain_contracts(self) -> list[Sequence[Any]]: ...

    def plain_log(self, log: str) -> Iterator[Sequence[Any]]: ...

    def plain_logs(self) -> list[Sequence[Any]]: ...

    def plain_house(self) -> Iterator[Sequence[Any]]: ...

    def plain_halts(self) -> list[Sequence[Any]]: ...

    def plain_tokens(self) -> list[Sequence[Any]]: ...

    def strays(self) -> list[Sequence[Any]]:
        """Rows that belong to no run: table and number."""
        ...


class Tx(Evidence, Halts, Tokens, Protocol):
    """One transaction. All of it is written, or none."""

    now: float
    uptime: float  # read with it: one moment by both clocks
    route: str  # by which way a person's verb came: written into the events that name who
    held_since: Moment | None  # for a stop that is written late: since when it has held in the process that was asked

    @property
    def accepted(self) -> float:
        """The time from which what is written here holds, if it is a stop."""
        ...

    def run(self, id: str) -> RunRow | None: ...  # noqa: A002 - the word users know

    def runs(self, ids: Sequence[str]) -> dict[str, RunRow | StoreDamaged]:
        """Many at once; of one that cannot be read, why. One that is not there is missing."""
        ...

    def run_n(self, n: int) -> RunRow | None: ...

    def insert_run(self, row: RunRow, events: Sequence[Event], state: bytes) -> None: ...

    def advance(
        self,
        row: RunRow,
        events: Sequence[Event | Quick | Sealed],
        seq: int,
        step: int | None,
        state: bytes | None,
        logs: Sequence[LogRows] = ...,
    ) -> bool:
        """The driver's own progress from `seq`; False, and nothing written, if the run has moved since.

        Without events it is only the guard that is asked: what the row says is kept with the next event. Plain events
        are redacted as in `save`; what was redacted before the transaction is given as `Quick` or `Sealed`.
        """
        ...

    def save(self, row: RunRow, events: Sequence[Event], *, state: bytes | None = None) -> None:
        """Write a row read in this transaction, with what happened; `state` makes a new snapshot."""
        ...

    def change_doc(self, row: RunRow, changes: Iterable[Callable[[RunDoc], None]]) -> RunDoc:
        """Write a changed copy of the row's document; changes must replace values, not alter them."""
        ...

    def snapshot(self, row: RunRow, step: int | None = None) -> tuple[int, bytes] | None: ...

    def snapshot_at(self, row: RunRow, seq: int) -> bytes | None: ...

    def record(self, n: int, after: int, limit: int = ..., *, naming: str = ...) -> list[tuple[int, list[Event]]]:
        """Rows of a record, oldest first; with `naming`, those that do not even name this type of event have none."""
        ...

    def record_of_all(
        self, after: int, labels: dict[str, str] | None, limit: int = ...
    ) -> list[tuple[int, str, list[Event]]]:
        """Rows of all records in the order of their commits: place, run, events (none of runs without the labels)."""
        ...

    def last_record(self) -> int:
        """The place of the newest row of all records; 0 if there is none."""
        ...

    def verify(self, row: RunRow) -> str:
        """Why the record of this run is not what was written; empty if it is."""
        ...

    def verify_snapshot(self, row: RunRow) -> str:
        """The same for the current snapshot and the head alone, at constant cost."""
        ...

    def insert_call(self, call: CallRow) -> None: ...

    def update_call(self, call: CallRow) -> None: ...

    def call(self, n: int, id: str) -> CallRow | None: ...  # noqa: A002

    def calls_of_step(self, n: int, epoch: int, step: int) -> list[CallRow]: ...

    def calls(self, n: int) -> list[CallRow]: ...

    def move_step(self, n: int, epoch: int, step: int) -> None:
        """The agent's calls of this step belong to the next one: a person's step has come before it."""
        ...

    def ledger(self, n: int) -> list[CallRow]: ...

    def at_stake(self, n: int, epoch: int, step: int) -> list[CallRow]:
        """The part of the ledger that a cancel in this step would take back, oldest first."""
        ...

    def open_calls(self, n: int) -> list[CallRow]: ...

    def insert_mail(self, mail: MailRow) -> None: ...

    def update_mail(self, mail: MailRow) -> None: ...

    def pending_mail(self, n: int) -> list[MailRow]: ...

    def unread_mail(self, n: int, but: Sequence[str]) -> tuple[int, int]:
        """How many pieces of mail wait beside these, and their bytes; they themselves are not read for it."""
        ...

    def mail(self, n: int) -> list[MailRow]: ...

    def append_log(self, log: str, first: int, bodies: Iterable[bytes]) -> None:
        """Rows of a log; the next row of a record in this transaction names them by their digests."""
        ...

    def read_log(self, log: str, start: int, stop: int) -> list[bytes]: ...

    def answered(self, request_id: str) -> tuple[str, str, str] | None: ...

    def remember(self, request_id: str, run: str, verb: str, answer: str, *, idle: bool = ...) -> None:
        """Keep an answer; of those to requests that changed nothing (`idle`) only the newest are kept."""
        ...

    def signal(self, run: str) -> None: ...

    def signal_many(self, runs: Sequence[str]) -> None: ...

    def signals(self, after: int) -> list[tuple[int, str]]: ...

    def last_signal(self) -> int: ...

    def put_lease(self, lease: LeaseRow) -> None: ...

    def bump_lease(self, id: str) -> bool: ...  # noqa: A002

    def drop_lease(self, id: str) -> None: ...  # noqa: A002

    def leases(self) -> list[LeaseRow]: ...

    def put_contract(self, id: str, agent: str, doc: Json) -> None: ...  # noqa: A002

    def contract(self, id: str) -> Json | None: ...  # noqa: A002

    def contract_of(self, agent: str) -> tuple[str, Json] | None: ...

    def children(self, parent: str, *, live: bool) -> list[str]: ...

    def uncounted_children(self, parent: str) -> list[str]:
        """Children whose spending is not in the parent's own count: live ones, and those whose call was given up."""
        ...

    def queued(self, agents: Mapping[str, int]) -> list[tuple[str, str, str, str | None]]:
        """The oldest queued runs, so many of each agent: id, agent, status, holder."""
        ...

    def held(self) -> list[tuple[str, str, str, str | None]]:
        """Runs that somebody drives, or drove, in the same shape."""
        ...

    def claimable(self) -> list[tuple[str, str, str, str | None]]:
        """Both of them, however many there are."""
        ...

    def due(self, now: float) -> list[str]: ...

    def list_runs(
        self,
        *,
        status: Sequence[str] | None,
        agent: str | None,
        labels: dict[str, str] | None,
        needs: bool | None,
        limit: int,
        before: str | None,
        scope: Scope | None = ...,
    ) -> list[tuple[str, str, Status]]:
        """Id, agent and status of each, newest first: known even of a run whose row is damaged."""
        ...


class GroupWriter(Protocol):
    """Commits what was submitted in one tick of an event loop together."""

    def submit(self, op: Operation) -> None: ...

    def flush(self) -> None: ...


class Operation(Protocol):
    """Something to be written by a group writer: run in a transaction, then told how it ended.

    `perform` may be run more than once (a transaction that failed is tried again), so it
    must not change anything but the transaction before `committed` is called.
    """

    @property
    def urgent(self) -> bool:
        """Is it part of a stop, or of an end? Then it may use the room that is kept on a full disk."""
        ...

    def seal(self) -> None:
        """Nothing can be added to it any more; called in the event loop's thread."""
        ...

    def perform(self, tx: Tx) -> None: ...

    def committed(self) -> None: ...

    def failed(self, error: BaseException) -> None: ...


class Store(Protocol):
    """Where runs live. Reads never wait; writes wait a bounded time for the lock."""

    @property
    def now(self) -> Callable[[], float]:
        """The clock whose times it writes."""
        ...

    def read(self, op: Callable[[Tx], T]) -> T: ...

    def write(self, op: Callable[[Tx], T], use: Use = "ordinary", *, stops: bool = False) -> T:
        """A transaction. One that `stops` something, as those of control do, waits longer for others that work."""
        ...

    def nothing_written(self, error: StoreFailed) -> bool:
        """Is it certain that nothing of the write that failed so is in the store?"""
        ...

    @property
    def trouble(self) -> str:
        """Why the last write failed, if the disk is to blame; empty if it went through."""
        ...

    def is_at_fault(self, error: StoreFailed) -> bool:
        """Is it the disk that does not take what is written, rather than what was to be written?"""
        ...

    def version(self) -> int:
        """Changes when anybody has written. A hint, never a guard."""
        ...

    def signals(self, after: int) -> list[tuple[int, str]]:
        """Runs touched by verbs since `after`, in one statement."""
        ...

    def exists(self) -> bool: ...

    def create(self) -> None: ...

    def close(self) -> None: ...


class Provider(Protocol):
    """Where a model's words come from. Retries, the gate, the journal and the budget are not its business."""

    @property
    def name(self) -> str:
        """The model, as people know it."""
        ...

    @property
    def dialect(self) -> Dialect:
        """The shape of the messages it takes and gives."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Ask, and read the answer as it comes; raises ProviderError.

        Cancelled or left early, it closes the connection at once, also before the first byte and while the
        stream is silent. It must not retry by itself.
        """
        ...


@runtime_checkable
class Priced(Protocol):
    """A provider that knows what tokens cost."""

    def cost(self, input_tokens: int, output_tokens: int) -> float: ...


class Model(Protocol):
    """What a loop asks. `models.anthropic(...)` and its like give one; so may you."""

    @property
    def name(self) -> str: ...

    @property
    def dialect(self) -> Dialect: ...

    def __call__(self, log: Sequence[Any], tools: Iterable[Any] = (), system: str = "", **options: Any) -> Call[Reply]:
        """The call that asks for the next message of the log."""
        ...
