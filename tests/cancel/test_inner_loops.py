"""Code that runs an event loop in a thread, such as a framework's run_sync, is cancelled there, once (R39)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, one_call_of, outcomes
from tests.helpers import eventually

from standfast import Agent, Done, Run, Runtime, agent, tool


class Session:
    """Opened in the inner loop; closing it takes some turns of that loop."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.ends: list[str] = []

    async def __aenter__(self) -> None:
        self.open.set()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.ends.append(kind.__name__ if kind else "")
        try:
            for _ in range(20):
                await asyncio.sleep(0.01)
        except BaseException as error:
            self.ends.append(f"{type(error).__name__} while closing")
            raise
        self.ends.append("closed")

    def run_sync(self) -> None:
        async def main() -> None:
            async with self:
                await asyncio.sleep(LIMIT)

        asyncio.run(main())


def in_a_sync_tool(work: Callable[[], None]) -> Agent[Nothing, Any]:
    @tool(effect="read")
    def framework() -> None:
        work()

    return one_call_of(framework)


def in_a_thread_of_a_tool(work: Callable[[], None]) -> Agent[Nothing, Any]:
    @tool(effect="read")
    async def framework() -> None:
        await asyncio.to_thread(work)

    return one_call_of(framework)


def in_a_thread_of_a_step(work: Callable[[], None]) -> Agent[Nothing, Any]:
    @agent("framework")
    async def framework(run: Run[Nothing]) -> Done[None]:
        del run
        await asyncio.to_thread(work)
        return Done(None)

    return framework


everywhere = pytest.mark.parametrize("within", [in_a_sync_tool, in_a_thread_of_a_tool, in_a_thread_of_a_step])
Within = Callable[[Callable[[], None]], Agent[Nothing, Any]]


@everywhere
async def test_code_in_a_loop_of_its_own_closes_what_it_has_opened(db: str, within: Within) -> None:
    session = Session()
    framework = within(session.run_sync)
    async with Runtime(db, agents=[framework]) as r:
        run = await r.start(framework, Nothing())
        await eventually(session.open.is_set)
        receipt = await cancelled(run)
    assert session.ends == ["CancelledError", "closed"]
    assert set(outcomes(receipt).values()) <= {"aborted"}
    assert receipt.residue == ()


@everywhere
async def test_a_loop_that_is_busy_is_unwound(db: str, within: Within) -> None:
    """A coroutine that never awaits hears of no cancellation."""
    begun, ends = threading.Event(), list[str]()

    def run_sync() -> None:
        async def main() -> None:
            begun.set()
            try:
                while True:
                    threading.Event().wait(0.001)
            except BaseException as error:
                ends.append(type(error).__name__)
                raise

        asyncio.run(main())

    framework = within(run_sync)
    async with Runtime(db, agents=[framework]) as r:
        run = await r.start(framework, Nothing())
        await eventually(begun.is_set)
        receipt = await cancelled(run)
    assert ends == ["Stopped"]
    assert receipt.residue == ()
