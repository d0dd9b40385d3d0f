"""drive(run): take one run as far as it goes, and never further than its fence allows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from standfast import events as ev
from standfast.abc import Tx
from standfast.claiming import claim
from standfast.endings import Endings
from standfast.env import Env
from standfast.errors import Fenced, StoreBusy, StoreFailed
from standfast.events import Event
from standfast.ladder import end_tasks
from standfast.leases import Others, known_dead
from standfast.outliving import leave_code, leave_threads, not_ended
from standfast.preparing import Preparing
from standfast.records import LIVE, Status
from standfast.rows import RunRow
from standfast.session import Session
from standfast.settling import settle
from standfast.stepping import told
from standfast.stops import enter, pending_undos, still_running, unblocked
from standfast.supervising import Supervisor
from standfast.undo import LacksCode, Ledger

log = logging.getLogger("standfast")


class Driver:
    """Drives one run that this process has claimed."""

    def __init__(self, env: Env, row: RunRow) -> None:
        self.s = Session(env, row, env.agents[row.agent])
        self._ledger = Ledger(self.s)
        self._endings = Endings(self.s, self._ledger)
        self._preparing = Preparing(self.s)
        self._supervisor = Supervisor(self.s, self._endings)
        self.lacks_code = False  # it has let go of the run because another process must undo something

    # --- from outside -----------------------------------------------------------------------------

    def release(self, why: str) -> None:
        """Let go of the run soon: drained as on a pause, then queued for anybody."""
        self._supervisor.releasing = why
        self.s.shut = True
        self.s.wake.set()

    async def drive(self) -> None:
        """Until the run is held, ended, released or taken away."""
        s = self.s
        try:
            while True:
                if s.row.status == "running" and s.row.doc.ending is not None:
                    await self._endings.release_locks()  # a driver before this one did not get to the end of it
                elif s.row.status == "running":
                    await self._run()
                elif s.row.status == "pausing":
                    await self._settle_pause()
                elif s.row.status == "cancelling":
                    await self._endings.cancel()
                else:
                    return
                if self._supervisor.releasing and s.row.status not in ("cancelling", "pausing"):
                    return
        except Fenced:
            await self._fenced()
        except LacksCode as lacks:
            await self._leave_to_others(str(lacks))
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
        hint = "this is a fault in standfast, please report it; resume() tries again"
        await self._endings.held_for_error(replace(told(error), hint=hint))
        if s.row.status != "pausing":
            raise error
        await self._supervisor.stop("pause")
        await self._settle_pause()

    # --- running ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        s = self.s
        s.shut = s.unwritten is not None
        ready = await self._prepared()
        while ready and s.row.status == "running" and not self._supervisor.releasing:
            if not await self._supervisor.attempt():
                return
        if self._supervisor.releasing and s.row.status == "running":
            await self._release()

    async def _prepared(self) -> bool:
        """Look at code and world first, unless a verb comes meanwhile; what raises there holds the run."""
        s = self.s
        work = s.own(self._preparing.prepare())
        work.add_done_callback(lambda _: s.wake.set())
        try:
            while not work.done():
                await self._supervisor.woken()
                if s.row.status != "running" or self._supervisor.releasing:
                    break
        finally:
            await end_tasks({work})
        if not work.done() or work.cancelled():
            return False
        try:
            return bool(work.result())
        except (Fenced, StoreBusy, StoreFailed):
            raise
        except Exception as error:  # noqa: BLE001 - a migrate of the user's, say: told like an error of a step
            await self._endings.held_for_error(told(error))
            return False

    # --- settling, letting go -----------------------------------------------------------------------

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
            return None, *settle(tx, row)

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
                    await self._supervisor.reload()
                    if s.row.status != "pausing":
                        return

    async def _release(self) -> None:
        s = self.s
        why = self._supervisor.releasing

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            if row.status != "running":
                return None, [], None
            enter(row, "queued", tx.now)
            return None, [ev.RunReleased(driver=s.env.lease.id, why=why)], None

        await s.flushed()
        await s.write(act)

    async def _leave_to_others(self, tool: str) -> None:
        """Let go of a run as it is: a driver that has the tool's code goes on from what is in the store."""
        s = self.s

        def act(tx: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
            del tx
            row.holder = None
            why = f"the code to undo {tool} is not here: name it in @agent(..., tools=[{tool}])"
            return None, [ev.RunReleased(driver=s.env.lease.id, why=why, status=row.status)], None

        await s.flushed()
        self.lacks_code = True
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
        if s.attempt is not None:
            s.attempt.stopping = True
        for flight in list(s.flights.values()):
            flight.abandoned = True
            if flight not in ending:
                flight.cut()
        s.programs.step_cut()
        tasks = await s.attempt.suspend() if s.attempt is not None else []
        code = leave_code(s, tasks)
        if s.attempt is not None:
            code += leave_threads(s, await s.attempt.pieces.outlive(), code)
            code += leave_code(s, await s.attempt.end())
        left = [*(r.why for r in code), *(f"{f.call.tool.name} {f.id}" for f in ending if not f.ended)]
        log.warning("standfast: run %s was taken from this driver; it has stopped acting on it", s.row.id)

        def say(tx: Tx) -> None:
            row = tx.run_n(s.row.n)
            if row is not None:
                unblocked(row, s.env.lease.id)
                still_running(row.doc, not_ended(s, code), s.env.lease.id)
                tx.save(row, [ev.DriverFenced(driver=s.env.lease.id, fence=s.fence, still_running=left)])

        await s.env.unfenced(say)


async def claim_and_drive(
    env: Env, run_id: str, others: Others, *, held: bool, stopping: bool = False
) -> Driver | None:
    """Claim a run; None if it is not to be had. One that is `stopping` is claimed on a full disk too.

    What its dead driver left running is ended before that, so that a crash in between forgets nothing of it.
    """
    left = await _end_remains(env, run_id) if held else set[str]()
    row = await env.unfenced(lambda tx: claim(tx, run_id, env.lease.id, env.agents, others, left), urgent=stopping)
    return None if row is None else Driver(env, row)


async def _end_remains(env: Env, run_id: str) -> set[str]:
    """The calls of which something could not be ended. A holder that is only silent cuts its calls itself."""

    def look(tx: Tx) -> tuple[RunRow, str, list[str], list[str]] | None:
        row = tx.run(run_id)
        holder = row.holder if row is not None and row.holder != env.lease.id else None
        if row is None or holder is None or not known_dead(tx, holder):
            return None
        beside = [call.id for call in (*pending_undos(tx, row), *tx.open_calls(row.n))]
        return row, holder, [call.id for call in row.in_flight], beside

    found = env.store.read(look)
    return set() if found is None else await env.remains.end(*found)
