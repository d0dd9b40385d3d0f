"""standfast itself: a step with one read call and a 2 KB state."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from bench.workloads import MemoryAndCpu, Paused, body, read_call
from standfast import Agent, Budget, Done, Handle, Run, Runtime, agent, tool, use


class State(BaseModel):
    seq: int = 0
    body: str = ""
    stop_at: int = 0


@dataclass
class Times:
    """When the step of that number began its call."""

    of: int = -1
    at: list[float] = field(default_factory=list[float])


@tool(effect="read")
async def read(seq: int) -> int:
    times = use(Times)
    if seq == times.of:
        times.at.append(time.perf_counter())
    return seq + 1


@agent("bench", budget=Budget())
async def stepper(run: Run[State]) -> Done[int] | None:
    run.state.seq = await run.call(read(run.state.seq))
    run.state.body = read_call(run.state.seq)
    return Done(run.state.seq) if run.state.seq == run.state.stop_at else None


def durable_steps(path: str, n: int, warm: int = 700) -> float:
    async def measure() -> float:
        times = Times(of=warm)
        async with Runtime(path, agents=[stepper], provide={Times: times}) as runs:
            run = await runs.start(stepper, State(body=body(0), stop_at=warm + n))
            await run.result()
            return (time.perf_counter() - times.at[0]) / n

    return asyncio.run(measure())


def concurrent(path: str, runs: int, steps: int) -> float:
    async def measure() -> float:
        async with Runtime(path, agents=[stepper], provide={Times: Times()}) as runtime:
            start = time.perf_counter()
            state = State(body=body(0), stop_at=steps)
            handles = await asyncio.gather(*(runtime.start(stepper, state) for _ in range(runs)))
            await asyncio.gather(*(handle.result() for handle in handles))
            return runs * steps / (time.perf_counter() - start)

    return asyncio.run(measure())


def prepare_resume(path: str, steps: int) -> None:
    async def prepare() -> None:
        async with Runtime(path, agents=[stepper], provide={Times: Times()}) as runs:
            run = await runs.start(stepper, State(body=body(0)), id="run", budget=Budget(steps=steps))
            await _held(run)

    asyncio.run(prepare())


async def _held(run: Handle[Any]) -> None:
    while (await run.view()).status != "paused":
        await asyncio.sleep(0.005)


def resume_seconds(path: str, steps: int) -> float:
    async def measure() -> float:
        times = Times(of=steps)
        start = time.perf_counter()
        async with Runtime(path, agents=[stepper], provide={Times: times}) as runs:
            await runs.handle("run").resume(budget=Budget(steps=10**9))
            while not times.at:
                await asyncio.sleep(0)
            await runs.handle("run").cancel()
        return times.at[0] - start

    return asyncio.run(measure())


def paused_kb(path: str, n: int) -> Paused | None:
    async def measure() -> Paused:
        limited: Agent[State, int] = stepper
        async with Runtime(path, agents=[limited], provide={Times: Times()}) as runs:
            before: MemoryAndCpu | None = None
            kept: list[Handle[int]] = []
            for first in range(-600, n, 200):  # SQLite's page cache fills first
                if first == 0:
                    before = MemoryAndCpu()
                state = State(body=body(0))
                batch = await asyncio.gather(
                    *(runs.start(stepper, state, budget=Budget(steps=1)) for _ in range(min(200, n - first)))
                )
                await asyncio.gather(*(run.settled() for run in batch))
                if first >= 0:
                    kept += batch
            assert before is not None
            return before.cost(len(kept))

    return asyncio.run(measure())
