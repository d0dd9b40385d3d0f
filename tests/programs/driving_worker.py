"""A driving process: `driving_worker.py store world [options as JSON]`. Answers lines on stdin; leaves when stdin ends.

view RUN      the view of a run, as JSON
result RUN    how `result()` ends: {"result": ...} or {"error": ..., "message": ...}
freeze        stop this process (SIGSTOP) inside its next commit that a run makes
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sqlite3
import sys
from contextlib import AsyncExitStack
from typing import Any

from pydantic_core import to_json
from tests.programs.driven import AGENTS
from tests.programs.outside import Outside

from standfast import Runtime, StoreBusy
from standfast.stores.sqlite import connect_sqlite


class Freezing:
    """A connection that can stop the process between the last statement of a transaction and its COMMIT."""

    armed = False

    def __init__(self, path: str) -> None:
        self._c: Any = connect_sqlite(path)
        self._of_a_run = False

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql.startswith("INSERT INTO record"):
            self._of_a_run = True
        if sql == "COMMIT":
            if Freezing.armed and self._of_a_run:
                Freezing.armed = False
                os.kill(os.getpid(), signal.SIGSTOP)
            self._of_a_run = False
        return self._c.execute(sql, *values)  # type: ignore[no-any-return]

    def close(self) -> None:
        self._c.close()


async def answer(runs: Runtime, line: str) -> Any:
    verb, _, run = line.strip().partition(" ")
    if verb == "freeze":
        return {}
    if verb == "view":
        return json.loads(to_json(await runs.handle(run).view()))
    try:
        return {"result": await runs.handle(run).result(timeout=120)}
    except Exception as error:  # noqa: BLE001 - the test looks at it
        return {"error": type(error).__name__, "message": str(error)}


async def main() -> None:
    store, world, *rest = sys.argv[1:]
    options: dict[str, Any] = json.loads(rest[0]) if rest else {}
    logging.basicConfig(level=logging.INFO)
    options |= {"provide": {Outside: Outside(world)}, "connect": Freezing}
    async with AsyncExitStack() as stack:
        runs: Runtime | None = None
        while runs is None:
            try:
                runs = await stack.enter_async_context(Runtime(store, AGENTS, **options))
            except StoreBusy:
                continue  # others write just now: it comes in when there is room
        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await answer(runs, line)), flush=True)
            Freezing.armed = line.startswith("freeze")  # only now: a frozen process gives no answer
    print("left", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
