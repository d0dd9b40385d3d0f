"""An agent that asks, pays and asks again, for tests in which its process dies.

`python shop.py STORE WORLD` starts one run and drives it until somebody kills the process.
Every payment is a line in the file WORLD.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pydantic import BaseModel

from standfast import Done, Run, Runtime, agent, ask, tool


class Order(BaseModel):
    world: str
    wait: bool = True


@tool(effect="write", confirm=lambda world, amount, wait: amount > 10)
async def pay(world: str, amount: int, wait: bool) -> str:
    with Path(world).open("a") as file:
        file.write(f"{amount}\n")
    if wait:
        await asyncio.sleep(3600)
    return f"paid {amount}"


@agent("shop")
async def shop(run: Run[Order]) -> Done[str]:
    size = await run.call(ask("Which size?", ["small", "large"]))
    paid = await run.call(pay(run.state.world, 50 if size == "large" else 5, run.state.wait))
    return Done(f"{size}: {paid}")


async def main(store: str, world: str) -> None:
    async with Runtime(store, agents=[shop]) as runs:
        if not await runs.list():
            await runs.start(shop, Order(world=world), id="order")
        await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
