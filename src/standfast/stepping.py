"""The loop that standfast owns: step after step, each ending in a durable boundary."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import traceback
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeGuard

from standfast import budget as budgets
from standfast import loops
from standfast.abc import Tx
from standfast.children import cancel_children
from standfast.commit import Boundary
from standfast.contained import contained, text_of
from standfast.context import run_salt
from standfast.errors import BadReturn, FramesOpen, NotCalled, StandfastError
from standfast.events import Event
from standfast.in_context import in_context
from standfast.leftovers import end_leftovers
from standfast.odd_text import mended
from standfast.orders import carry_out_orders
from standfast.passage import Door, current_door
from standfast.records import Done, Idle, Residue
from standfast.rows import ErrorInfo, RunRow
from standfast.run import Run
from standfast.scope import current_attempt
from standfast.snapshots import pack
from standfast.stack import Stack, place
from standfast.tools import Call, unperformed
from standfast.withdrawing import void_decisions, withdraw

if TYPE_CHECKING:
    from standfast.scope import Attempt
    from standfast.session import Session


@dataclass(slots=True)
class Turn:
    """How a run of steps came to its end."""

    kind: Literal["done", "idle", "performed", "error", "held"]
    boundary: Boundary | None = None
    value: Any = None
    error: ErrorInfo | None = None
    programs: list[Residue] = field(default_factory=list[Residue])  # left on purpose; named when the run comes to rest


class Stepper:
    """Takes steps until something else must be decided."""

    def __init__(self, session: Session, scope: Attempt, run: Run[Any]) -> None:
        self._s = session
        self._scope = scope
        self._run = run
        self._made: set[Call[Any]] = set()

    async def steps(self) -> Turn:
        """One step after the other; the boundary of one and the next call's admission share a commit."""
        s, scope = self._s, self._scope
        unperformed.set(self._made)
        run_salt.set(s.row.doc.salt)
        take = s.agent.step
        while True:
            run = self._run
            budget = s.row.doc.budget
            over = budgets.exhausted(budget, s.spent)
            if over:
                s.ask_stop("budget", over)
                return Turn("held")
            if budget.repeats is not None and (again := loops.before_step(s.rounds, budget.repeats)):
                s.ask_stop("loop", again)
                return Turn("held")
            try:
                if s.row.doc.orders:
                    await carry_out_orders(s, run, last=False)
                returned = await in_context(self._context(), lambda: take(run))  # noqa: B023 - called at once
                self._all_performed()
            except asyncio.CancelledError as cancelled:
                if scope.closed or scope.broken:
                    raise
                inside = RuntimeError("the step was cancelled from inside")
                inside.__cause__ = cancelled
                return Turn("error", error=told(inside))
            except BaseException as error:  # noqa: BLE001 - the run is held, with the traceback
                said = contained(error, scope.main)
                return Turn("held") if scope.broken else Turn("error", error=told(said))
            if scope.broken:
                return Turn("held")  # it swallowed its cancellation: the step is taken again
            try:
                turn = await self._boundary(run, returned)
            except StandfastError as error:
                return Turn("error", error=told(error))
            if turn is not None:
                return turn

    def _context(self) -> contextvars.Context:
        """A clean context for each step, also if no restart came between it and the one before."""
        context = self._s.env.context.copy()
        context.run(current_attempt.set, self._scope)
        context.run(unperformed.set, self._made)
        context.run(run_salt.set, self._s.row.doc.salt)
        context.run(current_door.set, Door(self._s, self._run))
        return context

    def _all_performed(self) -> None:
        if self._made:
            forgotten = ", ".join(sorted(repr(c) for c in self._made))
            self._made.clear()
            text = f"the step made calls that nobody performed: {forgotten}"
            with contextlib.suppress(RuntimeWarning):  # a warning that is an error here: the hold says the same
                warnings.warn(text, RuntimeWarning, stacklevel=2)
            raise NotCalled(text, hint="await run.call(...) each of them")

    @staticmethod
    def _nothing_open(stack: Stack, returned: Any) -> None:
        """A run does not end with thoughts that nobody has finished or given up."""
        if _is_done(returned):
            names = ", ".join(filter(None, (f"{f.goal!r} {place(f)}".strip() for f in stack.frames)))
            raise FramesOpen(
                f"the step returned Done, but frames are open: {names}",
                hint="finish them in the step, or abandon(frame, reason) and resume",
            )

    async def _boundary(self, run: Run[Any], returned: Any) -> Turn | None:
        s, scope = self._s, self._scope
        if not (returned is None or _is_done(returned) or isinstance(returned, Idle)):
            raise BadReturn(f"the step returned {returned!r}", hint="a step returns Done(result), Idle() or None")
        stack = run.thoughts.stack
        if s.row.doc.orders or (stack.frames and _is_done(returned)):
            await carry_out_orders(s, run, last=True)
        if stack.frames:
            self._nothing_open(stack, returned)
            stack.worked_on(s.env.clock.now())
        run.number = 0  # whoever still holds this Run gets no further call
        if s.flights or scope.used or scope.pieces or scope.spawned:
            await end_leftovers(s, scope, rests=returned is not None)
        if s.journal.rows or s.journal.left_open:
            await self._let_go_of_earlier_attempts()
        raw, logs, state = s.agent.state_codec.round_trip(run.state, s.fetch, home=s)
        boundary = Boundary(
            scope, scope.number, run.place, pack(run.plan.items, raw, stack.thoughts), logs, run.mail_read
        )
        boundary.item, boundary.declined = run.plan.begun_with, run.mail_declined
        if run.plan.changed:
            s.show_plan(run.plan)
        if _is_done(returned):
            return Turn("done", boundary, s.agent.dump_result(returned.result))
        if returned is not None:
            return Turn("idle", boundary)
        pending = s.pending
        if pending is not None and pending.boundary is not None:
            await s.flush(pending)  # a step without calls: every boundary is a commit
        commit = s.commit()
        if s.row.doc.budget.repeats is not None and not s.journal.asked and not run.mail_read:
            s.stepped_quietly(raw)
        commit.boundary = boundary
        boundary.changes, boundary.notes = len(commit.change), len(commit.notes)
        s.spent.steps += 1
        s.step += 1
        scope.number += 1
        once = s.row.doc.step_once
        if s.row.doc.redirects:
            await s.flush(commit)  # whether this step has missed one decides what the next may read
        if s.shut or scope.closed or once:
            await s.flush(commit)
            if once and not s.shut:
                s.ask_stop("user", "after one step")
            return Turn("held")
        s.begin_step()
        following = Run(s, scope, scope.number, s.step, state, run.plan.next(), stack)
        following.mail_before = run.mail_before.union(run.mail_read) if run.mail_read else run.mail_before
        self._run = following
        return None

    async def _let_go_of_earlier_attempts(self) -> None:
        """Questions, decisions of people and child runs that this attempt has not asked for."""
        s = self._s
        asked = s.journal.asked
        open_ = s.journal.left_open or any(row.status == "asking" for row in s.journal.rows.values())
        decided = any(row.status in ("approved", "denied") and row.id not in asked for row in s.journal.rows.values())
        children = s.journal.unasked_children()
        if not open_ and not decided and not children:
            return
        attempt, step = self._scope.number, s.step

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if (row.attempt, row.step) != (attempt, step):  # set back meanwhile: another attempt may ask for them
                return None, [], None
            cancel_children(tx, row, children)
            return None, [*withdraw(tx, row, ()), *void_decisions(tx, row, asked)], None

        await s.flushed()
        await s.write(act)
        s.look_for_work()


def told(error: Exception) -> ErrorInfo:
    """An error as the run keeps it, for people."""
    hint = error.hint if isinstance(error, StandfastError) else ""
    text = mended(error.message) if isinstance(error, StandfastError) else text_of(error)
    return ErrorInfo(type(error).__name__, text, mended("".join(traceback.format_exception(error))), hint)


def _is_done(returned: object) -> TypeGuard[Done[Any]]:
    return isinstance(returned, Done)
