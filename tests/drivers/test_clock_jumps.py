"""Clocks that jump: people see odd times, but nothing is lost, repeated, taken over or waited for (R2, R17)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Budget, Done, Run, Runtime, agent, sleep, tool
from standfast.clock import SystemClock

DAY = 86_400.0


class JumpingClock(SystemClock):
    """The machine's clock, set to another time by somebody."""

    def __init__(self) -> None:
        self.offset = 0.0

    def now(self) -> float:
        return time.time() + self.offset


performed: list[int] = []


@pytest.fixture(autouse=True)
def nothing_performed() -> None:
    performed.clear()


@tool
async def act(n: int) -> int:
    performed.append(n)
    await asyncio.sleep(0.005)
    return n


class N(BaseModel):
    n: int = 0


@agent("stepper")
async def stepper(run: Run[N]) -> Done[int] | None:
    await run.call(act(run.state.n))
    run.state.n += 1
    return Done(run.state.n) if run.state.n == 40 else None


@agent("napper")
async def napper(run: Run[N]) -> Done[int]:
    await run.call(sleep(0.5))
    return Done(run.state.n)


@pytest.mark.parametrize("jump", [-DAY, DAY, -10 * 365 * DAY, 365 * DAY])
async def test_a_jump_of_the_clock_repeats_and_loses_nothing(tmp_path: Path, jump: float) -> None:
    clock = JumpingClock()
    async with Runtime(tmp_path / "runs.db", agents=[stepper], clock=clock) as runs:
        run = await runs.start(stepper, N(), budget=Budget(seconds=60))
        await eventually(lambda: len(performed) > 5)
        clock.offset = jump
        await eventually(lambda: len(performed) > 15)
        assert await run.pause()
        await run.settled(timeout=120)
        view = await run.view()
        assert view.elapsed >= 0
        assert view.paused_for >= 0
        clock.offset = 0.0
        assert await run.resume()
        assert await run.result(timeout=120) == 40
        view = await run.view()
        assert view.elapsed >= 0
        assert 0 <= view.spent.seconds < 30
        seqs = [e.seq async for e in run.events()]
        assert seqs == sorted(set(seqs))
    assert performed == list(range(40))


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
async def test_a_sleep_ends_although_the_clock_was_set(tmp_path: Path, jump: float) -> None:
    clock = JumpingClock()
    async with Runtime(tmp_path / "runs.db", agents=[napper], clock=clock) as runs:
        run = await runs.start(napper, N(n=7))
        await eventually(lambda: _in_flight(run))
        clock.offset = jump
        assert await run.result(timeout=120) == 7


async def _in_flight(run: object) -> bool:
    return bool((await run.view()).in_flight)  # type: ignore[attr-defined]


@pytest.mark.parametrize("jump", [-DAY, DAY])
async def test_a_process_with_another_time_takes_nothing_over(tmp_path: Path, jump: float) -> None:
    clock = JumpingClock()
    clock.offset = jump
    async with Runtime(tmp_path / "runs.db", agents=[stepper], lease_seconds=30) as runs:
        run = await runs.start(stepper, N())
        await eventually(lambda: len(performed) > 3)
        async with Runtime(tmp_path / "runs.db", agents=[stepper], clock=clock, lease_seconds=30) as others:
            assert await run.result(timeout=120) == 40
            assert await others.handle(run.id).result(timeout=120) == 40
        assert [e.type async for e in run.events()].count("run_claimed") == 1
    assert performed == list(range(40))
