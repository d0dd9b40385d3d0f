"""A process that lacks the code of an undo leaves the run to one that has it (R8, R11)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import Agent, Performed, Run, Runtime, agent, tool


class Nothing(BaseModel):
    pass


def sender(log: list[str]) -> Agent[Nothing, None]:
    async def unsend(p: Performed[None, Any]) -> None:
        log.append("undone")

    @tool(undo=unsend)
    async def send(text: str) -> None:
        log.append("sent")

    @agent("sender")
    async def step(run: Run[Nothing]) -> None:
        await run.call(send("hello"))
        raise ValueError("stop here")

    return step


@agent("sender")
async def without_its_tool(run: Run[Nothing]) -> None:
    """The same agent in a process that was never given the tool."""


async def sent(store: Path, log: list[str]) -> None:
    """Leave run r1 held by an error, after its effect."""
    async with Runtime(store, [sender(log)]) as runs:
        await held(await runs.start("sender", {}, id="r1"), "error")


async def says_what_is_missing(runs: Runtime) -> bool:
    view = await runs.handle("r1").view()
    return view.waiting_for == "a driver with the code to undo send" and view.driver == ""


async def test_a_driver_without_the_undo_says_so_to_everybody_and_can_be_left_at_once(tmp_path: Path) -> None:
    """Ruling "Tool or undo code missing in this process"."""
    log: list[str] = []
    await sent(tmp_path / "s.db", log)
    async with Runtime(tmp_path / "s.db", [without_its_tool]) as runs, Runtime(tmp_path / "s.db", drive=False) as look:
        await runs.handle("r1").cancel()
        await eventually(lambda: says_what_is_missing(runs))
        assert await says_what_is_missing(look)
        leaving = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - leaving < 5
    assert log == ["sent"]


async def test_a_driver_with_the_undo_takes_the_run_from_one_without_it(tmp_path: Path) -> None:
    """Ruling "Tool or undo code missing in this process": both are alive."""
    log: list[str] = []
    await sent(tmp_path / "s.db", log)
    async with Runtime(tmp_path / "s.db", [without_its_tool]) as runs:
        await runs.handle("r1").cancel()
        await eventually(lambda: says_what_is_missing(runs))
        async with Runtime(tmp_path / "s.db", [sender(log)]):
            receipt = await runs.handle("r1").settled(10)
    assert [u.outcome for u in receipt.undone] == ["undone"]
    assert log == ["sent", "undone"]
