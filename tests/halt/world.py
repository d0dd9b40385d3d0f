"""Agents to be halted: one that writes and reads slowly, one with a child, one that asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import BaseModel

from standfast import Done, Idle, Run, agent, ask, child, tool
from standfast.testing import Lab, lab


class Job(BaseModel):
    steps: int = 2
    at: int = 0


class World:
    """What the tools did, and gates that keep them from ending."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.shut: dict[str, asyncio.Event] = {}

    def shut_at(self, what: str) -> asyncio.Event:
        return self.shut.setdefault(what, asyncio.Event())

    async def do(self, what: str) -> None:
        self.log.append(what)
        if what in self.shut:
            await self.shut[what].wait()


world = World()


@tool
async def write(n: int) -> int:
    await world.do(f"write {n}")
    return n


@tool(effect="read")
async def read(n: int) -> int:
    await world.do(f"read {n}")
    return n


async def _take_back(_: object) -> None:
    await world.do("undone")


@tool(undo=_take_back, settles="run")
async def draft(n: int) -> int:
    await world.do(f"draft {n}")
    return n


@agent("writer")
async def writer(run: Run[Job]) -> Done[int] | None:
    """A write a step."""
    run.state.at = await run.call(write(run.state.at)) + 1
    return Done(run.state.at) if run.state.at >= run.state.steps else None


@agent("drafter")
async def drafter(run: Run[Job]) -> Done[int]:
    """A draft, then a read."""
    await run.call(draft(0))
    return Done(await run.call(read(0)))


@agent("boss")
async def boss(run: Run[Job]) -> Done[int]:
    """Has a writer work for it."""
    return Done(await run.call(child(writer, run.state)))


@agent("asker")
async def asker(run: Run[Job]) -> Done[str]:
    """Asks first."""
    return Done(await run.call(ask("Shall I?", options=["yes", "no"])))


@agent("idler")
async def idler(run: Run[Job]) -> Done[str] | Idle:
    """Waits for mail."""
    messages = run.take_messages()
    return Done(messages[0].text) if messages else Idle()


AGENTS = [writer, drafter, boss, asker, idler]


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[Lab, World]]:
    """A runtime with these agents, and their world."""
    global world
    world = World()
    async with lab(AGENTS) as runs:
        yield runs, world
