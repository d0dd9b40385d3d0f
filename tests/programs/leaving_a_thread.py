"""A program whose run leaves a thread behind that hangs in C code for longer than anybody waits."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

from pydantic import BaseModel

from standfast import Done, Run, Runtime, agent, tool

begun = threading.Event()


class Nothing(BaseModel):
    """The state of an agent that needs none."""


def hang() -> None:
    begun.set()
    time.sleep(1000)


@tool(effect="read", grace=0.1)
async def look() -> None:
    await asyncio.to_thread(hang)


@agent("looker")
async def looker(run: Run[Nothing]) -> Done[None]:
    return Done(await run.call(look()))


async def main() -> None:
    async with Runtime(sys.argv[1], agents=[looker]) as runs:
        run = await runs.start(looker, Nothing())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        await run.cancel()
        receipt = await run.settled(timeout=120)
        print(*(flight.outcome for flight in receipt.in_flight), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
    print("asyncio.run returned", flush=True)
