"""A command that waits for a stop says what it waits for, and what would help (R27, R34)."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import eventually
from tests.server.serving import LONG, ROOT

from standfast import Done, Performed, Run, Runtime, agent, tool
from standfast.cli.screens import PlainScreen
from standfast.cli.story import Story

fails = 0


async def take_back(_: Performed[None, None]) -> None:
    global fails
    if fails > 0:
        fails -= 1
        raise ConnectionError("the shop does not answer")


@tool(effect="write", undo=take_back, settles="run")
async def order() -> None:
    """Order it."""


@agent("shopper")
async def shopper(run: Run[dict[str, int]]) -> Done[int] | None:
    if run.step == 0:
        await run.call(order())
        return None
    await asyncio.sleep(3600)
    return Done(1)


@pytest.fixture
async def left_alone(tmp_path: Path) -> Path:
    """A run that nobody drives, with something to undo."""
    store = tmp_path / "runs.db"
    async with Runtime(store, [shopper]) as runs:
        run = await runs.start(shopper, {}, id="one")
        await eventually(lambda: _at(runs, 1))
        assert await run.pause()
        await run.settled(timeout=120)
    return store


async def _at(runs: Runtime, step: int) -> bool:
    return (await runs.handle("one").view()).step >= step


def cancelling(store: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "standfast.cli", "cancel", "one", "--wait", "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("STANDFAST_")},
    )


async def _line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return await asyncio.wait_for(asyncio.to_thread(process.stderr.readline), LONG)


async def test_a_cancel_that_nobody_can_settle_says_so_and_what_would_help(left_alone: Path) -> None:
    process = cancelling(left_alone)
    try:
        said = await _line(process)
        assert "accepted: one is cancelling, waiting for a driver with agent shopper" in said
        assert f"standfast serve MODULE:AGENT --store {left_alone}" in await _line(process)
        async with Runtime(left_alone, [shopper]) as runs:
            assert (await runs.handle("one").settled(timeout=120)).status == "cancelled"
        told, _ = await asyncio.to_thread(process.communicate, None, LONG)
        assert "cancelled" in told
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


async def test_each_try_of_an_undo_that_fails_is_seen_from_everywhere(left_alone: Path) -> None:
    """R8: it is shown while there are more to come, in the record and by a process that only looks."""
    global fails
    fails = 2
    async with Runtime(left_alone, [shopper]) as runs, Runtime(left_alone, drive=False) as outside:
        run = outside.handle("one")
        assert await run.cancel()

        async def waits() -> bool:
            return "failed: ConnectionError: the shop does not answer" in (await run.view()).waiting_for

        await eventually(waits, LONG)
        assert (await runs.handle("one").settled(timeout=LONG)).status == "cancelled"
        record = [event async for event in run.events()]
        noted = [event.text for event in record if event.type == "verb_noted" and event.verb == "undo"]
        tries = [f"undo of order: try {n} of 5 failed: ConnectionError: the shop does not answer" for n in (1, 2)]
        assert noted == tries
        out = io.StringIO()  # what `standfast run` writes while it goes on
        story = Story(PlainScreen(out))
        for event in record:
            story.tell(event)
        assert [line for line in out.getvalue().splitlines() if "undo" in line] == [
            *(f"  ↶ {text}" for text in tries),
            "  ↶ undo of order: undone",
        ]
