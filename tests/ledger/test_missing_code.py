"""A process that lacks the code of an undo leaves the run to one that has it (R8, R11)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import Agent, Performed, Run, Runtime, agent, tool
from standfast.abc import Tx
from standfast.events import Event, RunReleased


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


def recorded(runs: Runtime) -> list[Event]:
    row = runs.read(lambda tx: tx.run("r1"))
    assert row is not None
    return [event for _, events in runs.read(lambda tx: tx.record(row.n, 0)) for event in events]


async def says_what_is_missing(runs: Runtime) -> bool:
    view = await runs.handle("r1").view()
    return view.waiting_for.startswith("a driver with the code to undo send: ") and view.driver == ""


async def test_a_driver_without_the_undo_says_so_to_everybody_and_can_be_left_at_once(tmp_path: Path) -> None:
    """Ruling "Tool or undo code missing in this process"."""
    log: list[str] = []
    await sent(tmp_path / "s.db", log)
    async with Runtime(tmp_path / "s.db", [without_its_tool]) as runs, Runtime(tmp_path / "s.db", drive=False) as look:
        await runs.handle("r1").cancel()
        await eventually(lambda: says_what_is_missing(runs))
        assert await says_what_is_missing(look)
        (told,) = await eventually(lambda: [one for one in recorded(runs) if isinstance(one, RunReleased) and one.why])
        assert told.why == "the code to undo send is not here: name it in @agent(..., tools=[send])"
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


class Framework:
    """Stands for somebody's agent object: no reading of the step's code finds what it holds."""

    def __init__(self, log: list[str]) -> None:
        async def unsend(p: Performed[None, Any]) -> None:
            log.append("undone")

        @tool(undo=unsend)
        async def send(text: str) -> None:
            log.append("sent")

        self.tools = [send]


def framed(framework: Framework, *, named: bool) -> Agent[Nothing, None]:
    @agent("sender", tools=framework.tools if named else [])
    async def step(run: Run[Nothing]) -> None:
        await run.call(framework.tools[0]("hello"))
        raise ValueError("stop here")

    return step


async def waits_for(runs: Runtime, text: str) -> bool:
    return text in (await runs.handle("r1").view()).waiting_for


@pytest.mark.parametrize("named", [True, False])
async def test_a_tool_that_only_a_frameworks_object_holds_is_undone_in_a_new_process_if_the_agent_names_it(
    tmp_path: Path, named: bool
) -> None:
    """R8: `@agent(..., tools=[...])`; without it, what a run waits for says so."""
    log: list[str] = []
    async with Runtime(tmp_path / "s.db", [framed(Framework(log), named=named)]) as runs:
        await held(await runs.start("sender", {}, id="r1"), "error")
    async with Runtime(tmp_path / "s.db", [framed(Framework(log), named=named)]) as runs:
        await runs.handle("r1").cancel()
        if not named:
            await eventually(lambda: says_what_is_missing(runs))
            await eventually(lambda: waits_for(runs, "tools=[...]"))
            assert log == ["sent"]
            return
        receipt = await runs.handle("r1").settled()
        assert [undone.outcome for undone in receipt.undone] == ["undone"]
    assert log == ["sent", "undone"]


async def test_a_doubt_whose_probe_is_not_here_says_how_to_bring_it(tmp_path: Path) -> None:
    """R15: a tool that only a framework's object holds has no probe in a new process, unless the agent names it."""
    log: list[str] = []
    await sent(tmp_path / "s.db", log)

    def crashed_in_it(tx: Tx) -> None:
        row = tx.run("r1")
        assert row is not None
        (call,) = tx.calls(row.n)
        call.status, call.result = "in_doubt", None
        tx.update_call(call)

    async with Runtime(tmp_path / "s.db", [without_its_tool]) as runs:
        await runs.control(crashed_in_it)
        assert await runs.handle("r1").resume(accept_stale=True)
        view = await held(runs.handle("r1"), "in_doubt")
        hint = "its code is not here: name it in @agent(..., tools=[send])"
        assert f"send: it is not known whether this happened ({hint})" in view.waiting_for
