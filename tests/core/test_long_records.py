"""Reading a long record does not keep other runs of the same event loop from going on (R34, R38)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from standfast import Done, Handle, Run, Runtime, agent, tool

LONG = 1500


@tool(effect="read")
async def _look() -> None:
    """Look."""


@agent("talker")
async def talker(run: Run[dict[str, int]]) -> Done[int]:
    for n in range(LONG):
        run.emit("word", n)
        if n % 5 == 4:
            await run.call(_look())
    return Done(LONG)


@asynccontextmanager
async def ended(store: Path) -> AsyncIterator[tuple[Runtime, Handle[int]]]:
    async with Runtime(store, [talker]) as runs:
        run = await runs.start(talker, {})
        assert await run.result(timeout=120) == LONG
        yield runs, run


async def _events(run: Handle[Any]) -> int:
    return len([event async for event in run.events()])


async def _transcript(run: Handle[Any]) -> int:
    await run.transcript()
    return LONG


async def _stops(run: Handle[Any]) -> int:
    await run.stops()
    return LONG


@pytest.mark.parametrize("reading", [_events, _transcript, _stops])
async def test_the_event_loop_turns_while_a_long_record_is_read(tmp_path: Path, reading: Any) -> None:
    async with ended(tmp_path / "runs.db") as (_, run):
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(others())
        try:
            assert await reading(run) >= LONG
        finally:
            beside.cancel()
        assert turns > 3, "other runs stood still"
