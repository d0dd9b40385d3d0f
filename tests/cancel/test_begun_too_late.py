"""What timers and callbacks of a stopped call or step try to begin, when it has ended, does not begin (R39, R6)."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, one_call_of, under_way
from tests.helpers import eventually

from standfast import Accepted, Agent, Done, Performed, Run, Runtime, agent, tool
from standfast.context import Stopped


class Late:
    """The context that a timer of the code has kept, and what was begun in it."""

    def __init__(self, folder: Path) -> None:
        self.ready = asyncio.Event()
        self.context = contextvars.copy_context()
        self.begun = threading.Event()
        self.file = folder / "begun"

    async def wait(self) -> None:
        self.context = contextvars.copy_context()
        self.ready.set()
        await asyncio.sleep(LIMIT)

    def work(self) -> None:
        self.begun.set()

    async def task(self) -> None:
        self.begun.set()

    async def in_the_callback(self, begin: Callable[[], Any]) -> Any:
        """What `begin` returns or raises, called by the loop as a timer calls it."""
        came: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def call() -> None:
            try:
                came.set_result(begin())
            except BaseException as error:  # noqa: BLE001 - handed on
                came.set_exception(error)

        asyncio.get_running_loop().call_soon(call, context=self.context)
        return await came


class OfAWrite(Late):
    def agent(self) -> Agent[Nothing, Any]:
        async def take_back(_: Performed[Any, Any]) -> None: ...

        @tool(undo=take_back)
        async def charge() -> None:
            await self.wait()

        return one_call_of(charge)


class OfARead(Late):
    def agent(self) -> Agent[Nothing, Any]:
        @tool(effect="read")
        async def look() -> None:
            await self.wait()

        return one_call_of(look)


class OfAStep(Late):
    def agent(self) -> Agent[Nothing, Any]:
        @agent("direct")
        async def direct(run: Run[Nothing]) -> Done[None]:
            return Done(await self.wait())

        return direct


of_each = pytest.mark.parametrize("kind", [OfAWrite, OfARead, OfAStep])
stopped_by = pytest.mark.parametrize("verb", ["cancel", "pause"])


async def stop(runs: Runtime, it: Any, verb: str) -> None:
    run = await runs.start(it.agent(), Nothing())
    await it.ready.wait()
    assert isinstance(await getattr(run, verb)(), Accepted)
    assert (await run.settled(timeout=LIMIT)).residue == ()


def runtime(db: str, it: Any) -> Runtime:
    return Runtime(db, agents=[it.agent()])


@of_each
@stopped_by
@pytest.mark.parametrize("pool", [False, True], ids=["default", "passed"])
async def test_a_thread_that_a_timer_starts_after_the_end_never_begins(
    db: str, tmp_path: Path, kind: Any, verb: str, pool: bool
) -> None:
    it = kind(tmp_path)
    loop = asyncio.get_running_loop()
    async with runtime(db, it) as runs:
        with ThreadPoolExecutor(1) as passed:
            if kind is OfAWrite and verb == "pause":
                pytest.skip("a pause waits for a write")
            await stop(runs, it, verb)
            handed = await it.in_the_callback(lambda: [loop.run_in_executor(passed if pool else None, it.work)])
            with pytest.raises(asyncio.CancelledError):
                await handed[0]
        assert not it.begun.is_set()


@of_each
async def test_a_task_that_a_timer_starts_after_the_end_never_begins(db: str, tmp_path: Path, kind: Any) -> None:
    it = kind(tmp_path)
    loop = asyncio.get_running_loop()
    async with runtime(db, it) as runs:
        await stop(runs, it, "cancel")
        tasks = await it.in_the_callback(lambda: [loop.create_task(it.task())])
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()
        assert not it.begun.is_set()


@of_each
async def test_a_program_that_a_timer_starts_after_the_end_never_begins(db: str, tmp_path: Path, kind: Any) -> None:
    it = kind(tmp_path)
    async with runtime(db, it) as runs:
        await stop(runs, it, "cancel")
        with pytest.raises(Stopped):
            await it.in_the_callback(lambda: subprocess.Popen(["touch", str(it.file)]).wait())
        assert not it.file.exists()


async def test_a_thread_of_anyio_that_begins_after_the_end_never_begins(db: str, tmp_path: Path) -> None:
    """By code that nobody could end: it goes on in the context of its call, and asks for a thread."""
    it, let_go, refused = OfARead(tmp_path), asyncio.Event(), asyncio.Event()

    @tool(effect="read", grace=0.1)
    async def deaf() -> None:
        it.ready.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        try:
            await anyio.to_thread.run_sync(it.work)
        except asyncio.CancelledError:
            refused.set()

    async with under_way(db, one_call_of(deaf), it.ready) as run:
        assert (await cancelled(run)).residue != ()
        let_go.set()
        await asyncio.wait_for(refused.wait(), LIMIT)
        assert not it.begun.is_set()


async def test_what_a_callback_begins_during_clean_up_has_its_time_and_is_waited_for(db: str) -> None:
    """R39: a driver of a database tells its server in a task or thread of its own that a query was cancelled."""
    opened, log = asyncio.Event(), list[str]()

    async def take_back(_: Performed[Any, Any]) -> None:
        log.append("undone")

    def release() -> None:
        for _ in range(20):
            time.sleep(0.01)
        log.append("thread")

    async def tell() -> None:
        await asyncio.sleep(0.2)
        log.append("task")

    @tool(undo=take_back)
    async def charge() -> None:
        loop = asyncio.get_running_loop()
        opened.set()
        try:
            await asyncio.sleep(LIMIT)
        finally:
            kept: list[Any] = []
            loop.call_soon(lambda: kept.append(loop.run_in_executor(None, release)))
            loop.call_soon(lambda: kept.append(loop.create_task(tell())))
            while len(kept) < 2:
                await asyncio.sleep(0)

    async with under_way(db, one_call_of(charge), opened) as run:
        assert (await cancelled(run)).residue == ()
    assert sorted(log[:2]) == ["task", "thread"]
    assert log[2:] == ["undone"]


async def test_a_chain_of_threads_ends_with_the_grace(db: str) -> None:
    """Each begins the next when it has ended: they are not cut one by one for ever."""
    begun, first = list[float](), asyncio.Event()

    @tool(effect="read", grace=0.2)
    async def look() -> None:
        loop = asyncio.get_running_loop()

        def work() -> None:
            begun.append(time.monotonic())
            time.sleep(0.02)

        def start(_: Any = None) -> None:
            first.set()
            if len(begun) < 1000:
                loop.run_in_executor(None, work).add_done_callback(again)

        def again(future: asyncio.Future[Any]) -> None:
            if not future.cancelled():
                future.exception()
                start()

        start()
        await asyncio.sleep(LIMIT)

    async with under_way(db, one_call_of(look), first) as run:
        assert (await cancelled(run)).residue == ()
        settled = len(begun)
        await asyncio.to_thread(time.sleep, 0.2)
        assert len(begun) == settled < 1000


async def test_the_next_try_of_a_call_may_start_threads_after_one_that_was_cut_for_its_time(db: str) -> None:
    """R39: what was cut with the first try is no business of the second."""
    tries: list[int] = []

    def work(n: int) -> str:
        for _ in range(1000 if n == 1 else 20):
            time.sleep(0.01)
        return f"try {n}"

    @tool(effect="read", timeout=3.0, grace=0.1, retries=1)
    async def look() -> str:
        tries.append(1)
        return await asyncio.to_thread(work, len(tries))

    it = one_call_of(look)
    async with Runtime(db, agents=[it]) as runs:
        run = await runs.start(it, Nothing())
        assert await asyncio.wait_for(run.result(), LIMIT) == "try 2"


async def test_a_write_that_a_pause_waits_for_may_use_callbacks_and_tasks(db: str) -> None:
    """R7: it was not cut, so nothing that it begins is."""
    opened, go_on, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def background(told: asyncio.Future[None]) -> None:
        await asyncio.sleep(2.5)  # longer than the clean-up of a step's code may take
        done.append("written")
        told.set_result(None)

    @tool
    async def charge() -> None:
        loop = asyncio.get_running_loop()
        told = loop.create_future()
        kept: list[Any] = []
        opened.set()
        await go_on.wait()
        loop.call_soon(lambda: kept.append(loop.create_task(background(told))))
        await told

    async with under_way(db, one_call_of(charge), opened) as run:
        assert isinstance(await run.pause(), Accepted)
        await eventually(lambda: _draining(run), LIMIT)
        go_on.set()
        receipt = await run.settled(timeout=LIMIT)
        assert [f.outcome for f in receipt.in_flight] == ["finished"]
        assert done == ["written"]


async def _draining(run: Any) -> bool:
    return (await run.view()).status == "pausing"
