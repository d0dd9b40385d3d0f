"""Tools that change under a paused run hold it as stale, by name (R16)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.mcp.world import Zoo, caller, runs_no_more, todo
from tests.helpers import eventually, held

from standfast import Runtime

PROGRAM = Path(__file__).parent / "program.py"
ROOT = Path(__file__).parents[3]


def tool(name: str, *required: str, **hints: bool) -> dict[str, Any]:
    properties = {"n": {"type": "integer"}, "unit": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": "Other words.", "inputSchema": schema, "annotations": hints}


OLD = [tool("work", "n"), tool("look", "n", readOnlyHint=True)]
CHANGED = {
    "schema": ([tool("work", "n"), tool("look", "n", "unit", readOnlyHint=True)], "tool look: schema changed"),
    "effect": ([tool("work", "n"), tool("look", "n")], "tool look: effect changed"),
    "gone": ([tool("work", "n")], "tool look is gone"),
}


GONE = "the MCP server raw.py no longer has the tool look"


@pytest.mark.parametrize("how", CHANGED)
async def test_tools_that_changed_during_a_pause_hold_the_run_as_stale(zoo: Zoo, how: str) -> None:
    """The same process, the same server: it is asked again when a run is taken up."""
    new, told = CHANGED[how]
    zoo.mode(call="hang", tools=OLD)
    async with zoo.raw() as server, zoo.calling(server, ("look", {"n": 1})) as run:
        await zoo.called()
        assert await run.pause()
        await held(run, "user")
        zoo.mode(tools=new)
        assert await run.resume()
        view = await held(run, "stale")
        assert told in view.waiting_for
        assert len(zoo.received("tools/call")) == 1
        assert await run.resume(accept_stale=True)
        if how == "schema":
            assert "'unit' is a required property" in (await held(run, "error")).error
        else:
            answer = (await run.result())[0]
            assert answer == ("did 1" if how == "effect" else f"NotPerformed: {GONE}")


async def test_a_change_that_the_server_announces_is_seen_at_once(zoo: Zoo) -> None:
    zoo.mode(tools=OLD)
    async with zoo.raw() as server:
        look = server.tool("look")
        revision = server.revision
        zoo.mode(tools=[*CHANGED["schema"][0], tool("new")], call="changed")
        assert await server.call("look", n=1) == "did 1"
        await eventually(lambda: server.revision > revision, timeout=120)
        assert server.tool("look") is look
        assert look.contract["schema"]["required"] == ["n", "unit"]  # type: ignore[index, call-overload]
        assert {one.name for one in server.tools} == {"work", "look", "new"}


async def test_other_words_and_new_tools_hold_nothing(zoo: Zoo) -> None:
    zoo.mode(call="hang")
    async with zoo.raw() as server, zoo.calling(server, ("look", {"n": 1})) as run:
        await zoo.called()
        assert await run.pause()
        await held(run, "user")
        tools = [
            {"name": "work", "inputSchema": tool("work", "n")["inputSchema"]},
            tool("look", "n", readOnlyHint=True),
            tool("new"),
        ]
        for one_of_them in tools[:2]:
            del one_of_them["inputSchema"]["properties"]["unit"]  # type: ignore[index]
        zoo.mode(tools=tools)
        assert await run.resume()
        assert await run.result() == ["did 1"]


async def test_a_server_that_ended_during_a_pause_is_started_again_and_looked_at(zoo: Zoo) -> None:
    zoo.mode(call="hang", tools=OLD)
    async with zoo.raw() as server, zoo.calling(server, ("look", {"n": 1})) as run:
        await zoo.called()
        assert await run.pause()
        await held(run, "user")
        pid = server.pid
        assert pid is not None
        zoo.mode(tools=CHANGED["schema"][0])
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: runs_no_more(pid))
        assert await run.resume()
        assert "tool look" in (await held(run, "stale")).waiting_for
    assert len(zoo.starts()) == 2


async def test_a_call_that_finds_its_tool_changed_by_a_restart_is_not_performed(zoo: Zoo) -> None:
    """R15: the arguments were made for another tool; nothing is sent."""
    zoo.mode(tools=OLD)
    async with zoo.raw() as server:
        one = caller(server)
        async with Runtime(zoo.folder / "runs.db", agents=[one]) as runs:
            assert await (await runs.start(one, todo(("work", {"n": 1})))).result() == ["did 1"]
            pid = server.pid
            assert pid is not None
            zoo.mode(tools=[tool("work", "n", "unit"), OLD[1]])
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda: server.pid is None)
            answer = (await (await runs.start(one, todo(("work", {"n": 2})))).result())[0]
            assert answer.startswith("NotPerformed: ")
            assert "work has changed" in answer
    assert len(zoo.received("tools/call")) == 1


# --- a new process ----------------------------------------------------------------------------------------


async def drive(zoo: Zoo) -> dict[str, Any]:
    process = start(zoo)
    out, err = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def start(zoo: Zoo) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(PROGRAM), str(zoo.folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )


async def test_a_new_process_finds_the_same_tools_and_goes_on(zoo: Zoo) -> None:
    """R2: kill -9 in the middle of a read; the same code makes the same tools."""
    zoo.mode(call="hang")
    process = start(zoo)
    try:
        await zoo.called()
    finally:
        process.kill()
        process.communicate()
    zoo.mode()
    assert (await drive(zoo))["status"] == "done"
    assert len(zoo.received("tools/call")) == 4


async def test_a_new_process_with_a_server_of_another_schema_holds_the_run_as_stale(zoo: Zoo) -> None:
    zoo.mode(call="hang", tools=OLD)
    process = start(zoo)
    try:
        await zoo.called()
        async with Runtime(zoo.folder / "runs.db", drive=False) as runs:
            assert await runs.handle("r1").pause()
            await held(runs.handle("r1"), "user")
    finally:
        process.kill()
        process.communicate()
    zoo.mode(tools=CHANGED["schema"][0])
    async with Runtime(zoo.folder / "runs.db", drive=False) as runs:
        assert await runs.handle("r1").resume()
        left = await drive(zoo)
        assert left["holds"] == ["stale"]
        assert "tool look: schema changed" in left["waiting_for"]
        assert len(zoo.received("tools/call")) == 1


async def test_a_write_in_flight_at_a_crash_is_in_doubt(zoo: Zoo) -> None:
    """R15."""
    zoo.mode(call={"work": "hang"})
    process = start(zoo)
    try:
        assert (await zoo.called(2))["params"]["name"] == "work"
    finally:
        process.kill()
        process.communicate()
    zoo.mode()
    assert (await drive(zoo))["holds"] == ["in_doubt"]
    assert len(zoo.received("tools/call")) == 2
