"""Children are paused and resumed with their parent, which settles after them (R3, R4)."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from standfast import Done, Run, agent, child, tool
from standfast.testing import Lab, lab


class Part(BaseModel):
    name: str


class Slow:
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()


slow = Slow()


@tool
async def write(name: str) -> str:
    slow.begun.set()
    await slow.may_end.wait()
    return name.upper()


@agent("worker")
async def worker(run: Run[Part]) -> Done[str]:
    return Done(await run.call(write(run.state.name)))


@agent("boss")
async def boss(run: Run[Part]) -> Done[str]:
    return Done(await run.call(child(worker, run.state)))


@pytest.fixture(autouse=True)
def _afresh() -> None:
    global slow
    slow = Slow()


async def _statuses(runs: Lab) -> dict[str, str]:
    return {view.agent: view.status for view in await runs.list()}


async def test_a_parent_is_paused_only_when_its_child_is() -> None:
    """R3: the child's write may finish, and the parent says what it waits for."""
    async with lab([boss, worker]) as runs:
        run = await runs.start(boss, Part(name="a"))
        await slow.begun.wait()
        assert await run.pause()
        with pytest.raises(TimeoutError):
            await run.settled(timeout=0.5)
        assert await _statuses(runs) == {"boss": "pausing", "worker": "pausing"}
        slow.may_end.set()
        await run.settled()
        assert await _statuses(runs) == {"boss": "paused", "worker": "done"}
        assert await run.resume()
        assert await run.result() == "A"


async def test_a_resume_during_the_pause_reaches_the_child_too() -> None:
    """R4: taken at settle, by the parent and by the child that was paused with it."""
    async with lab([boss, worker]) as runs:
        run = await runs.start(boss, Part(name="a"))
        await slow.begun.wait()
        assert await run.pause()
        assert await run.resume()
        slow.may_end.set()
        assert await run.result(timeout=30) == "A"


@agent("two_steps")
async def two_steps(run: Run[Part]) -> Done[str] | None:
    if run.step == 0:
        run.state.name = await run.call(write(run.state.name))
        return None
    return Done(run.state.name + await run.call(write("b")))


@agent("chief")
async def chief(run: Run[Part]) -> Done[str]:
    return Done(await run.call(child(two_steps, run.state)))


async def test_a_child_that_is_held_in_between_goes_on_with_its_parent() -> None:
    """R4: also when the child had more to do."""
    async with lab([chief, two_steps]) as runs:
        run = await runs.start(chief, Part(name="a"))
        await slow.begun.wait()
        assert await run.pause()
        slow.may_end.set()
        await run.settled()
        assert await _statuses(runs) == {"chief": "paused", "two_steps": "paused"}
        assert await run.resume()
        assert await run.result(timeout=30) == "AB"
