"""Drives runs in this process's event loop: claims what is queued, takes over what was left, within limits."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Container, Iterable
from functools import partial
from typing import Any

from standfast.abc import Tx
from standfast.driver import Driver, claim_and_drive
from standfast.drivers.room import Room
from standfast.env import Env
from standfast.errors import StoreDamaged, StoreError
from standfast.leases import Others
from standfast.records import Mode
from standfast.rows import RunRow
from standfast.wedged import settle_wedged

log = logging.getLogger("standfast")
RELEASE_SECONDS = 10.0
SCAN_SECONDS = 1.0
CLAIMS_AT_ONCE = 50  # so many are being claimed: in between, the loop turns to the runs that are driven
TOUCHED_AT_ONCE = 100
WEDGED_SECONDS = 2.0


class LocalDriver:
    """Many runs in one event loop."""

    def __init__(self, env: Env, others: Others, concurrency: int | None) -> None:
        self._env = env
        self._others = others
        self._room = Room(concurrency, {name: agent.concurrency for name, agent in env.agents.items()})
        self.active: dict[str, Driver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._claiming: dict[str, bool] = {}  # run: is it being stopped?
        # cannot be read or driven: left alone until somebody moves them past this seq
        self._damaged: dict[str, int] = {}
        self._lacking: set[tuple[str, str]] = set()  # runs, in a status whose end needs code that is not here
        self._context = contextvars.copy_context()  # nobody's: a step that asks for a child does not own its driver
        self._scheduled = False
        self._touched: deque[str] = deque()  # runs that verbs have touched since the last look
        self._all = True  # look at every run that somebody holds, not only at those that were touched
        self._closing = False
        self._beat = time.monotonic()
        self.blocked_by = ""  # the stopped run whose code keeps the event loop from turning
        self._stopping_since: dict[str, float] = {}
        self._holding = threading.Lock()  # for the two below: set by the control thread, heeded by the event loop
        self.unwritten: dict[str, Mode] = {}  # runs that hold here by a stop that the store could not take
        self.claims = True  # False while a halt could not be written: nobody knows yet whom it holds
        self._bumped = 0.0
        self._scanned = 0.0

    # --- looking for work (event loop) --------------------------------------------------------------

    def look_soon(self) -> None:
        """Look for runs to drive, once this tick is over."""
        if not self._scheduled and not self._closing:
            self._scheduled = True
            self._env.loop.call_soon(self._look, context=self._context)

    def _look(self) -> None:
        self._scheduled = False
        if self._closing or self._env.crashed or not self._env.lease.fresh or not self.claims:
            return  # what a silent process claims would be taken from it at once: its next tick looks again
        full = self._env.store.reserve.short
        try:
            candidates = self._env.store.read(self._candidates)
        except StoreError:
            return  # the control thread reports the trouble and looks again
        for id_, agent, status, holder in candidates:
            if id_ in self.active or id_ in self._claiming or id_ in self._damaged or agent not in self._env.agents:
                continue
            stopping = status in ("pausing", "cancelling")
            if id_ in self.unwritten or (full and not stopping):
                continue
            if (id_, status) in self._lacking or (status == "queued" and not self._room.free(agent, 1)):
                continue
            if not self._more(stopping=stopping):
                self._all = self._all or status != "queued"  # what is left of them is found again
                continue
            if status != "queued" and holder is not None and holder != self._env.lease.id and not self._gone(holder):
                continue
            self._claiming[id_] = stopping
            self._room.enter(id_, agent)
            drive = self._drive(id_, held=holder is not None, stopping=stopping)
            context = self._env.context.copy()  # not that of the step, say, which has started a child
            task = self._env.loop.create_task(drive, name=f"standfast drive {id_}", context=context)
            self._tasks[id_] = task
            task.add_done_callback(partial(self._ended, id_))

    def _more(self, *, stopping: bool) -> int:
        """How many more claims may be under way, so that the loop turns to what is driven; stops wait for no others."""
        return CLAIMS_AT_ONCE - sum(one == stopping for one in self._claiming.values())

    def _candidates(self, tx: Tx) -> list[tuple[str, str, str, str | None]]:
        """As many as could be claimed now: a long queue costs no more than a short one."""
        found: list[tuple[str, str, str, str | None]] = []
        if self._all or len(self._touched) > TOUCHED_AT_ONCE:  # one by one, 10,000 would hold the loop up
            self._all = False
            self._touched.clear()
            found += tx.held()
        while self._touched:
            row = _readable(tx, self._touched.popleft())
            if row is not None and row.status in ("running", "pausing", "cancelling"):
                found.append((row.id, row.agent, row.status, row.holder))
        passed_over = len(self._claiming) + len(self._damaged) + len(self._lacking) + len(self.unwritten)
        more = max(self._more(stopping=False), 0)
        free = {agent: self._room.free(agent, more) for agent in self._env.agents}
        return found + tx.queued({agent: places + passed_over for agent, places in free.items() if places})

    def _ended(self, id_: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(id_) is task:
            del self._tasks[id_]

    def _row(self, id_: str) -> RunRow | None:
        """A run as it is in the store; None too if its row cannot be read, which is its own trouble alone."""
        return self._env.store.read(lambda tx: _readable(tx, id_))

    def _gone(self, holder: str) -> bool:
        return self._env.store.read(lambda tx: self._others.gone(tx, holder))

    async def _drive(self, id_: str, *, held: bool, stopping: bool) -> None:
        driver: Driver | None = None
        try:
            driver = await claim_and_drive(self._env, id_, self._others, held=held, stopping=stopping)
        except StoreDamaged as error:
            self._damaged[id_] = -1
            log.error("standfast: run %s cannot be driven: %s", id_, error)
            self.look_soon()
            return
        except StoreError as error:  # no reason to try again at once: the next scan does
            log.error("standfast: run %s cannot be claimed: %s", id_, error)
            return
        else:
            self.look_soon()
        finally:
            del self._claiming[id_]
            if driver is None:
                self._room.leave(id_)
        if driver is None:
            return
        self.active[id_] = driver
        self._heed_unwritten(id_, driver)
        driver.s.look_for_work = self.look_soon
        driver.s.on_waiting = partial(self._waits, id_)
        self._env.live += 1
        try:
            if self._closing:
                driver.release("shutdown")
            else:
                driver.s.notice()  # a verb may have come between claim and now
            await driver.drive()
            if driver.lacks_code:
                self._lacking.add((id_, driver.s.row.status))
        except Exception as error:  # noqa: BLE001 - it could not even be held: the next touch tries again
            row = self._row(id_)
            self._damaged[id_] = -1 if row is None else row.seq
            log.error("standfast: run %s is left alone: %s", id_, error)
        finally:
            self._env.live -= 1
            self.active.pop(id_, None)
            self._room.leave(id_)
            self._env.hub.poke(id_)
            self.look_soon()

    def _heed_unwritten(self, id_: str, driver: Driver) -> None:
        """A stop that the store could not take came while the run was being claimed."""
        with self._holding:
            if not self.claims:
                self.unwritten.setdefault(id_, "pause")  # until the halt says whether it is meant
            mode = self.unwritten.get(id_)
        if mode is not None:
            driver.s.stop_unwritten(mode)

    def _waits(self, id_: str, calls: int) -> None:
        """So many calls of a run only wait."""
        self._room.waits(id_, calls > 0)
        self.look_soon()

    # --- signals and time (control thread) ------------------------------------------------------------

    def touched(self, ids: list[str]) -> None:
        """Verbs have touched runs: close their gates in memory at once, whatever the event loop is doing."""
        for id_ in ids:
            driver = self.active.get(id_)
            row = self._row(id_) if driver is not None or id_ in self._damaged else None
            if row is None or row.seq > self._damaged.get(id_, -1):  # what its own driver wrote is no touch
                self._damaged.pop(id_, None)
            if driver is not None:
                if row is not None and row.status != "running":
                    driver.s.shut = True
                    self._stopping_since.setdefault(id_, time.monotonic())
                self._in_loop(driver.s.notice)
            self._env.hub.poke(id_)
        self._touched.extend(ids)
        self._in_loop(self.look_soon)

    def stop_unwritten(self, ids: Iterable[str], mode: Mode, *, all_of_them: bool) -> None:
        """A stop that the store could not take holds here: nothing of these runs begins, and what is under way ends."""
        with self._holding:
            self.claims = self.claims and not all_of_them
            for id_ in ids:
                before = self.unwritten.get(id_)
                self.unwritten[id_] = harder = mode if before is None or mode == "cancel" else before
                driver = self.active.get(id_)
                if driver is not None:
                    driver.s.shut = True
                    self._in_loop(partial(driver.s.stop_unwritten, harder))

    def written(self, ids: Container[str], others: Container[str], *, halts: bool) -> None:
        """The stop of these runs is in the store now, or came to nothing; those of `others` are not, nor perhaps halts.

        Without halts, every run is let go that only waited to learn whether one is meant for it.
        """
        with self._holding:
            self.claims = not halts
            free = [id_ for id_ in self.unwritten if id_ not in others and (not halts or id_ in ids)]
            for id_ in free:
                del self.unwritten[id_]
                driver = self.active.get(id_)
                if driver is not None:
                    self._in_loop(partial(driver.s.stop_unwritten, None))
        self._in_loop(self.look_soon)

    def tick(self) -> None:
        """Keep the lease, look for the dead, and settle what a blocked event loop cannot."""
        env = self._env
        if env.crashed:
            return
        now = time.monotonic()
        trouble: StoreError | None = None
        try:
            self._keep_lease(now)
        except StoreError as error:  # no reason to leave a blocked loop's stop unsettled
            trouble = error
        if now - self._scanned >= SCAN_SECONDS:
            self._scanned = now
            self._all = True
            self._in_loop(self.look_soon)
        self._settle_wedged(now)
        self._in_loop(self._alive)
        if trouble is not None:
            raise trouble

    def _keep_lease(self, now: float) -> None:
        env = self._env
        if now - self._bumped < env.lease.seconds / 4:
            return
        began = time.monotonic()
        if not env.store.write(env.lease.bump, "upkeep"):
            env.store.write(env.lease.take, "upkeep")
        env.lease.confirm(began)
        self._bumped = now
        self._others.observe(env.store.read(lambda tx: tx.leases()))

    def _alive(self) -> None:
        self._beat = time.monotonic()
        self.blocked_by = ""

    def _settle_wedged(self, now: float) -> None:
        for id_, since in list(self._stopping_since.items()):
            driver = self.active.get(id_)
            if driver is None:
                del self._stopping_since[id_]
            elif self._is_wedged(now, since) and settle_wedged(self._env.store, driver):
                del self._stopping_since[id_]
                self.blocked_by = id_
                self._env.hub.poke(id_)

    def _is_wedged(self, now: float, since: float) -> bool:
        """A stop that has taken this long in a loop that does not turn."""
        return now - since > WEDGED_SECONDS and now - self._beat > WEDGED_SECONDS / 2

    def _in_loop(self, act: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: there is nobody to tell
            self._env.loop.call_soon_threadsafe(act)

    # --- leaving ------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Release every run, drained as on a pause; what does not drain is left to a takeover."""
        self._closing = True
        for driver in list(self.active.values()):
            driver.release("shutdown")
        tasks = set(self._tasks.values())
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=RELEASE_SECONDS)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=1)

    def drop(self) -> None:
        """As kill -9: everything stops acting, nothing more is written."""
        self._closing = True
        for driver in list(self.active.values()):
            driver.s.shut = True
            if driver.s.attempt is not None:
                driver.s.attempt.closed = True
                driver.s.attempt.pieces.cut()
                for task in {*driver.s.attempt.used, *driver.s.attempt.spawned, driver.s.attempt.main}:
                    if task is not None:
                        task.cancel()
            for task in list(driver.s.tasks):
                task.cancel()
            for flight in list(driver.s.flights.values()):
                flight.abandoned = True
                flight.cut()
        for task in list(self._tasks.values()):
            task.cancel()


def _readable(tx: Tx, id_: str) -> RunRow | None:
    """A run as it is in the store; None too if its row cannot be read, which is its own trouble alone."""
    try:
        return tx.run(id_)
    except StoreDamaged:
        return None
