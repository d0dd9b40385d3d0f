"""Pages that other people have open: they ask as the page asks, and read what they are told."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from websockets.asyncio.client import connect


async def page(given: dict[str, Any], n: int, opened: asyncio.Semaphore) -> None:
    headers = {"Authorization": f"Bearer {given['token']}"}
    async with connect(given["url"], additional_headers=headers, max_size=None, proxy=None) as socket:
        await socket.recv()
        runs = given["runs"]
        if n % 2 and runs:
            await socket.send(json.dumps({"op": "watch", "run": runs[n % len(runs)], "after": 0}))
        else:
            await socket.send(json.dumps({"op": "list", "filter": {}}))
        await socket.recv()
        opened.release()
        async for raw in socket:
            json.loads(raw)


async def main() -> None:
    given = json.loads(sys.argv[1])
    opened = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(page(given, n, opened)) for n in range(given["count"])]
    for _ in tasks:
        await opened.acquire()
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
