"""drive(run): take one run as far as it goes, and never further than its fence allows."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any

from standfast import events as ev
from standfast.abc import Tx
from standfast.claiming import claim
from standfast.control import Ask, begin_rewind, cancel_one
from standfast.endings import Endings
from standfast.env import Env
from standfast.errors import Fenced, NotStorable
from standfast.events import Event
from standfast.freshness import contract_differences
from standfast.journal import Journal
from standfast.leases import Others
from standfast.performed import probe
from standfast.plan import Plan
from standfast.records import Happened, NotHappened, Residue, Spent
from standfast.rows import CallRow, ErrorInfo, RunRow, Stop
from standfast.run import Run
from standfast.scope import Attempt, current_attempt
from standfast.session import Session
from standfast.snapshots import pack, unpack
from standfast.stepping import Stepper, Turn
from standfast.stopping import Mode, Stopping
from standfast.stops import enter, hold, partial_output, settle_pause, settle_rewind
from standfast.undo import Ledger

log = logging.getLogger("standfast")
IDLE_QUESTIONS = 0.05


class Driver:
    """Drives one run that this process has claimed."""

    def __init__(self, env: Env, row: RunRow, *, holder_was_dead: bool, others: Others) -> None:
        self.s = Session(env, row, env.agents[row.agent], holder_was_dead=holder_was_dead)
        self._others = others
        self._ledger = Ledger(self.s)
        self._endings = Endings(self.s, self._ledger)
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
        finally:
            for task in list(s.tasks):
                if s.env.crashed:
                    task.cancel()

    # --- running ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        s = self.s
        s.shut = False
        if not await self._prepare():
            return
        while s.row.status == "running" and not self._releasing:
            try:
                self._begin_attempt()
            except NotStorable as error:
                info = ErrorInfo(type(error).__name__, error.message, "", error.hint)
                await self._endings.held_for_error(info)
                return
            try:
                await self._supervise()
            finally:
                if self._stepper is not None and not self._stepper.done() and s.attempt is not None:
                    s.attempt.closed = True
        if self._releasing and s.row.status == "running":
            await self._release()

    def _begin_attempt(self) -> None:
        """Load what is durable, and take the step from its beginning."""
        s = self.s
        row = s.row

        def look(tx: Tx) -> tuple[RunRow, bytes, list[CallRow], str]:
            fresh = tx.run_n(row.n)
            assert fresh is not None
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
                if s.row.status == "pausing":
                    await self._stop("pause")
                return
            if s.answers and not s.flights and not await self._siblings_go_on():
                s.ask_stop("asks", f"{len(s.answers)} question(s) wait for a person")

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
        if row.seq >= s.row.seq and s.pending is None:
            s.row = row
        elif row.status != "running" or row.attempt > s.row.attempt:
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
        residue, self._extra_residue = self._extra_residue, []
        begun = list(s.begun)

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            stop = row.doc.stop
            if stop is None:
                return None, [], None
            known = {f.call.id for f in stop.outcomes}
            named = {c.id for c in stop.in_flight}
            stop.outcomes += [f for f in outcomes if f.call.id not in known and (f.call.id in named or f.outcome == "still_running")]
            stop.residue += residue
            stop.calls_after = len({i for i, at in begun if at > stop.accepted_at and i not in named})
            left: list[Event] = [ev.LeftBehind(what=r.what, where=r.why) for r in residue]
            return None, left or [ev.VerbNoted(verb="drained", by=None, text=f"{len(outcomes)} call(s) in flight")], None

        if s.row.doc.stop is not None:
            await s.write(act)

    async def _set_back(self) -> None:
        """A redirect for right now (or a refused boundary): the step is taken again from its snapshot."""
        s = self.s
        await self._stop("pause")
        if s.row.status == "running":
            s.note(ev.StepSetBack(step=s.row.step, attempt=s.row.attempt, why="redirected" if s.row.doc.set_back else "overtaken"))
            await s.flushed()

    async def _hold(self) -> None:
        """The run itself cannot go on: pausing first, so that people see what is waited for."""
        s = self.s
        assert s.stop_asked is not None
        name, text, data = s.stop_asked
        if name == "budget" and s.row.doc.budget.then == "cancel":
            await self._cancel_for_budget(text)
            return

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if row.status == "running":
                hold(row, name, tx.now, text, data)
                if name == "user":
                    row.doc.step_once = False
                row.doc.stop = Stop("pause", tx.now, tx.now, reason=text, trigger=name, in_flight=list(row.in_flight))
                enter(row, "pausing", tx.now)
                return None, [ev.PauseAsked(by=None, reason=f"{name}: {text}", in_flight=row.in_flight, status="pausing")], None
            return None, [], None

        await s.flushed()
        await s.write(act)
        await self._stop(self._mode())

    async def _cancel_for_budget(self, text: str) -> None:
        s = self.s

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if row.status == "running":
                ask = Ask(reason=f"budget: {text}", trigger="budget")
                cancel_one(tx, row, ask, "step", soft=False, is_dead=lambda *_: False)
            return None, [], None

        await s.flushed()
        await s.write(act)
        await self._stop(self._mode())

    async def _end_turn(self, turn: Turn) -> None:
        s = self.s
        await s.flushed_or_fenced()
        if s.row.status == "running" or turn.kind != "error":
            await self._endings.turn(turn)

    # --- before the first step ------------------------------------------------------------------------

    async def _prepare(self) -> bool:
        """Settle doubts and compare the world; False if that holds the run."""
        s = self.s
        trouble = s.env.store.read(lambda tx: tx.verify_snapshot(s.row))
        if trouble:
            await self._endings.held_for_error(ErrorInfo("StoreDamaged", trouble, "", "restore a copy of the store"))
            return False
        await self._same_code()
        stale = await self._stale()
        doubts = await self._doubts()
        if not stale and not doubts:
            return s.row.status == "running"

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if stale:
                hold(row, "stale", tx.now, "; ".join(stale))
            if doubts:
                hold(row, "in_doubt", tx.now, "; ".join(doubts))
            if row.status != "running":
                return None, [ev.VerbNoted(verb="hold", by=None, text="; ".join([*stale, *doubts]))], None
            enter(row, "paused", tx.now)
            return None, [ev.RunPaused(holds=list(row.doc.holds), text="; ".join([*stale, *doubts]))], None

        await s.write(act)
        return False

    async def _same_code(self) -> None:
        """Bring an old state to new code, if the agent says how."""
        s = self.s
        agent = s.agent
        if s.row.doc.contract == agent.contract_id:
            return

        def look(tx: Tx) -> tuple[Any, bytes]:
            found = tx.snapshot(s.row)
            assert found is not None
            return tx.contract(s.row.doc.contract), found[1]

        old, snapshot = s.env.store.read(look)
        changed = contract_differences(old or {}, agent)
        if not changed:
            await self._adopt(None)
        elif agent.migrate is not None:
            plan, raw = unpack(snapshot)
            state = agent.migrate(s.agent_json(raw))
            if inspect.isawaitable(state):
                state = await state
            new, logs = agent.state_codec.dump_new(agent.state_codec.accept(state))
            await self._adopt(pack(plan, new), logs, f"migrated: {'; '.join(changed)}")

    async def _adopt(self, state: bytes | None, logs: Any = (), note: str = "") -> None:
        agent = self.s.agent

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            tx.put_contract(agent.contract_id, agent.name, agent.contract)
            row.doc.contract = agent.contract_id
            row.doc.set_back = row.doc.set_back or state is not None
            for name, first, bodies in logs:
                tx.append_log(name, first, bodies)
            return None, [ev.VerbNoted(verb="adopt", by=None, text=note or "the code is compatible")], state

        await self.s.write(act)

    async def _stale(self) -> list[str]:
        s = self.s
        differences: list[str] = []
        if s.row.doc.contract != s.agent.contract_id:
            old = s.env.store.read(lambda tx: tx.contract(s.row.doc.contract))
            differences += contract_differences(old or {}, s.agent)
        if s.row.attempt > 1:
            differences += await s.freshness.stale()
        if differences and s.row.doc.accept_stale:
            await self._accept_stale()
            return []
        return differences

    async def _accept_stale(self) -> None:
        s = self.s
        await s.freshness.refresh()
        await s.flushed()
        await self._adopt(None, note="a person accepted the differences")

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            del tx
            row.doc.accept_stale = False
            return None, [ev.VerbNoted(verb="accept_stale", by=None, text="taken")], None

        await s.write(act)

    async def _doubts(self) -> list[str]:
        """Ask the probes; say what stays in doubt."""
        s = self.s
        rows = s.env.store.read(lambda tx: tx.open_calls(s.row.n))
        left: list[str] = []
        for row in rows:
            if row.status not in ("in_doubt", "check"):
                continue
            tool = s.tool_of(row)
            answer = "its code is not here" if tool is None else await probe(tool, row)
            if isinstance(answer, NotHappened) and not s.holder_was_dead:
                answer = "its old driver may still be alive"
            if isinstance(answer, str):
                left.append(f"{row.tool}: it is not known whether this happened ({answer})")
                await self._decide(row, "in_doubt", None)
            elif isinstance(answer, Happened):
                assert tool is not None
                await self._decide(row, "finished", tool.dump_result(answer.result))
            else:
                await self._decide(row, "not_begun", None)
        return left

    async def _decide(self, call: CallRow, status: Any, result: bytes | None) -> None:
        if call.status == status:
            return

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            del row
            call.status, call.result = status, result
            tx.update_call(call)
            if status == "in_doubt":
                return None, [ev.CallInDoubt(call=call.id, tool=call.tool, why="the probe does not know")], None
            decision: Any = "happened" if status == "finished" else "not_happened"
            return None, [ev.CallResolved(call=call.id, decision=decision, by=None, reason="its probe")], None

        await self.s.write(act)

    # --- settling -------------------------------------------------------------------------------------

    async def _settle_pause(self) -> None:
        s = self.s
        if s.row.doc.target is not None:
            await self._children_settle()
            await self._ledger.work()

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if row.status != "pausing":
                return None, [], None
            if row.doc.target is not None:
                events, state = settle_rewind(tx, row)
                return None, events, state
            noted, row.doc.rewind_noted = row.doc.rewind_noted, None
            if noted is not None:
                events = []
                state = begin_rewind(tx, row, Ask(), noted, events, lambda *_: True, [])
                return None, events, state
            return None, settle_pause(tx, row), None

        await s.flushed()
        await s.write(act)

    async def _children_settle(self) -> None:
        s = self.s
        with s.env.hub.waiting(None) as waiter:
            while s.env.store.read(lambda tx: tx.children(s.row.id, live=True)):
                s.doing("waiting for child runs to end")
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
        """Another driver has the run: stop acting on it, and say so."""
        s = self.s
        s.fenced = True
        s.shut = True
        for flight in list(s.flights.values()):
            flight.abandoned = True
            flight.cut()
        left = await s.attempt.suspend() if s.attempt is not None else []
        log.warning("standfast: run %s was taken from this driver; it has stopped acting on it", s.row.id)

        def say(tx: Tx) -> None:
            row = tx.run_n(s.row.n)
            if row is not None:
                tx.save(row, [ev.DriverFenced(driver=s.env.lease.id, fence=s.fence, still_running=left)])

        await s.env.unfenced(say)


async def claim_and_drive(env: Env, run_id: str, others: Others) -> Driver | None:
    """Claim a run; None if it is not to be had."""
    holders: list[bool] = []

    def take(tx: Tx) -> RunRow | None:
        found = claim(tx, run_id, env.lease.id, env.agents, others)
        if found is None:
            return None
        holders.append(found[1])
        return found[0]

    row = await env.unfenced(take)
    return None if row is None else Driver(env, row, holder_was_dead=holders[-1], others=others)


