"""A program that drives run r1 with the tools of the raw server in FOLDER, and tells how it was left.

`python program.py FOLDER`: starts r1 if there is none; ends when it is held or has ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from tests.adapters.mcp.world import Zoo, caller, todo

from standfast import Runtime


async def main(zoo: Zoo) -> None:
    async with zoo.raw(grace=0.4) as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            run = await runs.start(one, todo(("look", {"n": 1}), ("work", {"n": 2}), ("look", {"n": 3})), id="r1")
            while (view := await run.view()).status not in ("paused", "done"):
                await asyncio.sleep(0.02)
            told = {"status": view.status, "holds": list(view.holds), "waiting_for": str(view.waiting_for)}
            print(json.dumps({**told, "error": view.error}))


asyncio.run(main(Zoo(Path(sys.argv[1]))))
