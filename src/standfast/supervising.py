"""One attempt at a step after the other: begun from what is durable, watched, stopped when a verb or a hold asks."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pydantic import JsonValue

from standfast import events as ev
from standfast.abc import Tx
from standfast.endings import Endings
from standfast.errors import Fenced, NotStorable
from standfast.events import Event
from standfast.family import hold_at_cap, stop_family
from standfast.journal import Journal
from standfast.ladder import end_tasks
from standfast.loops import Rounds
from standfast.outliving import name, not_ended, still_left
from standfast.person_steps import perform_for_person
from standfast.plan import Plan
from standfast.records import Hold, Mode, Moment, Residue, Spent, Status
from standfast.rows import CallRow, RunDoc, RunRow, Stop
from standfast.run import Run
from standfast.scope import Attempt, current_attempt
from standfast.session import Session
from standfast.snapshots import thoughts_in, unpack
from standfast.spending import spent_before
from standfast.stack import Stack
from standfast.stepping import Stepper, Turn, told
from standfast.stopping import Stopping
from standfast.stops import enter, hold, said_in_step, still_running
from standfast.withdrawing import void_decisions, withdraw

# Seconds in which code that is between two calls may make the next one: nothing else shows that it is not idle.
IDLE_QUESTIONS = 0.05


class Supervisor:
    """Watches over the attempts of one driven run."""

    def __init__(self, session: Session, endings: Endings) -> None:
        self._s = session
        self._endings = endings
        self._stepper: asyncio.Task[Turn] | None = None
        self._redirected = False  # does this attempt take a step that was set back?
        self._extra_residue: list[Residue] = []
        self.releasing = ""  # why the run is let go of; empty while it is kept

    async def attempt(self) -> bool:
        """Take the step until the attempt is over; False if its state cannot be read."""
        try:
            self._begin_attempt()
        except NotStorable as error:
            await self._endings.held_for_error(told(error))
            return False
        try:
            await self._supervise()
        finally:
            if self._stepper is not None and not self._stepper.done() and self._s.attempt is not None:
                self._s.attempt.closed = True
            self._s.programs.step_ended()
        if self._redirected:
            await self._void_decisions()
        return True

    async def _void_decisions(self) -> None:
        s = self._s
        asked = s.journal.asked

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            going_on = row.status in ("running", "pausing") and row.step == s.step and row.doc.target is None
            return None, void_decisions(tx, row, asked) if going_on else [], None

        if s.row.status in ("running", "pausing"):
            await s.write(act)

    def _begin_attempt(self) -> None:
        """Load what is durable, and take the step from its beginning."""
        s = self._s
        row = s.row

        def look(tx: Tx) -> tuple[RunRow, Spent, bytes, list[CallRow], dict[str, tuple[int, str]]]:
            fresh = tx.run_n(row.n)
            assert fresh is not None
            if fresh.fence != s.fence:  # never take up another driver's row: its fence would open our writes
                raise Fenced(f"run {row.id} is driven by another process now")
            found = tx.snapshot(fresh)
            assert found is not None, f"run {row.id} has no snapshot"
            rows = tx.calls_of_step(fresh.n, fresh.epoch, fresh.step)
            said = said_in_step(tx, fresh) if fresh.attempt > 1 else {}
            return fresh, spent_before(tx, fresh), found[1], rows, said

        s.row, s.spent, snapshot, rows, said = s.env.store.read(look)
        row = s.row
        plan, raw = unpack(snapshot)
        plan = s.agent.fit_plan(plan, row.doc.plan, row.doc.stage_ids)
        person = row.doc.person
        s.person = "" if person is None else person.id
        state: Any = None
        if person is None:
            state = s.agent.state_codec.load_state(raw, s.fetch, home=s, branched=row.doc.branch)
        s.step = row.step
        s.rounds = row.doc.rounds or Rounds()
        s.journal = Journal(row.id, row.epoch, row.doc.own_step(row.step) if person is None else f"person\0{person.id}")
        s.journal.rows = {r.id: r for r in rows if r.status != "withdrawn" and r.person == s.person}
        s.journal.values = {} if person is not None else dict(row.doc.values)
        s.interruption = None if person is not None else s.journal.interruption(said)
        self._redirected = person is None and row.doc.set_back and bool(rows)
        if row.doc.retrying:  # of calls whose driver has died
            s.change(_wait_for_nothing)
        s.stop_asked = None
        s.shut = s.held_here = s.unwritten is not None
        s.outcomes = []
        scope = s.attempt = Attempt(row.attempt, s.wake.set)
        run: Run[Any] = Run(s, scope, row.attempt, row.step, state, Plan(plan, row.step), self._stack(snapshot))
        # A step set back takes its changes of the plan back; it is not while a person acts, it stands still.
        run.plan.changed = person is None and plan != row.doc.plan
        taking = Stepper(s, scope, run).steps() if person is None else perform_for_person(s, scope, run, snapshot)
        token = current_attempt.set(scope)
        try:
            task = s.env.loop.create_task(taking, name=f"standfast {row.id}")
        finally:
            current_attempt.reset(token)
        scope.begin_program = s.programs.begin_in_step
        scope.main = task
        scope.disown(task)
        task.add_done_callback(lambda _: s.wake.set())
        self._stepper = task

    def _stack(self, snapshot: bytes) -> Stack:
        """The frames as the step began with them; people see that a set-back took its changes back."""
        thoughts = thoughts_in(snapshot)
        frames = list(thoughts.frames)

        def change(doc: RunDoc) -> None:
            doc.frames = frames

        if frames != self._s.row.doc.frames:
            self._s.change(change)
        return Stack(thoughts)

    async def _supervise(self) -> None:
        """Until the attempt is over: by itself, by a verb, or by a hold."""
        s = self._s
        scope = s.attempt
        stepper = self._stepper
        assert scope is not None
        assert stepper is not None
        if s.unwritten is not None:
            s.wake.set()
        while True:
            await self.woken()
            if s.stop_asked is not None and s.stop_asked[0] == "tripwire":  # whatever else was asked meanwhile
                await self._hold()
                return
            if s.row.status in ("pausing", "cancelling"):
                await self.stop(self._mode())
                return
            if s.row.status != "running":
                return
            if s.held_here:  # also by a stop that came to nothing meanwhile: what the gate has refused waits for ever
                await self.stop(s.unwritten or "pause")
                return
            if s.row.attempt > scope.number or (scope.closed and not stepper.done()):
                await self._set_back()
                return
            if self.releasing:
                await self.stop("pause")
                return
            if s.stop_asked is not None:
                await self._hold()
                return
            if stepper.done():
                await self._end_turn(stepper.result())
                if self._is("pausing"):
                    await self.stop("pause")
                return
            if s.answers and not self._busy(scope) and not await self._siblings_go_on(scope):
                s.ask_stop("asks", f"{len(s.answers)} question(s) wait for a person")

    def _is(self, status: Status) -> bool:
        """Is the run in this status now? What was true before an await need not be."""
        return self._s.row.status == status

    async def woken(self) -> None:
        """Until something has happened to the run; Fenced if it was taken away."""
        s = self._s
        await s.wake.wait()
        s.wake.clear()
        if s.fenced:
            raise Fenced(f"run {s.row.id} is driven by another process now")
        if s.fault is not None:
            fault, s.fault = s.fault, None
            raise fault
        if s.noticed:
            s.noticed = False
            await self.reload()

    async def reload(self) -> None:
        """See what a verb has done to the run."""
        s = self._s
        n, ids = s.row.n, list(s.answers)

        def look(tx: Tx) -> tuple[RunRow | None, list[CallRow]]:
            return tx.run_n(n), [c for i in ids if (c := tx.call(n, i)) is not None]

        row, rows = s.env.store.read(look)
        assert row is not None
        if row.fence != s.fence:
            raise Fenced(f"run {row.id} is driven by another process now")
        if (row.seq >= s.row.seq and s.pending is None) or row.status != "running" or row.attempt > s.row.attempt:
            s.row = row
        for call in rows:
            future = s.answers.get(call.id)
            if call.status != "asking" and future is not None and not future.done():
                future.set_result(call)

    def _busy(self, scope: Attempt) -> bool:
        """Is a call of the step in flight, or waiting for the store? However long that takes, it is not idle."""
        return bool(self._s.flights) or scope.busy

    async def _siblings_go_on(self, scope: Attempt) -> bool:
        """Is anything of the step still doing something besides waiting for a person?"""
        s = self._s
        await asyncio.sleep(IDLE_QUESTIONS)
        waiting = [f for f in s.answers.values() if not f.done()]
        return self._busy(scope) or not waiting or s.noticed or (self._stepper is not None and self._stepper.done())

    def _mode(self) -> Mode:
        row = self._s.row
        if row.status != "cancelling":
            return "pause"
        return "soft" if row.doc.stop is not None and row.doc.stop.soft else "cancel"

    async def stop(self, mode: Mode) -> None:
        """Stop the attempt, and harden when a cancel comes while it drains."""
        s = self._s
        s.shut = True
        stopping = Stopping(s, mode)
        work = asyncio.ensure_future(stopping.stop())
        work.add_done_callback(lambda _: s.wake.set())
        try:
            while not work.done():
                await self.woken()
                if s.row.status == "cancelling":
                    stopping.harden(self._mode())
                elif s.unwritten == "cancel":
                    stopping.harden("cancel")
        except BaseException:  # fenced, or a fault of ours: whoever handles that stops the attempt anew
            await end_tasks({work})
            raise
        self._extra_residue = work.result()
        while s.unwritten is not None and s.row.status == "running":  # all has ended; the store cannot be told yet
            s.doing("storage: the stop is not recorded yet")
            await self.woken()
        s.doing("")
        await self._keep_outcomes(await s.programs.left() if mode == "pause" else [])
        if self._stepper is not None and self._stepper.done() and not self._stepper.cancelled():
            turn = self._stepper.result()
            if turn.kind in ("done", "idle", "performed", "error") and s.row.status in ("pausing", "cancelling"):
                await self._end_turn(turn)

    async def _keep_outcomes(self, programs: list[Residue]) -> None:
        """Write how the calls that the stop found in flight have ended, and what earlier ones have left running."""
        s = self._s
        outcomes, s.outcomes = s.outcomes, []
        residue, self._extra_residue = [*self._extra_residue, *still_left(s, self._extra_residue)], []
        refused, s.refused = s.refused, []
        begun = list(s.begun)

        def act(_: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            stop = row.doc.stop
            if stop is None:
                return None, [], None
            known = {f.call.id for f in stop.outcomes}
            named = {c.id for c in stop.in_flight}
            stop.outcomes += [
                f for f in outcomes if f.call.id not in known and (f.call.id in named or f.outcome == "still_running")
            ]
            running = programs if row.status != "cancelling" else []  # who cancels ends them
            stop.residue += [*residue, *running, *refused]
            still_running(row.doc, not_ended(s, residue), s.env.lease.id)
            stop.calls_after = len({i for i, at in begun if at > stop.accepted_at and i not in named})
            left: list[Event] = [ev.LeftBehind(what=r.what, where=r.why) for r in (*residue, *running)]
            drained = ev.VerbNoted(verb="drained", by=None, text=f"{len(outcomes)} call(s) in flight")
            return None, left or [drained], None

        if s.row.doc.stop is not None:
            await s.write(act)
        elif residue:
            name(s, residue)

    async def _set_back(self) -> None:
        """A redirect for right now (or a refused boundary): the step is taken again from its snapshot."""
        s = self._s
        await self.stop("pause")
        if s.row.status == "running":
            doc = s.row.doc
            why = "redirected" if doc.set_back else "a message came" if doc.interrupted else "overtaken"
            s.note(ev.StepSetBack(step=s.row.step, attempt=s.row.attempt, why=why))
            await s.flushed()

    async def _hold(self) -> None:
        """The run itself cannot go on: pausing first, so that people see what is waited for."""
        s = self._s
        assert s.stop_asked is not None
        name, text, data, asked = s.stop_asked
        if name == "loop" and isinstance(data, list):
            await self._hold_going_round(text, data, asked)
            return
        if name in ("budget", "loop"):
            await self._hold_at_cap(str(data or s.row.id), name, text, asked)
            return
        if name == "tripwire":
            await self._tripped(text, data, asked)
            return

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            gone = withdraw(tx, row, waiting, s.person) if name == "asks" else []
            if row.status == "running" and not _settled(tx, row, name, s.person):
                hold(row, name, tx.now, text, data)
                if name == "user":
                    row.doc.step_once = False
                row.doc.stop = Stop(
                    "pause", asked.at, tx.now, reason=text, trigger="run", in_flight=list(row.in_flight)
                )
                enter(row, "pausing", tx.now)
                paused = ev.PauseAsked(
                    by=None,
                    reason=f"{name}: {text}",
                    trigger="run",
                    asked=asked,
                    in_flight=row.in_flight,
                    status="pausing",
                )
                return None, [*gone, paused], None
            return None, gone, None

        waiting = set(s.answers)
        await s.flushed()
        await s.write(act)
        await self.stop(self._mode())

    async def _hold_at_cap(self, run: str, name: Hold, text: str, asked: Moment) -> None:
        """The cap may be this run's or one of a run above it."""
        s = self._s
        await s.flushed()
        await s.env.unfenced(lambda tx: hold_at_cap(tx, run, name, text, asked))
        await self.reload()
        await self.stop(self._mode())

    async def _hold_going_round(self, text: str, data: JsonValue, asked: Moment) -> None:
        """Equal writes are held whatever the budget says of its caps: nothing is used up."""
        s = self._s
        await s.flushed()
        await s.env.unfenced(
            lambda tx: stop_family(*(tx, tx.run(s.row.id), "loop", text, asked), cancel=False, trigger="run", data=data)
        )
        await self.reload()
        await self.stop(self._mode())

    async def _tripped(self, text: str, data: JsonValue, asked: Moment) -> None:
        """A tripwire has closed a model's stream: the run is held, or cancelled, as it says."""
        s = self._s
        action, call = cast("list[str]", data)
        await s.flushed()
        await s.env.unfenced(
            lambda tx: stop_family(
                *(tx, tx.run(s.row.id), "tripwire", text, asked),
                cancel=action == "cancel",
                trigger="tripwire",
                data=call,
            )
        )
        await self.reload()
        await self.stop(self._mode())

    async def _end_turn(self, turn: Turn) -> None:
        s = self._s
        if turn.kind in ("idle", "performed", "done"):
            turn.programs = await s.programs.left()
            if turn.kind == "done":
                for one in turn.programs:
                    s.note(ev.LeftBehind(what=one.what, where=one.why))
        await s.flushed_or_fenced()
        if turn.kind == "error" and s.agent.on_error == "fail" and s.row.status == "running":
            await self._fail(turn)
        elif s.row.status == "running" or turn.kind != "error":
            await self._endings.turn(turn)

    async def _fail(self, turn: Turn) -> None:
        """What is in flight is cut before anything of it is undone."""
        assert turn.error is not None
        if await self._endings.begin_failing(turn.error):
            await self.stop("cancel")
            await self._endings.fail(turn.error)


def _wait_for_nothing(doc: RunDoc) -> None:
    doc.retrying = {}


def _settled(tx: Tx, row: RunRow, name: Hold, person: str) -> bool:
    """Was what this hold would wait for decided while it was on its way? Then nobody would ever lift it.

    What a person performs does not wait for what the agent's own step asks, nor the other way round.
    """
    waits_for = {"asks": ("asking",), "in_doubt": ("in_doubt", "check")}.get(name)
    open_calls = [call for call in tx.open_calls(row.n) if call.person == person]
    return waits_for is not None and not any(call.status in waits_for for call in open_calls)
