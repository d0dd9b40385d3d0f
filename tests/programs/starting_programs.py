"""A program whose step starts another by itself, and waits for it."""

from __future__ import annotations

import asyncio
import sys

from pydantic import BaseModel

from standfast import Done, Run, Runtime, agent


class Nothing(BaseModel):
    """The state of an agent that needs none."""


@agent("direct")
async def direct(run: Run[Nothing]) -> Done[int]:
    return Done(await (await asyncio.create_subprocess_exec("sh", "-c", sys.argv[2])).wait())


async def main() -> None:
    async with Runtime(sys.argv[1], agents=[direct]) as runs:
        await (await runs.start(direct, Nothing())).result()


if __name__ == "__main__":
    asyncio.run(main())
