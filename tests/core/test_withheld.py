"""A call that a repeated step withholds is dealt with: what became of it is told, and the step is not held (R5)."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from standfast import Done, Run, agent, tool, use
from standfast.testing import lab


class Said(BaseModel):
    left: list[str] = []


class World:
    def __init__(self) -> None:
        self.done: list[str] = []


@tool
async def send(to: str) -> str:
    use(World).done.append(to)
    return f"sent to {to}"


@tool(effect="read")
async def wait_for_ever() -> None:
    await asyncio.Event().wait()


@agent("sender")
async def sender(run: Run[Said]) -> Done[list[str]]:
    if run.take_redirects():
        first, second = send("ann"), send("bob")
        left: list[str] = [run.withhold(first), run.withhold(second), run.withhold(wait_for_ever())]
        return Done([*left, await run.call(first)])
    await run.call(send("ann"))
    await run.call(wait_for_ever())
    await run.call(send("bob"))
    return Done([])


async def test_a_withheld_call_is_not_held_against_the_step() -> None:
    world = World()
    async with lab([sender], provide={World: world}) as runs:
        run = await runs.start(sender, Said())
        await runs.until(run, call="wait_for_ever", point="admitted")
        await run.redirect("enough")
        told = await run.result(timeout=120)
        assert told[:2] == ["over", "not begun"]
        assert told[2] in ("cut", "not begun")
        assert told[3] == "sent to ann"
    assert world.done == ["ann"]
