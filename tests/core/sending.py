"""Agents that send, read and talk, in a world that a test looks at."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel
from tests.core.looking import status_is
from tests.helpers import eventually

from standfast import Done, Run, agent, say, tool
from standfast.testing import Lab


class World:
    """Effects outside the run, and doors that a test opens."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.read: list[str] = []
        self.sections = 0
        self.door = asyncio.Event()


world = World()  # made anew for every test, in conftest.py


class Work(BaseModel):
    items: list[str] = ["a", "b"]
    got: list[str] = []
    sent: int = 0


@tool(effect="read")
async def look_up(item: str) -> str:
    world.read.append(item)
    await world.door.wait()
    return item.upper()


@tool
async def send(item: str) -> str:
    world.sent.append(item)
    await world.door.wait()
    return f"sent {item}"


@tool(effect="read")
async def quick(item: str) -> str:
    world.read.append(item)
    return item.upper()


@agent("sender")
async def sender(run: Run[Work]) -> Done[int] | None:
    world.sections += 1
    item = run.state.items[run.step]
    run.state.got.append(await run.call(quick(item)))
    await run.call(send(item), title=f"send {item}")
    run.state.sent += 1
    return Done(run.state.sent) if run.state.sent == len(run.state.items) else None


@agent("reader")
async def reader(run: Run[Work]) -> Done[list[str]]:
    run.state.got.append(await run.call(quick("first")))
    run.state.got.append(await run.call(look_up("second")))
    return Done(run.state.got)


@agent("talker")
async def talker(run: Run[Work]) -> Done[str]:
    return Done(await run.call(stream("tell")))


@tool(kind="model")
async def stream(prompt: str) -> str:
    world.read.append(prompt)
    for word in ("one ", "two "):
        say(word)
    await world.door.wait()
    say("three")
    return "one two three"


async def paused_before_step_one(runs: Lab) -> Any:
    run = await runs.start(sender, Work())
    await eventually(lambda: world.sent == ["a"])
    await run.pause()
    world.door.set()
    await status_is(run, "paused")
    return run
