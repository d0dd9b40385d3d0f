"""Drives runs in this process's event loop: claims what is queued, takes over what was left, within limits."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import time
from functools import partial
from typing import Any

from standfast.driver import Driver, claim_and_drive
from standfast.env import Env
from standfast.errors import StoreDamaged, StoreError
from standfast.leases import Others
from standfast.rows import RunRow
from standfast.wedged import settle_wedged

log = logging.getLogger("standfast")
RELEASE_SECONDS = 10.0
SCAN_SECONDS = 1.0
WEDGED_SECONDS = 2.0


class LocalDriver:
    """Many runs in one event loop."""

    def __init__(self, env: Env, others: Others, concurrency: int | None) -> None:
        self._env = env
        self._others = others
        self._concurrency = concurrency
        self.active: dict[str, Driver] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._claiming: dict[str, str] = {}  # run: its agent
        # cannot be read or driven: left alone until somebody moves them past this seq
        self._damaged: dict[str, int] = {}
        self._lacking: set[tuple[str, str]] = set()  # runs, in a status whose end needs code that is not here
        self._context = contextvars.copy_context()  # nobody's: a step that asks for a child does not own its driver
        self._scheduled = False
        self._closing = False
        self._beat = time.monotonic()
        self.blocked_by = ""  # the stopped run whose code keeps the event loop from turning
        self._stopping_since: dict[str, float] = {}
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
        if self._closing or self._env.crashed or not self._env.lease.fresh:
            return  # what a silent process claims would be taken from it at once: its next tick looks again
        try:
            candidates = self._env.store.read(lambda tx: tx.claimable())
        except StoreError:
            return  # the control thread reports the trouble and looks again
        for id_, agent, status, holder in candidates:
            if id_ in self.active or id_ in self._claiming or id_ in self._damaged or agent not in self._env.agents:
                continue
            if (id_, status) in self._lacking or (status == "queued" and not self._room(agent)):
                continue
            if status != "queued" and holder is not None and holder != self._env.lease.id and not self._gone(holder):
                continue
            self._claiming[id_] = agent
            task = self._env.loop.create_task(self._drive(id_, held=holder is not None), name=f"standfast drive {id_}")
            self._tasks[id_] = task
            task.add_done_callback(partial(self._ended, id_))

    def _ended(self, id_: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(id_) is task:
            del self._tasks[id_]

    def _row(self, id_: str) -> RunRow | None:
        """A run as it is in the store; None too if its row cannot be read, which is its own trouble alone."""
        try:
            return self._env.store.read(lambda tx: tx.run(id_))
        except StoreDamaged:
            return None

    def _gone(self, holder: str) -> bool:
        return self._env.store.read(lambda tx: self._others.gone(tx, holder))

    def _room(self, agent: str) -> bool:
        """Runs that only wait for a child or for time do not take a place."""
        busy = [d for d in self.active.values() if d.s.waiting == 0]
        if self._concurrency is not None and len(busy) + len(self._claiming) >= self._concurrency:
            return False
        limit = self._env.agents[agent].concurrency
        if limit is None:
            return True
        mine = [d for d in busy if d.s.agent.name == agent] + [a for a in self._claiming.values() if a == agent]
        return len(mine) < limit

    async def _drive(self, id_: str, *, held: bool) -> None:
        try:
            driver = await claim_and_drive(self._env, id_, self._others, held=held)
        except StoreDamaged as error:
            self._damaged[id_] = -1
            log.error("standfast: run %s cannot be driven: %s", id_, error)
            return
        finally:
            del self._claiming[id_]
        if driver is None:
            return
        self.active[id_] = driver
        driver.s.look_for_work = self.look_soon
        driver.s.on_waiting = lambda _: self.look_soon()
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
            self._env.hub.poke(id_)
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
        self._in_loop(self.look_soon)

    def tick(self) -> None:
        """Keep the lease, look for the dead, and settle what a blocked event loop cannot."""
        env = self._env
        if env.crashed:
            return
        now = time.monotonic()
        if now - self._bumped >= env.lease.seconds / 4:
            began = time.monotonic()
            if not env.store.write(env.lease.bump):
                env.store.write(env.lease.take)
            env.lease.confirm(began)
            self._bumped = now
            self._others.observe(env.store.read(lambda tx: tx.leases()))
        if now - self._scanned >= SCAN_SECONDS:
            self._scanned = now
            self._in_loop(self.look_soon)
        self._settle_wedged(now)
        self._in_loop(self._alive)

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
