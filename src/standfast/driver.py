"""drive(run): take one run as far as it goes, and never further than its fence allows."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Sequence
from typing import Any

from standfast import events as ev
from standfast.abc import Tx
from standfast.claiming import claim
from standfast.control import Ask, everybody_is_dead
from standfast.endings import Endings
from standfast.env import Env
from standfast.errors import Fenced, NotStorable, StoreBusy, StoreFailed
from standfast.events import Event
from standfast.family import hold_at_cap
from standfast.journal import Journal
from standfast.leases import Others
from standfast.outliving import still_left
from standfast.plan import Plan
from standfast.preparing import Preparing
from standfast.questions import withdraw
from standfast.records import LIVE, Hold, Residue, Spent, Status
from standfast.rows import CallRow, ErrorInfo, RunRow, Stop
from standfast.run import Run
from standfast.scope import SUSPEND_DEADLINE, Attempt, current_attempt, stop_tasks
from standfast.session import Session
from standfast.settling import settle_pause
from standfast.snapshots import unpack
from standfast.stepping import Stepper, Turn, told
from standfast.stopping import Mode, Stopping
from standfast.stops import enter, hold, partial_output, settle_rewind
from standfast.undo import Ledger
from standfast.verbs import begin_rewind

log = logging.getLogger("standfast")
IDLE_QUESTIONS = 0.05


class Driver:
    """Drives one run that this process has claimed."""

    def __init__(self, env: Env, row: RunRow) -> None:
        self.s = Session(env, row, env.agents[row.agent])
        self._ledger = Ledger(self.s)
        self._endings = Endings(self.s, self._ledger)
        self._preparing = Preparing(self.s)
        self._stepper: asyncio.Task[Turn] | None = None
        self._releasing = ""
        self._extra_residue: list[Residue] = []

    # --- from outside -----------------------------------------------------------------------------

    def release(self, why: str) -> None:
        """Let go of the run soon: drained as on a pause, then queued for anybody."""
        self._releasing = why
        self.s.shut = True
        self.s.wake.set()

    async def drive(self) -> None:
        """Until the run is held, ended, released or taken away."""
        s = self.s
        try:
            while True:
                if s.row.status == "running":
                    await self._run()
                elif s.row.status == "pausing":
                    await self._settle_pause()
                elif s.row.status == "cancelling":
                    await self._endings.cancel()
                else:
                    return
                if self._releasing and s.row.status not in ("cancelling", "pausing"):
                    return
        except Fenced:
            await self._fenced()
        except Exception as error:  # noqa: BLE001 - a fault of ours must end in a hold, whatever it is
            await self._broke(error)
        finally:
            for task in list(s.tasks):
                if s.env.crashed:
                    task.cancel()

    async def _broke(self, error: Exception) -> None:
        """A fault of the driver itself: the run is held with the traceback, not claimed again and again."""
        s = self.s
        log.error("standfast: driving run %s failed", s.row.id, exc_info=error)
        trace = "".join(traceback.format_exception(error))
        hint = "this is a fault in standfast, please report it; resume() tries again"
        await self._endings.held_for_error(ErrorInfo(type(error).__name__, str(error), trace, hint))
        if s.row.status != "pausing":
            raise error
        await self._stop("pause")
        await self._settle_pause()

    # --- running ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        s = self.s
        s.shut = False
        ready = await self._prepared()
        while ready and s.row.status == "running" and not self._releasing:
            try:
                self._begin_attempt()
            except NotStorable as error:
                await self._endings.held_for_error(told(error))
                return
            try:
                await self._supervise()
            finally:
                if self._stepper is not None and not self._stepper.done() and s.attempt is not None:
                    s.attempt.closed = True
        if self._releasing and s.row.status == "running":
            await self._release()

    async def _prepared(self) -> bool:
        """Look at code and world first, unless a verb comes meanwhile; what raises there holds the run."""
        s = self.s
        work = s.own(self._preparing.prepare())
        work.add_done_callback(lambda _: s.wake.set())
        try:
            while not work.done():
                await self._woken()
                if s.row.status != "running" or self._releasing:
                    break
        finally:
            await stop_tasks({work}, SUSPEND_DEADLINE)
        if not work.done() or work.cancelled():
            return False
        try:
            return bool(work.result())
        except (Fenced, StoreBusy, StoreFailed):
            raise
        except Exception as error:  # noqa: BLE001 - a migrate of the user's, say: told like an error of a step
            await self._endings.held_for_error(told(error))
            return False

    def _begin_attempt(self) -> None:
        """Load what is durable, and take the step from its beginning."""
        s = self.s
        row = s.row

        def look(tx: Tx) -> tuple[RunRow, bytes, list[CallRow], str]:
            fresh = tx.run_n(row.n)
            assert fresh is not None
            if fresh.fence != s.fence:  # never take up another driver's row: its fence would open our writes
                raise Fenced(f"run {row.id} is driven by another process now")
            found = tx.snapshot(fresh)
            assert found is not None, f"run {row.id} has no snapshot"
            rows = tx.calls_of_step(fresh.n, fresh.epoch, fresh.step)
            return fresh, found[1], rows, partial_output(tx, fresh) if fresh.attempt > 1 else ""

        s.row, snapshot, rows, text = s.env.store.read(look)
        row = s.row
        plan, raw = unpack(snapshot)
        state = s.agent.state_codec.load_state(raw, s.fetch, home=s, branched=row.doc.branch)
        s.step = row.step
        s.spent = Spent(**{f: getattr(row.spent, f) for f in Spent.__slots__})
        s.repeated = row.doc.repeated
        s.journal = Journal(row.id, row.epoch, row.step)
        s.journal.rows = {r.id: r for r in rows if r.status != "withdrawn"}
        s.journal.values = dict(row.doc.values)
        s.interruption = s.journal.interruption(text)
        s.stop_asked = None
        s.shut = False
        s.outcomes = []
        scope = s.attempt = Attempt(row.attempt, s.wake.set)
        run: Run[Any] = Run(s, scope, row.attempt, row.step, state, Plan(plan, row.step))
        run.plan.changed = plan != row.doc.plan  # a step set back takes its changes of the plan back
        stepper = Stepper(s, scope, state, run)
        token = current_attempt.set(scope)
        try:
            task = s.env.loop.create_task(stepper.steps(), name=f"standfast {row.id}")
        finally:
            current_attempt.reset(token)
        scope.main = task
        scope.spawned.discard(task)
        task.add_done_callback(lambda _: s.wake.set())
        self._stepper = task

    async def _supervise(self) -> None:
        """Until the attempt is over: by itself, by a verb, or by a hold."""
        s = self.s
        scope = s.attempt
        stepper = self._stepper
        assert scope is not None
        assert stepper is not None
        while True:
            await self._woken()
            if s.row.status in ("pausing", "cancelling"):
                await self._stop(self._mode())
                return
            if s.row.status != "running":
                return
            if s.row.attempt > scope.number or (scope.closed and not stepper.done()):
                await self._set_back()
                return
            if self._releasing:
                await self._stop("pause")
                return
            if s.stop_asked is not None:
                await self._hold()
                return
            if stepper.done():
                await self._end_turn(stepper.result())
                if self._is("pausing"):
                    await self._stop("pause")
                return
            if s.answers and not s.flights and not await self._siblings_go_on():
                s.ask_stop("asks", f"{len(s.answers)} question(s) wait for a person")

    def _is(self, status: Status) -> bool:
        """Is the run in this status now? What was true before an await need not be."""
        return self.s.row.status == status

    async def _woken(self) -> None:
        s = self.s
        await s.wake.wait()
        s.wake.clear()
        if s.fenced:
            raise Fenced(f"run {s.row.id} is driven by another process now")
        if s.noticed:
            s.noticed = False
            await self._reload()

    async def _reload(self) -> None:
        """See what a verb has done to the run."""
        s = self.s
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

    async def _siblings_go_on(self) -> bool:
        """Is anything of the step still doing something besides waiting for a person?"""
        s = self.s
        await asyncio.sleep(IDLE_QUESTIONS)
        waiting = [f for f in s.answers.values() if not f.done()]
        return bool(s.flights) or not waiting or s.noticed or (self._stepper is not None and self._stepper.done())

    def _mode(self) -> Mode:
        row = self.s.row
        if row.status != "cancelling":
            return "pause"
        return "soft" if row.doc.stop is not None and row.doc.stop.soft else "cancel"

    async def _stop(self, mode: Mode) -> None:
        """Stop the attempt, and harden when a cancel comes while it drains."""
        s = self.s
        s.shut = True
        stopping = Stopping(s, mode)
        work = asyncio.ensure_future(stopping.stop())
        work.add_done_callback(lambda _: s.wake.set())
        while not work.done():
            await self._woken()
            if s.row.status == "cancelling":
                stopping.harden(self._mode())
        self._extra_residue = work.result()
        await self._keep_outcomes()
        if self._stepper is not None and self._stepper.done() and not self._stepper.cancelled():
            turn = self._stepper.result()
            if turn.kind in ("done", "idle", "error") and s.row.status in ("pausing", "cancelling"):
                await self._end_turn(turn)

    async def _keep_outcomes(self) -> None:
        """Write how the calls that the stop found in flight have ended."""
        s = self.s
        outcomes, s.outcomes = s.outcomes, []
        residue, self._extra_residue = [*self._extra_residue, *still_left(s, self._extra_residue)], []
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
            stop.residue += residue
            stop.calls_after = len({i for i, at in begun if at > stop.accepted_at and i not in named})
            left: list[Event] = [ev.LeftBehind(what=r.what, where=r.why) for r in residue]
            drained = ev.VerbNoted(verb="drained", by=None, text=f"{len(outcomes)} call(s) in flight")
            return None, left or [drained], None

        if s.row.doc.stop is not None:
            await s.write(act)

    async def _set_back(self) -> None:
        """A redirect for right now (or a refused boundary): the step is taken again from its snapshot."""
        s = self.s
        await self._stop("pause")
        if s.row.status == "running":
            s.note(
                ev.StepSetBack(
                    step=s.row.step, attempt=s.row.attempt, why="redirected" if s.row.doc.set_back else "overtaken"
                )
            )
            await s.flushed()

    async def _hold(self) -> None:
        """The run itself cannot go on: pausing first, so that people see what is waited for."""
        s = self.s
        assert s.stop_asked is not None
        name, text, data = s.stop_asked
        if name in ("budget", "loop"):
            await self._hold_at_cap(str(data or s.row.id), name, text)
            return

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            gone = withdraw(tx, row, waiting) if name == "asks" else []
            if row.status == "running" and not _settled(tx, row, name):
                hold(row, name, tx.now, text, data)
                if name == "user":
                    row.doc.step_once = False
                row.doc.stop = Stop("pause", tx.now, tx.now, reason=text, trigger=name, in_flight=list(row.in_flight))
                enter(row, "pausing", tx.now)
                asked = ev.PauseAsked(by=None, reason=f"{name}: {text}", in_flight=row.in_flight, status="pausing")
                return None, [*gone, asked], None
            return None, gone, None

        waiting = set(s.answers)
        await s.flushed()
        await s.write(act)
        await self._stop(self._mode())

    async def _hold_at_cap(self, run: str, name: Hold, text: str) -> None:
        """The cap may be this run's or one of a run above it."""
        s = self.s
        await s.flushed()
        await s.env.unfenced(lambda tx: hold_at_cap(tx, run, name, text))
        await self._reload()
        await self._stop(self._mode())

    async def _end_turn(self, turn: Turn) -> None:
        s = self.s
        await s.flushed_or_fenced()
        if turn.kind == "error" and s.agent.on_error == "fail" and s.row.status == "running":
            await self._fail(turn)
        elif s.row.status == "running" or turn.kind != "error":
            await self._endings.turn(turn)

    async def _fail(self, turn: Turn) -> None:
        """What is in flight is cut before anything of it is undone."""
        assert turn.error is not None
        if await self._endings.begin_failing(turn.error):
            await self._stop("cancel")
            await self._endings.fail(turn.error)

    # --- settling -------------------------------------------------------------------------------------

    async def _settle_pause(self) -> None:
        s = self.s
        if s.row.doc.target is not None:
            await self._children_settle(LIVE, "waiting for child runs to end")
            await self._ledger.work()
        else:
            await self._children_settle(("pausing",), "waiting for child runs to be paused")

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if row.status != "pausing":
                return None, [], None
            if row.doc.target is not None:
                events, state = settle_rewind(tx, row)
                return None, events, state
            noted, row.doc.rewind_noted = row.doc.rewind_noted, None
            if noted is not None:
                begun: list[Event] = []
                return None, begun, begin_rewind(tx, row, Ask(), noted, begun, everybody_is_dead, [])
            return None, settle_pause(tx, row), None

        await s.flushed()
        await s.write(act)

    async def _children_settle(self, unsettled: Sequence[Status], waits: str) -> None:
        s = self.s

        def look(tx: Tx) -> bool:
            children = (tx.run(child) for child in tx.children(s.row.id, live=True))
            return any(child is not None and child.status in unsettled for child in children)

        with s.env.hub.waiting(None) as waiter:
            while s.env.store.read(look):
                s.doing(waits)
                s.look_for_work()
                await waiter.wait(0.2)
                if s.noticed:
                    s.noticed = False
                    await self._reload()
                    if s.row.status != "pausing":
                        return

    async def _release(self) -> None:
        s = self.s
        why = self._releasing

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if row.status != "running":
                return None, [], None
            enter(row, "queued", tx.now)
            return None, [ev.RunReleased(driver=s.env.lease.id, why=why)], None

        await s.flushed()
        await s.write(act)

    async def _fenced(self) -> None:
        """Another driver has the run: stop acting on it, and say so.

        An effect in flight may end, unless the run was stopped: its late result settles what is in doubt now.
        """
        s = self.s
        s.fenced = True
        s.shut = True
        row = s.env.store.read(lambda tx: tx.run_n(s.row.n))
        going_on = row is not None and row.status in ("queued", "running", "pausing", "paused")
        ending = [f for f in s.flights.values() if going_on and not f.repeatable]
        for flight in list(s.flights.values()):
            flight.abandoned = True
            if flight not in ending:
                flight.cut()
        left = await s.attempt.suspend() if s.attempt is not None else []
        left = [*left, *(f"{f.call.tool.name} {f.id}" for f in ending if not f.ended)]
        log.warning("standfast: run %s was taken from this driver; it has stopped acting on it", s.row.id)

        def say(tx: Tx) -> None:
            row = tx.run_n(s.row.n)
            if row is not None:
                tx.save(row, [ev.DriverFenced(driver=s.env.lease.id, fence=s.fence, still_running=left)])

        await s.env.unfenced(say)


def _settled(tx: Tx, row: RunRow, name: Hold) -> bool:
    """Was what this hold would wait for decided while it was on its way? Then nobody would ever lift it."""
    waits_for = {"asks": ("asking",), "in_doubt": ("in_doubt", "check")}.get(name)
    return waits_for is not None and not any(c.status in waits_for for c in tx.open_calls(row.n))


async def claim_and_drive(env: Env, run_id: str, others: Others) -> Driver | None:
    """Claim a run; None if it is not to be had."""
    row = await env.unfenced(lambda tx: claim(tx, run_id, env.lease.id, env.agents, others))
    return None if row is None else Driver(env, row)
