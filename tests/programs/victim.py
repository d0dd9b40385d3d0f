"""A process that drives the agent `victim` until it is killed: python victim.py STORE KIND. Says "begun" on stdout.

A step of the kind `blocks` keeps the event loop until there is a file STORE.free.
"""

import asyncio
import sys
import time
from pathlib import Path

from pydantic import BaseModel

from standfast import Performed, Run, Runtime, agent, tool


class Kind(BaseModel):
    """What the step shall be caught doing."""

    kind: str


def begun() -> None:
    print("begun", flush=True)


@tool(effect="read")
async def read() -> None:
    begun()
    await asyncio.sleep(120)


@tool(effect="write", grace=0.2)
async def write() -> None:
    begun()
    await asyncio.sleep(120)


async def take_back(performed: Performed[None, None]) -> None:
    """Nothing was done."""


@tool(effect="write", undo=take_back)
async def undoable() -> None:
    begun()
    await asyncio.sleep(120)


@tool(effect="read")
async def another() -> None:
    print("another", flush=True)


@agent("victim")
async def victim(run: Run[Kind]) -> None:
    match run.state.kind:
        case "read":
            await run.call(read())
        case "write":
            await run.call(write())
        case "undoable":
            await run.call(undoable())
        case "between":
            begun()
            await asyncio.sleep(120)
        case _:
            begun()
            while not Path(f"{sys.argv[1]}.free").exists():
                time.sleep(0.01)
    await run.call(another())


async def main() -> None:
    async with Runtime(sys.argv[1], agents=[victim]) as runs:
        run = await runs.start(victim, Kind(kind=sys.argv[2]), id="r1")
        while (await run.view()).status != "cancelled":
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
        print("over", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
