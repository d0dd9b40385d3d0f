"""Threads that code of a run starts in another event loop than the run's are owned as truly as others (R39)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.cancel.support import LIMIT, cancelled, of_kind, one_call_of, outcomes, under_way
from tests.cancel.test_owned_threads import Blocking, Ticking
from tests.helpers import eventually

from standfast import Performed, Runtime, tool
from standfast.events import LateResult


@contextmanager
def loop_in_a_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """As SDKs have them that are called from sync code."""
    loop = asyncio.new_event_loop()

    def main() -> None:
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=main)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


async def elsewhere(loop: asyncio.AbstractEventLoop, code: Awaitable[Any]) -> None:
    async def wait() -> None:
        await code

    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(wait(), loop))


async def test_a_thread_of_a_sync_tool_with_a_loop_of_its_own_ends_and_is_not_named(db: str) -> None:
    """R39: `anyio.run` in a sync tool, as the sync doors of frameworks do; its loop is closed when it has ended."""
    asyncio.get_running_loop().set_debug(True)
    work = Ticking()

    @tool(effect="read")
    def look() -> None:
        anyio.run(anyio.to_thread.run_sync, work)

    async with under_way(db, one_call_of(look), work.begun) as run:
        receipt = await cancelled(run)
        assert work.ended.is_set()
        assert outcomes(receipt) == {"look": "aborted"}
        assert receipt.residue == ()


async def test_a_thread_of_a_loop_in_another_thread_has_ended_before_the_write_is_undone(db: str) -> None:
    asyncio.get_running_loop().set_debug(True)  # which finds whoever touches the other loop from here
    work = Ticking()
    ended_before_undo: list[bool] = []

    async def refund(_: Performed[Any, Any]) -> None:
        ended_before_undo.append(work.ended.is_set())

    with loop_in_a_thread() as other:
        other.set_debug(True)

        @tool(undo=refund)
        async def charge() -> None:
            await elsewhere(other, anyio.to_thread.run_sync(work))

        async with under_way(db, one_call_of(charge), work.begun) as run:
            receipt = await cancelled(run)
            assert ended_before_undo == [True]
            assert [u.outcome for u in receipt.undone] == ["undone"]
            assert receipt.residue == ()


async def test_a_blocking_thread_of_a_loop_in_another_thread_is_named(db: str) -> None:
    asyncio.get_running_loop().set_debug(True)
    work = Blocking()
    with loop_in_a_thread() as other:

        @tool(undo=work.refund, grace=0.1)
        async def charge() -> None:
            await elsewhere(other, anyio.to_thread.run_sync(work))

        async with under_way(db, one_call_of(charge), work.begun) as run:
            receipt = await cancelled(run)
            assert outcomes(receipt) == {"charge": "still_running"}
            assert [u.outcome for u in receipt.undone] == ["in_doubt"]
            work.let_go.set()
            await eventually(lambda: of_kind(run, LateResult), LIMIT)
            assert work.log == ["refunded"]  # the thread was unwound where it could be at last


def to_thread(work: Callable[[], None]) -> Awaitable[Any]:
    return asyncio.to_thread(work)


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_thread_of_a_loop_that_another_runtime_drives_ends_with_its_own_call(db: str, effect: Any) -> None:
    """R39: each loop's executor is watched; the thread belongs to the call that started it, not to the loop."""
    asyncio.get_running_loop().set_debug(True)
    work = Ticking()
    with loop_in_a_thread() as other:
        runtime = Runtime(f"{db}2", agents=[])
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(runtime.__aenter__(), other))

        @tool(effect=effect)
        async def look() -> None:
            await elsewhere(other, to_thread(work))

        async with under_way(db, one_call_of(look), work.begun) as run:
            receipt = await cancelled(run)
            assert work.ended.is_set()
            assert outcomes(receipt) == {"look": "aborted"}
            assert receipt.residue == ()
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(runtime.__aexit__(None, None, None), other))
