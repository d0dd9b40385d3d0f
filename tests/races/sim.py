"""Two processes on one real SQLite file, in one virtual loop: they can crash, freeze and race, by a seed.

Only threads and time are stand-ins. The control thread's work is done by the loop, at places
the seed picks: in a later turn, or right before or after any transaction of anybody, which is
where a real thread would come between.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import random
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock

from tests.races.virtual import VirtualClock, VirtualLoop
from tests.races.world import Process, World
from tests.races.zoo import AGENTS

from standfast import Runtime, clock, control_thread, driving, leases, runtime
from standfast.abc import Point, Tx, Use
from standfast.bodies import looking
from standfast.drivers import local
from standfast.errors import Fenced
from standfast.leases import Others
from standfast.stores import group
from standfast.unwritten import Unwritten

T = TypeVar("T")
LEASE = 10.0
# Crashes here are a process's, never the disk's (tests/crash has those): waiting for a disk would prove nothing.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Hooks:
    """Work that a control thread would do, waiting for its place between the transactions of others."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._inside = False
        self._before: list[Callable[[], None]] = []
        self._after: list[Callable[[], None]] = []
        self.committed: list[Callable[[], None]] = []  # told of every commit

    def put(self, act: Callable[[], None]) -> None:
        """Have `act` done somewhere soon, as a thread would: in nobody's context."""
        loop = asyncio.get_running_loop()
        place = self._rng.random()
        work = partial(contextvars.Context().run, act)
        if place < 0.4:
            loop.call_soon(work)
            return
        once = _once(work)
        (self._before if place < 0.7 else self._after).append(once)
        loop.call_later(self._rng.choice((0.0, 0.002, 0.05)), once)

    def around(self, sql: str, execute: Callable[[], Any]) -> Any:
        if self._inside:
            return execute()
        if sql.startswith("BEGIN"):
            self._run(self._before)
        result = execute()
        if sql == "COMMIT":
            self._run(self._after)
            for tell in self.committed:
                tell()
        return result

    def _run(self, waiting: list[Callable[[], None]]) -> None:
        works, waiting[:] = waiting[:], []
        self._inside = True
        try:
            for work in works:
                work()
        finally:
            self._inside = False


def _once(work: Callable[[], None]) -> Callable[[], None]:
    left = [work]

    def do() -> None:
        if left:
            left.pop()()

    return do


class Connection:
    """A connection of sqlite3 that lets others in between its transactions."""

    def __init__(self, path: str, hooks: Hooks) -> None:
        self._real = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
        self._hooks = hooks
        self._writing = False

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        if sql == "PRAGMA synchronous = FULL":
            sql = "PRAGMA synchronous = OFF"  # what a power cut leaves is another test's concern
        if sql == "BEGIN IMMEDIATE" or (sql == "COMMIT" and self._writing):
            self._writing = sql != "COMMIT"
            return self._hooks.around(sql, lambda: self._real.execute(sql, parameters))
        return self._real.execute(sql, parameters)

    def close(self) -> None:
        self._real.close()


class LoopControl(control_thread.ControlThread):
    """The control thread without a thread."""

    hooks: Hooks
    frozen = False
    stopped = False

    def start(self) -> None:
        self._signal = self._store.read(lambda tx: tx.last_signal())
        self._seen_soon = False
        self.hooks.committed.append(self._somebody_committed)
        self._every_tick()

    def stop(self) -> None:
        self.stopped = True

    def call(self, work: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def do() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - belongs to whoever asked
                future.set_exception(error)
            else:
                future.set_result(result)

        self.hooks.put(do)
        return future

    def carry_out(self, act: Callable[[Tx], T], use: Use = "ordinary", stop: Unwritten[T] | None = None) -> Future[T]:
        def alone() -> T:
            result = self._store.write(act, use)
            self.read_signals()
            return result

        return self.call(alone)

    def _somebody_committed(self) -> None:
        if not self._seen_soon and not self.stopped:
            self._seen_soon = True
            asyncio.get_running_loop().call_later(0.003, self._look, context=contextvars.Context())

    def _look(self) -> None:
        self._seen_soon = False
        if not self.stopped and not self.frozen:
            self._watch()

    def _every_tick(self) -> None:
        if self.stopped:
            return
        if not self.frozen:
            self._tick()
        asyncio.get_running_loop().call_later(1.0, self._every_tick, context=contextvars.Context())


class AtOnce(Executor):
    """A thread would live in real time."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done = Future[T]()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
            done.set_exception(error)
        return done


class SeededIds:
    """Ids that are the same for the same seed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._n = itertools.count(1)

    def run(self) -> str:
        return f"run-{self._name}{next(self._n)}"

    def mail(self) -> str:
        return f"mail-{self._name}{next(self._n):04}"

    def process(self) -> str:
        return f"driver-{self._name}{next(self._n)}"

    def halt(self) -> str:
        return f"halt-{self._name}{next(self._n)}"


class Node(Runtime):
    """One process of the simulation."""

    def __init__(
        self, name: str, path: Path, world: World, hooks: Hooks, rng: random.Random, agents: Sequence[Any]
    ) -> None:
        self.process = Process(world, name)
        loop = asyncio.get_running_loop()
        super().__init__(
            path,
            agents,
            provide={Process: self.process},
            clock=VirtualClock(loop),
            ids=SeededIds(name),
            connect=lambda where: Connection(where, hooks),
            points=self
            if rng.random() < 0.6
            else None,  # without points, a call takes the short way it takes in production
            lease_seconds=LEASE,
            notary=False,  # its thread would live in real time; tests/evidence plays with it
        )
        self._others = Others(LEASE, loop.time)
        self._rng = rng
        self._thaw = asyncio.Event()
        self._thaw.set()

    async def reached(self, run: str, tool: str, point: Point) -> None:
        """A frozen process stands still here; others are sometimes slow here."""
        await self._thaw.wait()
        if self._rng.random() < 0.25:
            await asyncio.sleep(self._rng.choice((0.0, 0.001, 0.02, 0.4)))
        await self._thaw.wait()

    async def control(self, act: Callable[[Tx], T], use: Use = "ordinary", stop: Unwritten[T] | None = None) -> T:
        """As Runtime; the world notes when the verb was decided."""

        def noted(tx: Tx) -> T:
            answer = act(tx)
            self.process.world.note("answer", "", data=answer)
            return answer

        return await super().control(noted, use, stop)

    async def crash(self) -> None:
        """As kill -9, and a new process in its place."""
        self.process.life += 1
        self._control.frozen = False
        self._thaw.set()
        await self.restart_driver()

    def hold_still(self) -> None:
        """From now on no call passes its next point, until a freeze has ended."""
        self._points = self
        assert self._driving is not None
        self._driving.env.points = self
        self._thaw.clear()

    async def freeze(self, seconds: float) -> None:
        """As SIGSTOP and SIGCONT: its lease is not kept, its calls stand still."""
        self._control.frozen = True
        self._thaw.clear()
        life = self.process.life
        await asyncio.sleep(seconds)
        if self.process.life == life:
            self._control.frozen = False
            if self._rng.random() < 0.5:
                self._tick()  # its control thread is awake before its event loop
            self._thaw.set()

    @property
    def _control(self) -> LoopControl:
        assert isinstance(self._thread, LoopControl)
        return self._thread


class Sim:
    """What a scenario has at hand."""

    def __init__(self, seed: int, loop: VirtualLoop, folder: str, agents: Sequence[Any]) -> None:
        self.rng = random.Random(seed)
        self.halting = seed % 2 == 1  # an operator takes part in every second story
        self.world = World(random.Random(seed + 1), loop.time)
        self.hooks = Hooks(random.Random(seed + 2))
        self.path = Path(folder, "runs.db")
        self.nodes: list[Node] = []
        self._agents = agents
        self._kept: set[asyncio.Task[None]] = set()
        self._open = contextlib.AsyncExitStack()

    def keep(self, task: asyncio.Task[None]) -> None:
        """A freeze under way."""
        self._kept.add(task)

    async def calm(self) -> None:
        """Until no process is frozen any more."""
        if self._kept:
            await asyncio.wait(self._kept)

    @contextlib.asynccontextmanager
    async def processes(self, *names: str) -> AsyncIterator[list[Node]]:
        """Processes on the store, all driving."""
        async with self._open:
            for name in names:
                await self.another(name)
            yield self.nodes

    async def another(self, name: str) -> Node:
        """One more process on the store, until the end of the others."""
        node = Node(name, self.path, self.world, self.hooks, random.Random(self.rng.random()), self._agents)
        self.nodes.append(node)
        return await self._open.enter_async_context(node)


async def _at_once(look: Callable[[], T]) -> T:
    """No program is started here: there is nothing to find, but the time a thread takes is real."""
    return look()


@contextlib.contextmanager
def _stand_ins(loop: VirtualLoop, hooks: Hooks) -> Iterator[None]:
    control = type("SeededControl", (LoopControl,), {"hooks": hooks})
    time = SimpleNamespace(
        monotonic=loop.time, perf_counter=loop.time, time=loop.time, clock_gettime=lambda _: loop.time()
    )
    with (
        mock.patch.object(runtime, "ControlThread", control),
        mock.patch.object(runtime, "ThreadPoolExecutor", lambda *_: AtOnce()),
        mock.patch.object(clock, "time", time),
        mock.patch.object(leases, "time", time),
        mock.patch.object(
            leases, "start_time", lambda _: "the same"
        ),  # one real process: its death proves nothing here
        mock.patch.object(looking, "in_a_thread", _at_once),
        mock.patch.object(local, "time", time),
        mock.patch.object(driving, "time", time),
        mock.patch.object(group, "time", time),
    ):
        yield


def simulate(seed: int, scenario: Callable[[Sim], Any], agents: Sequence[Any] = AGENTS) -> World:
    """Run one scenario in a loop, a store and a world of its own; gives the world, raises what it finds."""
    loop = VirtualLoop()
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    try:
        with tempfile.TemporaryDirectory(prefix="standfast-race-", dir=MEMORY) as folder:
            sim = Sim(seed, loop, folder, agents)
            with _stand_ins(loop, sim.hooks):
                try:
                    loop.run_until_complete(scenario(sim))
                finally:
                    _sweep(loop)
    finally:
        loop.close()
    for context in errors:
        error = context.get("exception")
        if "was destroyed but it is pending" in context["message"]:
            continue  # a crash leaves tasks standing, as it should
        crashed = any(node.process.life for node in sim.nodes)
        if "was never retrieved" in context["message"] and (crashed or isinstance(error, Fenced)):
            continue  # who waited for it was killed, or has lost the run
        raise AssertionError(f"the loop was told: {context['message']}: {error!r}") from error
    return sim.world


def _sweep(loop: VirtualLoop) -> None:
    """Tasks that a crash left standing."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return  # a gather of nothing would make an event loop of its own, which nobody closes
    for task in tasks:
        task.cancel()
    with contextlib.suppress(BaseException):
        loop.run_until_complete(asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10))
