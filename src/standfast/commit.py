"""What a run's driver writes: everything of one tick in one guarded row.

A read's result, the boundary that follows it and the next call's admission share a
commit. It grows until its batch is sealed; then it wins or loses as a whole against
verbs, mail and other drivers, by the run's `seq` and `fence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from pydantic_core import from_json, to_json

from standfast import budget as budgets
from standfast import events as ev
from standfast.abc import Tx
from standfast.errors import Fenced
from standfast.events import Event, read_event
from standfast.log_places import LogRows
from standfast.quick_events import Quick, Sealed, call_finished, call_started, step_finished
from standfast.records import CallRef, PlanItem, Spent, Status
from standfast.redaction import Redactor
from standfast.rows import CallRow, Missed, RunDoc, RunRow
from standfast.scope import Attempt
from standfast.unread import keep_fates, missed_by, not_read_events

if TYPE_CHECKING:
    from standfast.flight import Flight, Outcome
    from standfast.session import Session

T = TypeVar("T")


@dataclass(slots=True)
class Boundary(Quick):
    """The end of a step: the snapshot before the next one."""

    scope: Attempt
    attempt: int
    step: int
    snapshot: bytes
    logs: list[LogRows]
    read_mail: Sequence[str]
    changes: int = 0  # how many changes of its commit are of the step it ends; the rest are of the next
    notes: int = 0  # the same for events
    item: PlanItem | None = None  # the plan item that the step began with
    declined: Mapping[str, str] = field(default_factory=dict[str, str])  # mail that is given back unread, and why

    def json(self, seq: int, at: bytes) -> bytes:
        return step_finished(seq, at, self.step, self.attempt)

    def missed(self, tx: Tx, row: RunRow) -> dict[str, Missed]:
        """Redirects that its step was to read, and has not."""
        return missed_by(tx, row, self.step, self.attempt, self.settled, self.item)

    @property
    def settled(self) -> set[str]:
        """Mail that has a fate: read, or given back."""
        return {*self.read_mail, *self.declined}

    def counts(self, row: RunRow) -> bool:
        """May it be kept? Attempts alone do not tell: a redirect gives the step before it the number of this one."""
        soft = row.status == "cancelling" and row.doc.stop is not None and row.doc.stop.soft
        going = row.status in ("running", "pausing") or soft
        return going and row.step == self.step and row.attempt == self.attempt and row.doc.target is None


@dataclass(slots=True)
class Admission(Quick):
    """A call that wants to begin."""

    ref: CallRef
    scope: Attempt
    attempt: int
    args: bytes
    why: str
    row: CallRow | None
    update: bool = False
    also: Callable[[Tx, RunRow], None] | None = None
    counted: Callable[[RunDoc], None] | None = None  # changes the run's document if the call is admitted
    admitted: bool | None = None
    orphaned: bool = False  # its caller was cancelled while it was being committed

    def json(self, seq: int, at: bytes) -> bytes:
        return call_started(seq, at, self.ref, self.args, self.attempt, self.why)


@dataclass(slots=True)
class Ended(Quick):
    """A call that has ended, one way or another."""

    id: str
    row: CallRow | None  # what the journal must keep if no boundary covers it
    known: bool  # the row is in the store already
    event: Event | None = None  # None: it has finished
    result: bytes = b""
    make_row: Callable[[], CallRow] | None = None  # for a row that is seldom needed

    def json(self, seq: int, at: bytes) -> bytes:
        return call_finished(seq, at, self.id, self.result)


class StepCommit:
    """One run's next write."""

    __slots__ = (
        *("admissions", "boundary", "boundary_refused", "change", "done", "ended", "error", "notes", "row"),
        *("heard", "missed", "seconds", "session", "spent", "tried", "unheard", "waiters"),
    )

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ended: list[Ended] = []
        self.boundary: Boundary | None = None
        self.admissions: list[Admission] = []
        self.notes: list[Event] = []
        self.spent: Spent | None = None  # tokens, cost and calls of children: ordinary steps use none
        self.seconds = 0.0
        self.change: list[Callable[[RunDoc], None]] = []
        self.heard: list[str] = []  # mail that the step has read, and that this commit journals
        self.unheard = False  # some of it was dropped before this commit was made
        self.waiters: list[asyncio.Future[None]] = []
        self.row: RunRow | None = None
        self.boundary_refused = False
        self.missed: dict[str, Missed] = {}  # redirects that the step has ended without reading
        self.done = False
        self.error: BaseException | None = None
        self.tried: list[bytes] = []

    # --- in the event loop ------------------------------------------------------------------

    def use(self, used: Spent) -> None:
        """Count what a call, or a child run, has used."""
        if used.tokens or used.cost or used.calls:
            if self.spent is None:
                self.spent = Spent()
            budgets.add(self.spent, used)

    @property
    def urgent(self) -> bool:
        """Of a run that is being stopped, and so lets nothing begin."""
        session = self.session
        return session.shut and (session.row.status != "running" or not self.admissions)

    def seal(self) -> None:
        session = self.session
        if session.pending is self:
            session.pending = None
        session.sealed = self
        self.seconds = session.running_seconds()
        redactor = session.env.redactor
        if redactor is not None:
            self._redact(redactor)

    def _redact(self, redactor: Redactor) -> None:
        """All that this commit says, before anybody waits for it: in the transaction it is only put together.

        What `perform` adds there is not known yet; the store takes the secrets out of it.
        """
        for e in self.ended:
            if e.event is None:
                e.result = redactor.json(e.result) if e.result else b""
            else:
                e.event = _without_secrets(redactor, e.event)
        if self.notes:
            self.notes = [_without_secrets(redactor, note) for note in self.notes]
        for a in self.admissions:
            a.args = redactor.json(a.args)
            if a.why:
                a.why = redactor.text(a.why)
            if a.ref.title:
                a.ref = _untitled(redactor, a.ref)

    async def wait(self) -> None:
        """Until it is durable; raises Fenced if the run is somebody else's now."""
        if not self.done:
            waiter = self.session.env.loop.create_future()
            self.waiters.append(waiter)
            await waiter
        if self.error is not None:
            raise self.error

    def committed(self) -> None:
        assert self.row is not None
        self._end()
        self.session.advanced(self)

    def failed(self, error: BaseException) -> None:
        self.error = error
        for admission in self.admissions:
            admission.admitted = False
        self._end()
        self.session.commit_failed(self, error)

    def _end(self) -> None:
        self.done = True
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- in the transaction -------------------------------------------------------------------

    def perform(self, tx: Tx) -> None:
        session = self.session
        row = session.row
        # What was read may have been dropped since, and the driver may have seen that: then nothing else has moved.
        if not self.heard and row.fence == session.fence and self._write(tx, row):
            return
        fresh = tx.run_n(row.n)
        assert fresh is not None, f"run {row.id} is gone"
        if fresh.head in self.tried:  # an earlier try went through although its commit reported an error
            self.row = fresh
            return
        if fresh.fence != session.fence:
            raise Fenced(f"run {row.id} is driven by another process now")
        if self.heard:
            self._unhear(tx, fresh)
        if not self._write(tx, fresh):
            raise AssertionError(f"run {row.id} moved inside a transaction")

    def _unhear(self, tx: Tx, row: RunRow) -> None:
        """A person has dropped what the step had just read: the step is taken again without it."""
        pending = {mail.id for mail in tx.pending_mail(row.n)}
        self.unheard = row.status == "running" and not pending.issuperset(self.heard)
        if self.unheard:
            row.attempt += 1

    def _write(self, tx: Tx, row: RunRow) -> bool:
        """One row of the record after `row`, which is not changed: `self.row` is how the run stands then."""
        events: list[Event | Quick | Sealed] = []
        in_flight = row.in_flight
        if self.ended:
            gone = {e.id for e in self.ended}
            in_flight = [c for c in in_flight if c.id not in gone]
            events += [e if e.event is None else Sealed(e.event) for e in self.ended]
        ending = len(self.notes) if self.boundary is None else self.boundary.notes
        if self.notes:
            events += map(Sealed, self.notes[:ending])
        boundary = self._boundary(tx, row, events)
        if self.notes:
            events += map(Sealed, self._of_next_step(self.notes[ending:]))
        attempt, step = row.attempt, row.step
        if boundary is not None:
            attempt, step = boundary.attempt + 1, boundary.step + 1
        admitted = self._admit(row.status, attempt, events)
        if admitted:
            in_flight = [*in_flight, *[a.ref for a in admitted]]
        spent = self._spent(row.spent, len(admitted), boundary, events)
        self.row = after = row.gone_on(attempt, step, in_flight, spent)
        if not events and not self.change:
            return True  # everything it wanted was refused
        if boundary is None:
            advanced = tx.advance(after, events, row.seq, None, None)
        else:
            advanced = tx.advance(after, events, row.seq, step, boundary.snapshot, boundary.logs)
        if not advanced:
            return False
        self.tried.append(after.head)
        self._details(tx, after, boundary, admitted)
        return True

    def _boundary(self, tx: Tx, row: RunRow, events: list[Event | Quick | Sealed]) -> Boundary | None:
        """The boundary, if it still counts."""
        boundary = self.boundary
        self.missed = {}
        if boundary is None:
            return None
        self.boundary_refused = not boundary.counts(row)
        if self.boundary_refused:
            boundary.scope.closed = True  # the step after it was begun on a promise that is not kept
            return None
        events.append(boundary)
        if boundary.read_mail or boundary.declined:
            pending = {mail.id for mail in tx.pending_mail(row.n)}  # a cancel may have returned it meanwhile
            events += [ev.MailConsumed(mail=m, step=boundary.step) for m in boundary.read_mail if m in pending]
            events += [ev.MailReturned(mail=m, reason=why) for m, why in boundary.declined.items() if m in pending]
        if row.doc.redirects:
            self.missed = boundary.missed(tx, row)
            events += not_read_events(self.missed)
        return boundary

    def _of_next_step(self, notes: list[Event]) -> list[Event]:
        """What the step after the boundary has said stands only if the boundary does: otherwise it never began."""
        if self.boundary is None or not self.boundary_refused:
            return notes
        return [note for note in notes if getattr(note, "attempt", 0) <= self.boundary.attempt]

    def _admit(self, status: Status, attempt: int, events: list[Event | Quick | Sealed]) -> list[Admission]:
        admitted: list[Admission] = []
        for a in self.admissions:
            a.admitted = status == "running" and attempt == a.attempt and not a.scope.closed
            if a.admitted:
                admitted.append(a)
                events.append(a)
        return admitted

    def _spent(self, was: Spent, calls: int, boundary: Boundary | None, events: list[Event | Quick | Sealed]) -> Spent:
        steps = was.steps + (boundary is not None)
        spent = Spent(
            steps, was.calls + calls, was.input_tokens, was.output_tokens, was.cost, was.seconds + self.seconds
        )
        mine = self.spent
        if mine is not None:
            budgets.add(spent, mine)
            usage = ev.UsageCounted(
                input_tokens=mine.input_tokens, output_tokens=mine.output_tokens, cost=mine.cost, calls=mine.calls
            )
            events.append(Sealed(usage))  # numbers alone
        return spent

    def _details(self, tx: Tx, row: RunRow, boundary: Boundary | None, admitted: list[Admission]) -> None:
        for e in self.ended:
            if e.known and e.row is not None:
                if row.status != "running":
                    _keep_ledger_marks(tx, e.row)
                tx.update_call(e.row)
            elif boundary is None:
                kept = e.make_row() if e.make_row is not None else e.row
                if kept is not None:
                    tx.insert_call(kept)
        for a in admitted:
            if a.row is not None:
                if a.update:
                    tx.update_call(a.row)
                else:
                    tx.insert_call(a.row)
            if a.also is not None:
                a.also(tx, row)
        if boundary is not None:
            self._consume(tx, row, boundary)
        change = [*self._changes(row.doc), *(a.counted for a in admitted if a.counted is not None)]
        if self.unheard:
            change.append(_set_back)
        if change:
            row.doc = tx.change_doc(row, change)

    def _changes(self, doc: RunDoc) -> list[Callable[[RunDoc], None]]:
        """A step's traces end with its boundary; what the next step noted stands only if the boundary does."""
        if self.boundary is None:
            return self.change
        of_step, of_next = self.change[: self.boundary.changes], self.change[self.boundary.changes :]
        if self.boundary_refused:
            return of_step
        forget: list[Callable[[RunDoc], None]] = [forget_step] if of_step or _step_leaves_traces(doc) else []
        if doc.orders and self.boundary.read_mail:
            forget.append(orders_taken(self.boundary.read_mail))
        if self.missed or ((doc.redirects or doc.missed) and self.boundary.settled):
            forget.append(keep_fates(self.boundary.settled, self.missed))
        return [*of_step, *forget, *of_next]

    def _consume(self, tx: Tx, row: RunRow, boundary: Boundary) -> None:
        if not boundary.read_mail and not boundary.declined:
            return
        read = set(boundary.read_mail)
        for mail in tx.pending_mail(row.n):
            if mail.id in read:
                mail.status, mail.step = "consumed", boundary.step
                tx.update_mail(mail)
            elif mail.id in boundary.declined:
                mail.status, mail.reason = "returned", boundary.declined[mail.id]
                tx.update_mail(mail)


def _without_secrets(redactor: Redactor, event: Event) -> Event:
    line = to_json(event, inf_nan_mode="constants")
    clean = redactor.line(line)
    return event if clean is line else read_event(from_json(clean))


def _untitled(redactor: Redactor, ref: CallRef) -> CallRef:
    """The call without what its title should not say."""
    title = redactor.text(ref.title)
    return ref if title == ref.title else replace(ref, title=title)


def _keep_ledger_marks(tx: Tx, call: CallRow) -> None:
    """A stop may have written into the ledger while the call was in flight."""
    old = tx.call(call.run, call.id)
    if old is not None:
        call.undo, call.tries, call.undo_reason = old.undo, old.tries, old.undo_reason


def _step_leaves_traces(doc: RunDoc) -> bool:
    return bool(
        doc.values or doc.set_back or doc.interrupted or doc.branch or doc.diverged_ok or doc.retrying or doc.set_aside
    )


def _set_back(doc: RunDoc) -> None:
    doc.set_back = True


def forget_step(doc: RunDoc) -> None:
    """The traces of a step end with its boundary."""
    doc.values = {}
    doc.retrying = {}
    doc.set_aside = None
    doc.set_back = False
    doc.interrupted = False
    doc.branch = False
    doc.diverged_ok = []


def orders_taken(read: Sequence[str]) -> Callable[[RunDoc], None]:
    """Orders that a boundary has read are no longer waiting."""

    def change(doc: RunDoc) -> None:
        doc.orders = [order for order in doc.orders if order not in read]

    return change


def ended_row(flight: Flight, outcome: Outcome, step: int, n: int, epoch: int) -> Ended:
    """What the journal and the record keep of a call that has ended."""
    row = flight.row
    known = row is not None
    if flight.passage and outcome.kind == "finished":
        return Ended(flight.id, None, False, None, outcome.raw)  # a repeated step asks again
    if row is None and outcome.kind == "finished":
        make_row = partial(_new_row, flight, outcome.raw, step, n, epoch)
        return Ended(flight.id, None, False, None, outcome.raw, make_row)
    effects = flight.call.tool.effect in ("write", "irreversible")
    row = _new_row(flight, outcome.raw, step, n, epoch) if row is None else replace(row)
    if outcome.kind == "finished":
        row.status, row.result = "finished", outcome.raw
        return Ended(flight.id, row, known, result=outcome.raw)
    row.result = None
    if outcome.kind == "cut":
        row.status = "in_doubt" if effects else "cut"
        word = "in_doubt" if effects else "aborted"
        return Ended(flight.id, row, known, ev.CallCut(call=flight.id, outcome=word, why=""))
    row.status = "not_performed" if outcome.kind == "not_performed" else "failed"
    row.error, row.message = outcome.error, outcome.message
    unknown = effects and row.status == "failed"
    event = ev.CallFailed(call=flight.id, error=outcome.error, message=outcome.message, effect_unknown=unknown)
    return Ended(flight.id, row, known, event)


def _new_row(flight: Flight, result: bytes, step: int, n: int, epoch: int) -> CallRow:
    tool = flight.call.tool
    return CallRow(
        run=n,
        id=flight.id,
        epoch=epoch,
        step=step,
        attempt=flight.attempt,
        tool=tool.name,
        kind=tool.kind,
        effect=tool.effect,
        status="finished",
        args=flight.call.raw,
        title=flight.ref.title,
        since=flight.ref.since,
        result=result,
        person=flight.session.person,
    )


@dataclass(slots=True)
class DriverWrite(Generic[T]):
    """A transition that a driver makes, on the run as it is now; only its own fence counts."""

    session: Session
    act: Callable[[Tx, RunRow], tuple[T, list[Event], bytes | None]]
    future: asyncio.Future[T]
    urgent: bool = True  # a transition: a hold, a settle, an undo, an end
    row: RunRow | None = None
    result: T | None = None
    tried: list[bytes] = field(default_factory=list[bytes])
    seconds: float = 0.0
    written: float = 0.0  # how much of these seconds the run's row has got

    def seal(self) -> None:
        self.seconds = self.session.running_seconds()

    def perform(self, tx: Tx) -> None:
        session = self.session
        row = tx.run_n(session.row.n)
        assert row is not None
        self.row = row
        if row.head in self.tried:
            return
        if row.fence != session.fence:
            raise Fenced(f"run {row.id} is driven by another process now")
        worked = row.status in ("running", "pausing") and row.doc.target is None  # undoing is no running time
        before = row.spent.seconds
        self.written = self.seconds if worked else 0.0
        row.spent.seconds += self.written
        self.result, events, state = self.act(tx, row)
        if events or state is not None:
            tx.save(row, events, state=state)
            tx.signal(row.id)
            self.tried.append(row.head)
        else:
            row.spent.seconds, self.written = before, 0.0

    def committed(self) -> None:
        assert self.row is not None
        self.session.count_later(self.seconds - self.written)
        self.session.row = self.row
        self.session.env.hub.poke(self.row.id)
        if not self.future.done():
            self.future.set_result(self.result)  # type: ignore[arg-type]

    def failed(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)
