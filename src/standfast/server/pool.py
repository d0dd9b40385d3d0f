"""The workers of a server: started, watched, killed when they are stuck, started again.

A worker that is dead or frozen is killed for good before others take its runs over: nobody may
wake up later and go on with what somebody else has taken up.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from standfast.abc import Tx
from standfast.bodies.children import Child
from standfast.errors import StandfastError, StoreBusy, StoreError
from standfast.leases import LEASE_SECONDS
from standfast.records import Answer, Json
from standfast.runtime import Runtime
from standfast.server.about import About
from standfast.server.actors import Actor
from standfast.server.forcing import force_run, named
from standfast.server.limits import without_secrets
from standfast.server.lines import LONGEST_LINE, NO_AGENTS, NO_STORE, delta_of
from standfast.server.reading import Reader
from standfast.server.verbs import Asked
from standfast.stores.sqlite import lock_holder

log = logging.getLogger("standfast")

LOOK_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
LOCK_SECONDS = 1.0  # whoever keeps the store locked for so long is looked at
SILENT_SECONDS = 2.0  # none of its threads has run for so long: it is not only that the machine is busy
STOP_SECONDS = 10.0  # a stop that a blocked event loop keeps from settling for so long
LEAVE_SECONDS = 3.0
KILL_SECONDS = 5.0
GONE_KEPT = 100


class Worker:
    """One worker process, from its start to its end."""

    def __init__(self, name: str, argv: Sequence[str], lease_seconds: float) -> None:
        self.name = name
        mine, theirs = socket.socketpair()
        self.socket = mine
        try:
            self.child = Child(
                [sys.executable, "-m", "standfast.server.worker", str(theirs.fileno()), str(lease_seconds), *argv],
                new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),  # what agents print is no answer of the server
                pass_fds=(theirs.fileno(),),
                env=without_secrets(),
            )
        finally:
            theirs.close()
        self.pid = self.child.pid
        self.started = time.monotonic()
        self.heard = time.monotonic()
        self.loop_silent = 0.0
        self.blocked_by = ""  # the stopped run whose code keeps its event loop from turning
        self.storage = ""  # why its last write failed
        self.ready = False
        self.abouts: dict[str, About] = {}
        self.why_killed = ""
        self.cannot = ""  # why it ends by itself, in its own words
        self.reading: asyncio.Task[None] | None = None

    @property
    def silent_for(self) -> float:
        """Seconds since it was heard of: none of its threads has run since then."""
        return time.monotonic() - self.heard

    @property
    def frozen(self) -> bool:
        """Is it stopped, or does none of its threads get to run?"""
        return _is_stopped(self.pid) or self.silent_for > SILENT_SECONDS

    def kill(self, why: str) -> None:
        """SIGKILL to it and to everything it has started."""
        if not self.child.exited.done():
            self.why_killed = self.why_killed or why
            killed = self.child.kill()
            log.warning("standfast: %s (pid %d) was killed, %d processes: %s", self.name, self.pid, len(killed), why)


class Pool:
    """All workers of one server."""

    def __init__(
        self,
        runs: Runtime,
        reader: Reader,
        store: os.PathLike[str] | str,
        agents: Sequence[str],
        count: int,
        *,
        lease_seconds: float = LEASE_SECONDS,
        stop_seconds: float = STOP_SECONDS,
    ) -> None:
        self._runs = runs
        self._reader = reader
        self._store = os.fspath(store)
        self._agents = list(agents)
        self._count = count if agents else 0
        self._lease_seconds = lease_seconds
        self._stop_seconds = stop_seconds
        self._workers: dict[str, Worker] = {}
        self._said: dict[str, str] = {}  # how the last worker of a place ended
        self._gone: deque[int] = deque(maxlen=GONE_KEPT)  # the workers that have ended, the last ones
        self._keepers: list[asyncio.Task[None]] = []
        self._ending: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._ever_ready = False
        self.hopeless = asyncio.Event()  # the agents cannot be loaded, and never could
        self._locked_since: tuple[int, float] | None = None
        self._stopping: dict[str, float] = {}

    def start(self) -> None:
        """Workers are kept running from now on."""
        self._keepers = [asyncio.create_task(self._keep(f"worker {n + 1}")) for n in range(self._count)]
        if self._count:
            self._keepers.append(asyncio.create_task(self._look()))
            loop = asyncio.get_running_loop()
            self._runs.stops_elsewhere(lambda runs, why: _in(loop, self._end_holders, runs, why))

    async def close(self) -> None:
        """Runs are released; a worker that does not go by itself is killed, and its runs are taken up later."""
        self._closing.set()
        for keeper in self._keepers:
            keeper.cancel()
        workers = list(self._workers.values())
        for worker in workers:
            if not worker.child.exited.done():
                with suppress(ProcessLookupError):
                    worker.child.process.send_signal(signal.SIGTERM)
        if workers:
            await asyncio.wait([worker.child.exited for worker in workers], timeout=LEAVE_SECONDS)
        for worker in workers:
            worker.kill("it did not leave in time; its runs are taken up later")
        if workers:
            await asyncio.wait([worker.child.exited for worker in workers], timeout=LEAVE_SECONDS)
        for worker in workers:
            await self._bury(worker)
        await asyncio.gather(*self._keepers, return_exceptions=True)

    # --- what the doors ask ------------------------------------------------------------------------------------------

    def readiness(self) -> tuple[bool, Json]:
        """Are all of them at work?"""
        told: list[Any] = []
        ready = not self._runs.unwritten
        for n in range(self._count):
            name = f"worker {n + 1}"
            worker = self._workers.get(name)
            fine = (
                worker is not None
                and worker.ready
                and worker.silent_for < self._lease_seconds / 2
                and worker.loop_silent < self._stop_seconds / 2
                and not worker.storage
            )
            ready = ready and fine
            told.append(
                {
                    "name": name,
                    "pid": worker.pid if worker else None,
                    "ready": fine,
                    "silent_for": round(worker.silent_for, 1) if worker else None,
                    "loop_silent_for": worker.loop_silent if worker else None,
                    "last_end": self._said.get(name, ""),
                    "storage": worker.storage if worker else "",
                }
            )
        return ready, {"workers": told}

    def abouts(self) -> Mapping[str, About]:
        """What the agents say of themselves."""
        return {name: about for worker in self._workers.values() for name, about in worker.abouts.items()}

    async def would_kill(self, run: str) -> Json:
        """What `force` would kill now."""
        found = await self._reader.read(lambda tx: named(tx, run, self._pids()))
        return found.json

    async def force(self, run: str, ask: Asked, actor: Actor) -> Answer:
        """Kill the worker that holds a run which is to stop."""
        return await force_run(self._runs, self._reader, run, ask, actor, self._pids(), self.kill)

    async def kill(self, pid: int, why: str) -> None:
        """Kill a worker, and wait until the system says that it is dead."""
        for worker in [one for one in self._workers.values() if one.pid == pid]:
            worker.kill(why)
            await asyncio.wait([worker.child.exited], timeout=KILL_SECONDS)

    async def freed(self, error: StandfastError) -> bool:
        """Is it a worker of ours that keeps the store locked, and does not run? Then it does so no longer."""
        if not isinstance(error, StoreBusy) or error.pid is None:
            return False
        worker = next((one for one in self._workers.values() if one.pid == error.pid), None)
        if worker is None:
            return error.pid in self._gone  # others have found it frozen too
        if not worker.why_killed and not worker.frozen:
            return False
        await self.kill(worker.pid, "it was frozen while it kept the store locked")
        return True

    def _end_holders(self, runs: Sequence[str], why: str) -> None:
        """A stop could not be written, so no worker learns of it: those that hold the runs are ended.

        No worker is started again before it is written: whoever took the runs up would go on with them.
        """
        ending = asyncio.create_task(self._end_those(set(runs), why))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end_those(self, runs: set[str], why: str) -> None:
        try:
            pids = await self._reader.read(lambda tx: _holders(tx, runs))
        except StoreError as error:  # nothing says who holds them
            log.error("standfast: every worker is ended, the store does not say who holds a run: %s", error)
            pids = set(self._pids())
        for pid in pids:
            await self.kill(pid, why)

    def _pids(self) -> dict[int, str]:
        return {worker.pid: worker.name for worker in self._workers.values() if not worker.child.exited.done()}

    # --- keeping them -------------------------------------------------------------------------------------------------

    async def _keep(self, name: str) -> None:
        """One place: always a worker in it; the pause between two grows while they die young."""
        pause = FIRST_PAUSE
        starved = False  # did the last one end because the disk took nothing?
        while not self._closing.is_set():
            # The control thread tries to write all the time.
            while self._runs.unwritten or (starved and self._runs.storage):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_SECONDS)
            try:
                worker = Worker(name, [self._store, *self._agents], self._lease_seconds)
            except OSError as error:  # no processes or descriptors left
                self._said[name] = f"could not be started: {error}"
                log.error("standfast: %s %s", name, self._said[name])
                await asyncio.sleep(LONGEST_PAUSE)
                continue
            self._workers[name] = worker
            worker.reading = asyncio.create_task(self._hear(worker))
            await asyncio.wait([worker.child.exited])
            if self._closing.is_set():
                return
            code = worker.child.reap()
            lived = time.monotonic() - worker.started
            by_itself = f"ended by itself with code {code} after {lived:.0f} s"
            self._said[name] = worker.why_killed or ": ".join(filter(None, (by_itself, worker.cannot)))
            starved = code == NO_STORE
            if code == NO_AGENTS and not self._ever_ready:
                self.hopeless.set()
            if not worker.why_killed:
                log.error("standfast: %s (pid %d) %s", name, worker.pid, self._said[name])
            await self._bury(worker)
            pause = FIRST_PAUSE if lived > LONGEST_PAUSE or worker.why_killed else min(LONGEST_PAUSE, pause * 2)
            await asyncio.sleep(pause)

    async def _bury(self, worker: Worker) -> None:
        self._gone.append(worker.pid)
        if self._workers.get(worker.name) is worker:
            del self._workers[worker.name]
        if worker.reading is not None:
            worker.reading.cancel()
            await asyncio.gather(worker.reading, return_exceptions=True)
        worker.socket.close()
        worker.child.release()

    async def _hear(self, worker: Worker) -> None:
        reader, writer = await asyncio.open_connection(sock=worker.socket, limit=2 * LONGEST_LINE)
        try:
            while line := await reader.readline():
                worker.heard = time.monotonic()
                self._heed(worker, json.loads(line))
        except (ConnectionError, ValueError) as error:
            log.warning("standfast: %s is no longer heard: %s", worker.name, error)
        finally:
            writer.close()

    def _heed(self, worker: Worker, said: dict[str, Any]) -> None:
        if "delta" in said:
            self._runs.hub.delta(*delta_of(said["delta"]))
        elif "beat" in said:
            silent, blocked_by, storage = said["beat"]
            worker.loop_silent, worker.blocked_by, worker.storage = float(silent), str(blocked_by), str(storage)
        elif "cannot" in said:
            worker.cannot = str(said["cannot"])
        elif "ready" in said:
            worker.ready = self._ever_ready = True
            worker.abouts = {
                name: About(text, tuple(models), own) for name, (text, models, own) in said["ready"].items()
            }

    # --- looking for those that are stuck -----------------------------------------------------------------------

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look_once()
            except StoreError as error:
                log.warning("standfast: the workers cannot be looked after just now: %s", error)

    async def _look_once(self) -> None:
        if self._kill_lock_keeper():
            return
        for worker in list(self._workers.values()):
            if worker.ready and worker.silent_for > 0.6 * self._lease_seconds:
                # before a whole lease is over and others take its runs
                worker.kill(f"it was frozen, or in code that never yields: not heard of for {worker.silent_for:.0f} s")
        stuck = {worker.pid for worker in self._workers.values() if worker.loop_silent > self._stop_seconds / 2}
        if not stuck:
            self._stopping.clear()
            return
        for worker in [one for one in self._workers.values() if one.pid in stuck and one.blocked_by]:
            if worker.loop_silent > self._stop_seconds:  # its other runs would wait for code that nobody wants
                worker.kill(f"its event loop is blocked by code of run {worker.blocked_by}, which has been stopped")
        stopping = await self._reader.read(lambda tx: _stopping(tx, stuck))
        now = time.monotonic()
        self._stopping = {run: self._stopping.get(run, now) for run in stopping}
        for run, since in self._stopping.items():
            if now - since > self._stop_seconds:
                await self.kill(stopping[run], f"its event loop is blocked, and run {run} has waited for it to stop")

    def _kill_lock_keeper(self) -> bool:
        """A worker frozen inside a commit locks the store for everybody; then nobody's lease tells anything."""
        pid = lock_holder(Path(self._store))
        now = time.monotonic()
        if pid is None or pid not in self._pids():
            self._locked_since = None
            return False
        if self._locked_since is None or self._locked_since[0] != pid:
            self._locked_since = (pid, now)
        if now - self._locked_since[1] < LOCK_SECONDS:
            return False
        for worker in self._workers.values():
            if worker.pid == pid and worker.frozen:
                worker.kill("it was frozen while it kept the store locked")
                return True
        return False


def _in(loop: asyncio.AbstractEventLoop, act: Callable[..., None], *args: Any) -> None:
    """Have something done in the loop, from whatever thread."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(act, *args)


def _holders(tx: Tx, runs: set[str]) -> set[int]:
    """The processes that hold these runs."""
    pids = {lease.id: lease.pid for lease in tx.leases()}
    return {pids[holder] for run, _, _, holder in tx.held() if run in runs and holder in pids}


def _stopping(tx: Tx, pids: set[int]) -> dict[str, int]:
    """Runs in transit whose holders have these pids."""
    holders = {lease.id: lease.pid for lease in tx.leases() if lease.pid in pids}
    return {
        run: holders[holder]
        for run, _, status, holder in tx.held()
        if status in ("pausing", "cancelling") and holder in holders
    }


def _is_stopped(pid: int) -> bool:
    """As SIGSTOP leaves it, where the system tells."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in "Tt"
