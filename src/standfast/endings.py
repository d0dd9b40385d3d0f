"""How a run of steps ends: done, idle, held by an error, failed, or cancelled to the last ledger row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic_core import from_json

from standfast import events as ev
from standfast.abc import Tx
from standfast.commit import Boundary, forget_step, orders_taken
from standfast.control import Ask, nobody_is_dead
from standfast.delivering import deliverable
from standfast.events import Event
from standfast.person_steps import take_person_boundary
from standfast.records import PlanItem
from standfast.rows import ErrorInfo, LastWords, MailRow, RunRow, Stop
from standfast.snapshots import thoughts_in, unpack
from standfast.stack import give_up
from standfast.stepping import Turn
from standfast.stops import (
    enter,
    finish_cancel,
    hold,
    left_running,
    mark_locks,
    mark_undo,
    pending_undos,
    receipt,
    return_mail,
)
from standfast.unread import ENDED_UNREAD, keep_fates, not_read_events, withheld
from standfast.verbs import cancel_one

if TYPE_CHECKING:
    from standfast.session import Session
    from standfast.undo import Ledger

Finished = Literal["done", "turn", "children", "locks", "lost"]


class Endings:
    """The last transitions of a run."""

    def __init__(self, session: Session, ledger: Ledger) -> None:
        self._s = session
        self._ledger = ledger

    async def turn(self, turn: Turn) -> None:
        """Make the end of a run of steps durable."""
        if turn.kind == "done":
            await self._done(turn)
        elif turn.kind == "idle":
            await self._idle(turn)
        elif turn.kind == "performed":
            await self._performed(turn)
        elif turn.kind == "error" and turn.error is not None:
            await self.held_for_error(turn.error)

    # --- done -------------------------------------------------------------------------------------

    async def _done(self, turn: Turn) -> None:
        """Completion and cancellation race to one ending: whichever commits first."""
        s = self._s
        boundary = turn.boundary
        assert boundary is not None
        s.shut = True
        while True:
            finished = await s.write(lambda tx, row: self._finish(tx, row, boundary, turn.value))
            if finished == "children":
                await self._children_end()
            elif finished == "locks":
                return await self.release_locks()
            else:
                return None

    def _finish(
        self, tx: Tx, row: RunRow, boundary: Boundary, result: bytes
    ) -> tuple[Finished, list[Event], bytes | None]:
        if not boundary.counts(row):
            return "lost", [], None
        _cancel_children(tx, row, "its parent has ended")
        if tx.children(row.id, live=True):
            return "children", [], None
        unread = [m for m in tx.pending_mail(row.n) if m.id not in boundary.settled]
        missed = {**row.doc.missed, **boundary.missed(tx, row)}
        plan = unpack(boundary.snapshot)[0] if unread else []
        readable = [m for m in unread if not withheld(missed.get(m.id), plan)]
        again = row.status in ("running", "pausing") and self._owes_a_turn(row, readable, boundary)
        going_back = row.doc.rewind_noted is not None
        events = _take_boundary(tx, row, boundary)
        if row.status == "cancelling":
            assert row.doc.stop is not None
            row.doc.stop.result = from_json(result)
            return "lost", events, boundary.snapshot
        if again:
            row.doc.turn_given_for = _named(readable)
        if again or going_back:
            return "turn", events, boundary.snapshot
        row.doc.ending = LastWords(from_json(result))
        if mark_locks(tx, row) or pending_undos(tx, row):
            return "locks", events, boundary.snapshot
        return "done", [*events, *_end(tx, row)], boundary.snapshot

    def _owes_a_turn(self, row: RunRow, unread: list[MailRow], boundary: Boundary) -> bool:
        """Mail that came in the last step is read in one more, if this run reads mail at all."""
        if not unread or (row.doc.turn_given_for == _named(unread) and not boundary.read_mail):
            return False
        if self._s.agent.turn_for_unread:
            return any(m.kind in self._s.agent.turn_for_unread for m in unread)
        return row.doc.took_mail

    async def release_locks(self) -> None:
        """The last step is durable, so nobody can make the run go on without the locks that are released here."""
        s = self._s
        s.shut = True
        s.doing("releasing its locks")

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            return None, _end(tx, row) if row.status in ("running", "pausing") else [], None  # else it was cancelled

        await self._ledger.work()
        await s.write(act)

    async def _children_end(self) -> None:
        s = self._s
        with s.env.hub.waiting(None) as waiter:
            while s.env.store.read(lambda tx: tx.children(s.row.id, live=True)):
                s.doing("waiting for child runs to end")
                s.look_for_work()
                await waiter.wait(0.2)

    # --- idle, errors -------------------------------------------------------------------------------

    async def _idle(self, turn: Turn) -> None:
        boundary = turn.boundary
        assert boundary is not None

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if not boundary.counts(row):
                return None, [], None
            events = _take_boundary(tx, row, boundary)
            readable = self._readable(tx, row, boundary)
            if readable and (row.doc.turn_given_for != _named(readable) or boundary.read_mail):
                row.doc.turn_given_for = _named(readable)
            elif row.status == "running":
                hold(row, "waiting", tx.now, "until mail comes")
                row.doc.step_once = False
                row.doc.stop = None
                enter(row, "paused", tx.now)
                left = [one.what for one in (*left_running(tx, row), *turn.programs)]
                events.append(ev.RunPaused(holds=["waiting"], text="until mail comes", residue=left))
            return None, events, boundary.snapshot

        await self._s.write(act)

    async def _performed(self, turn: Turn) -> None:
        """A person's step is over: the run is theirs again."""
        boundary = turn.boundary
        assert boundary is not None

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if not boundary.counts(row) or row.doc.person is None:
                return None, [], None
            return None, take_person_boundary(tx, row, boundary, turn.value, turn.programs), boundary.snapshot

        await self._s.write(act)

    def _readable(self, tx: Tx, row: RunRow, boundary: Boundary) -> list[MailRow]:
        """Mail that the next step would get. What waits for the stack, or was left unread, keeps no idle run busy."""
        pending = tx.pending_mail(row.n)
        messages = [m for m in pending if m.kind == "message"]
        ready = deliverable(messages, thoughts_in(boundary.snapshot).frames, self._s.agent.limits)
        plan = unpack(boundary.snapshot)[0]
        return [m for m in pending if (m in ready if m.kind == "message" else not self._withheld(row, m, plan))]

    @staticmethod
    def _withheld(row: RunRow, mail: MailRow, plan: list[PlanItem]) -> bool:
        return withheld(row.doc.missed.get(mail.id), plan)

    async def held_for_error(self, error: ErrorInfo) -> None:
        """paused(error), with the traceback kept: nothing is lost, a fix and a resume go on."""
        s = self._s
        error = error.as_kept(s.env.redactor)

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            row.doc.error = error
            failed = ev.StepFailed(
                step=row.step, attempt=row.attempt, error=f"{error.type}: {error.message}", traceback=error.traceback
            )
            if row.status != "running":
                return None, [failed], None
            hold(row, "error", tx.now, error.text)
            row.doc.step_once = False
            row.doc.stop = Stop(
                "pause", tx.now, tx.now, reason=error.message, trigger="run", in_flight=list(row.in_flight)
            )
            enter(row, "pausing", tx.now)
            return None, [failed], None

        s.shut = True
        await s.write(act)

    async def begin_failing(self, error: ErrorInfo) -> bool:
        """Close the gate for a run that is to fail, because its agent asked for that; children are cancelled."""
        s = self._s
        error = error.as_kept(s.env.redactor)

        def begin(tx: Tx, row: RunRow) -> tuple[bool, list[Event], bytes | None]:
            if row.status != "running":
                return False, [], None
            row.doc.error = error
            row.doc.stop = Stop(
                "fail", tx.now, tx.now, reason=error.message, trigger="run", in_flight=list(row.in_flight)
            )
            _cancel_children(tx, row, "its parent has failed")
            failed = ev.StepFailed(
                step=row.step, attempt=row.attempt, error=f"{error.type}: {error.message}", traceback=error.traceback
            )
            return True, [failed], None

        s.shut = True
        return await s.write(begin)

    async def fail(self, error: ErrorInfo) -> None:
        """Failed; the step in flight is undone first. A cancel that came meanwhile has won."""
        s = self._s
        error = error.as_kept(s.env.redactor)

        def mark(tx: Tx, row: RunRow) -> tuple[bool, list[Event], bytes | None]:
            if row.status == "running":
                mark_undo(tx, row, "step")
            return row.status == "running", [], None

        def end(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if row.status != "running":
                return None, [], None
            events = return_mail(tx, row, "failed")
            events += give_up(row.doc.frames, None, "the run has failed")
            row.doc.frames = []
            if row.doc.stop is not None:
                row.doc.stop.residue += left
            row.doc.receipt = receipt(tx, row, "failed")
            enter(row, "failed", tx.now)
            return (
                None,
                [*events, ev.RunFailed(error=f"{error.type}: {error.message}", traceback=error.traceback)],
                None,
            )

        await self._children_end()
        left = await s.programs.end()
        if await s.write(mark):
            await self._ledger.work()
            await s.write(end)

    # --- cancel ---------------------------------------------------------------------------------------

    async def cancel(self) -> None:
        """Phase two: undo what was asked for, wait for children, then say what was done."""
        s = self._s

        def mark(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            assert row.doc.stop is not None
            mark_undo(tx, row, row.doc.stop.undo)
            return None, [], None

        def end(tx: Tx, row: RunRow) -> tuple[bool, list[Event], bytes | None]:
            if tx.children(row.id, live=True) or pending_undos(tx, row):
                return False, [], None
            assert row.doc.stop is not None
            row.doc.stop.residue += left
            return True, finish_cancel(tx, row), None

        while True:
            await self._children_end()
            left = await s.programs.end()
            await s.write(mark)
            await self._ledger.work()
            if await s.write(end):
                return


def _cancel_children(tx: Tx, row: RunRow, why: str) -> None:
    ask = Ask(reason=why, trigger="parent")
    for child in tx.children(row.id, live=True):
        child_row = tx.run(child)
        if child_row is not None and child_row.status != "cancelling":
            cancel_one(tx, child_row, ask, "step", soft=False, is_dead=nobody_is_dead)


def _end(tx: Tx, row: RunRow) -> list[Event]:
    assert row.doc.ending is not None
    returned = return_mail(tx, row, ENDED_UNREAD)
    row.doc.result, row.doc.ending = row.doc.ending.result, None
    enter(row, "done", tx.now)
    return [*returned, ev.RunDone(result=row.doc.result)]


def _named(unread: list[MailRow]) -> str:
    """What a turn was given for: a run that reads its mail one by one gets as many as it takes."""
    return f"{len(unread)} up to {unread[-1].id}"


def _take_boundary(tx: Tx, row: RunRow, boundary: Boundary) -> list[Event]:
    """The same as a commit of a step, for the last one."""
    events: list[Event] = [ev.StepFinished(step=boundary.step, attempt=boundary.attempt)]
    for log, first, bodies in boundary.logs:
        tx.append_log(log, first, bodies)
    for mail in tx.pending_mail(row.n):
        if mail.id in boundary.read_mail:
            mail.status, mail.step = "consumed", boundary.step
            tx.update_mail(mail)
            events.append(ev.MailConsumed(mail=mail.id, step=boundary.step))
        elif mail.id in boundary.declined:
            mail.status, mail.reason = "returned", boundary.declined[mail.id]
            tx.update_mail(mail)
            events.append(ev.MailReturned(mail=mail.id, reason=mail.reason))
    missed = boundary.missed(tx, row)
    events += not_read_events(missed)
    keep_fates(boundary.settled, missed)(row.doc)
    row.step = boundary.step + 1
    row.attempt += 1
    row.spent.steps += 1
    forget_step(row.doc)
    orders_taken(boundary.read_mail)(row.doc)
    return events
