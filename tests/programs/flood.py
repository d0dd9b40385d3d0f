"""Drives run r1, which writes without a pause, until it is cancelled: python flood.py STORE. Says "begun" on stdout."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.cancel.support import Nothing
from tests.cancel.test_flood import flood

from standfast import RunCancelled, Runtime


async def main() -> None:
    async with Runtime(sys.argv[1], agents=[flood]) as runs:
        run = await runs.start(flood, Nothing(), id="r1")
        while (await run.view()).step < 3:
            await asyncio.sleep(0.01)
        print("begun", flush=True)
        with suppress(RunCancelled):
            await run.result()


asyncio.run(main())
