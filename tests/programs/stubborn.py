"""Everything that swallows a stop, in one program: it must still end, and quietly. python stubborn.py STORE."""

import asyncio
import gc
import sys
import threading

from pydantic import BaseModel

from standfast import Run, Runtime, agent, tool

begun: list[str] = []


class Nothing(BaseModel):
    """No state."""


async def swallow(what: str) -> None:
    begun.append(what)
    while True:
        try:
            await asyncio.sleep(0.5)
        except BaseException:  # noqa: BLE001 - swallowing is the point
            continue


@tool(effect="read")
async def deaf_read() -> None:
    await swallow("read")


@tool(effect="write", grace=0.1)
async def deaf_write() -> None:
    await swallow("write")


@tool(effect="read", grace=0.1)
def stuck() -> None:
    begun.append("thread")
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@agent("stubborn")
async def stubborn(run: Run[Nothing]) -> None:
    tasks = [asyncio.create_task(swallow("task"))]
    tasks += [asyncio.create_task(run.call(call)) for call in (deaf_read(), deaf_write())]
    await swallow("step")
    del tasks


@agent("blocked")  # a run of its own: its thread keeps alive what belongs to its run
async def blocked(run: Run[Nothing]) -> None:
    await run.call(stuck())


async def main() -> None:
    async with Runtime(sys.argv[1], agents=[stubborn, blocked]) as runs:
        both = [await runs.start(stubborn, Nothing()), await runs.start(blocked, Nothing())]
        while len(begun) < 5:
            await asyncio.sleep(0.01)
        for run in both:
            await run.cancel()
        for run in both:
            receipt = await run.settled()
            print(sorted(f.outcome for f in receipt.in_flight), flush=True)


asyncio.run(main())
gc.collect()  # whatever was thrown away is thrown away now
print("ended", flush=True)
