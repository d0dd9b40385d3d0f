"""Those who watch every run to its end: counts what they were told, and how long it took."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from websockets.asyncio.client import connect

ENDS = "run_done"


async def watch(given: dict[str, Any]) -> int:
    headers = {"Authorization": f"Bearer {given['token']}"}
    told, left = 0, set(given["runs"])
    async with connect(given["url"], additional_headers=headers, max_size=None, proxy=None) as socket:
        for run in given["runs"]:
            await socket.send(json.dumps({"op": "watch", "run": run, "after": 0}))
        async for raw in socket:
            said = json.loads(raw)
            if said["op"] == "event":
                told += 1
                if said["event"]["type"] == ENDS:
                    left.discard(said["run"])
            if not left:
                break
    return told


async def main() -> None:
    given = json.loads(sys.argv[1])
    began = time.perf_counter()
    told = sum(await asyncio.gather(*(watch(given) for _ in range(given["count"]))))
    print(told, time.perf_counter() - began, time.time())


if __name__ == "__main__":
    asyncio.run(main())
