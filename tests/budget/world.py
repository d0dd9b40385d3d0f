"""Agents that would never stop by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from standfast import Done, Performed, Run, agent, child, sleep, spend, tool, use
from standfast.testing import Lab, lab


class World:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.undone = 0
        self.answers: list[str] = []  # what `poll` finds; the last one again and again


class Loop(BaseModel):
    steps: int = 1000
    calls: int = 1
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    children: int = 0


@tool(effect="read")
async def use_up(n: int, tokens: int, cost: float) -> int:
    use(World).calls.append(f"use_up {n}")
    spend(input_tokens=tokens, output_tokens=tokens, cost=cost)
    return n


async def forget(p: Performed[None, None]) -> None:
    use(World).undone += 1


@tool(undo=forget)
async def put(n: int) -> None:
    use(World).calls.append(f"put {n}")


@tool(effect="read")
async def poll() -> str:
    world = use(World)
    world.calls.append("poll")
    return world.answers.pop(0) if len(world.answers) > 1 else world.answers[0]


@tool(effect="read")
async def broken() -> str:
    use(World).calls.append("broken")
    raise OSError("still broken")


@tool(effect="read")
async def stream() -> None:
    for _ in range(3):
        spend(output_tokens=10)
        await asyncio.sleep(0.02)
    await asyncio.sleep(3600)


@agent("streamer")
async def streamer(run: Run[Loop]) -> None:
    await run.call(stream())


@agent("looper")
async def looper(run: Run[Loop]) -> Done[int] | None:
    state = run.state
    for n in range(state.calls):
        await run.call(use_up(run.step * state.calls + n, state.tokens, state.cost))
        if state.seconds:
            await run.call(sleep(state.seconds))
    return Done(run.step) if run.step + 1 == state.steps else None


@agent("putter")
async def putter(run: Run[Loop]) -> Done[int] | None:
    for n in range(run.state.calls):
        await run.call(put(n))
    return Done(run.step) if run.step + 1 == run.state.steps else None


@agent("poller")
async def poller(run: Run[Loop]) -> Done[str] | None:
    found = await run.call(poll())
    return Done(found) if found == "ready" else None


@agent("stubborn")
async def stubborn(run: Run[Loop]) -> None:
    await run.call_all([broken()])


@agent("parent")
async def parent(run: Run[Loop]) -> Done[list[Any]]:
    work = Loop(steps=run.state.steps, calls=run.state.calls, tokens=run.state.tokens, cost=run.state.cost)
    done = await run.call_all([child(looper, work) for _ in range(run.state.children)])
    return Done([d if isinstance(d, int) else str(d) for d in done])


@agent("grandparent")
async def grandparent(run: Run[Loop]) -> Done[list[Any]]:
    return Done(await run.call(child(parent, run.state)))


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[Lab, World]]:
    world = World()
    async with lab([looper, streamer, putter, poller, stubborn, parent, grandparent], provide={World: world}) as runs:
        yield runs, world
