"""A process of its own that drives the agent `worker`: python worker.py STORE VARIANT [RUN].

With RUN it drives until that run is held or has ended, and prints its status and holds as JSON.
Without, it drives until it is killed. VARIANT changes the code under the run.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from standfast import Done, Run, Runtime, agent, file_content, tool

STORE, VARIANT = sys.argv[1:3]
FOLDER = Path(STORE).parent


class Old(BaseModel):
    count: int = 0
    texts: list[str] = []


class New(BaseModel):
    count: int = 0
    words: list[str]


def migrate(old: dict[str, Any]) -> New:
    return New(count=old["count"], words=[*old["texts"], "migrated"])


def record(what: str) -> None:
    with (FOLDER / "world.txt").open("a") as world:
        world.write(what + "\n")


@tool(effect="read")
async def read_setting() -> str:
    return (FOLDER / "setting.txt").read_text()


@tool
async def write_setting(text: str) -> None:
    record(f"write {text}")
    (FOLDER / "setting.txt").write_text(text)


@tool(effect="read")
async def wait_for_door() -> str:
    record("waiting")
    while not (FOLDER / "door").exists():
        await asyncio.sleep(0.01)
    return "open"


async def work(run: Any) -> Done[int] | None:
    if run.step == 0:
        await run.relies_on("the setting", read_setting())
        await run.relies_on("the notes", file_content(str(FOLDER / "notes.txt")))
        await run.call(write_setting("mine"))
        run.state.count += 1
        return None
    await run.call(wait_for_door())
    record("through")
    return Done(run.state.count)


if VARIANT in ("new", "migrating"):

    @agent("worker", migrate=migrate if VARIANT == "migrating" else None)
    async def worker(run: Run[New]) -> Done[int] | None:
        return await work(run)

else:

    @agent("worker", version=None if VARIANT == "plain" else VARIANT)
    async def worker(run: Run[Old]) -> Done[int] | None:
        return await work(run)


async def main() -> None:
    async with Runtime(STORE, agents=[worker]) as runs:
        if len(sys.argv) < 4:
            await runs.start("worker", {}, id="r1")
            await asyncio.sleep(3600)
        run = runs.handle(sys.argv[3])
        while (view := await run.view()).status in ("queued", "running", "pausing", "cancelling"):
            await asyncio.sleep(0.01)
        print(json.dumps({"status": view.status, "holds": view.holds, "waiting_for": view.waiting_for}))


asyncio.run(main())
