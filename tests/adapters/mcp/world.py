"""Servers, and an agent that calls whatever tool it is told to."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Agent, CallFailed, Done, Handle, Json, Run, Runtime, agent
from standfast.adapters import mcp

SERVERS = Path(__file__).parent / "servers"


class Zoo:
    """A folder with a real server of the SDK's (`zoo.sdk()`), and one written by hand (`zoo.raw()`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sdk(self, **settings: Any) -> mcp.MCPServer:
        return mcp.stdio(sys.executable, str(SERVERS / "sdk.py"), str(self.folder), "stdio", **settings)

    def raw(self, **settings: Any) -> mcp.MCPServer:
        return mcp.stdio(sys.executable, "-S", str(SERVERS / "raw.py"), str(self.folder), **settings)

    @asynccontextmanager
    async def calling(self, server: mcp.MCPServer, *calls: tuple[str, Json]) -> AsyncIterator[Handle[Any]]:
        """A run that makes these calls, one a step."""
        one = caller(server)
        async with Runtime(self.folder / "runs.db", agents=[one]) as runs:
            yield await runs.start(one, todo(*calls))

    # --- what the servers did --------------------------------------------------------------------------

    def log(self) -> list[str]:
        file = self.folder / "log"
        return file.read_text().splitlines() if file.exists() else []

    async def logged(self, line: str) -> None:
        await eventually(lambda: line in self.log(), timeout=120)

    def mode(self, **mode: Any) -> None:
        new = self.folder / "mode.new"
        new.write_text(json.dumps(mode))
        new.replace(self.folder / "mode.json")

    def received(self, method: str) -> list[dict[str, Any]]:
        file = self.folder / "received"
        lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
        return [message for message in map(json.loads, lines) if message.get("method") == method]

    async def called(self, times: int = 1) -> dict[str, Any]:
        await eventually(lambda: len(self.received("tools/call")) >= times, timeout=120)
        return self.received("tools/call")[-1]

    def starts(self) -> list[int]:
        file = self.folder / "pids"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def runs_no_more(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


class Todo(BaseModel):
    """What to call, one a step."""

    calls: list[tuple[str, Json]]
    answers: list[Any] = []


def caller(servers: Iterable[mcp.MCPServer] | mcp.MCPServer, name: str = "caller") -> Agent[Todo, Any]:
    """An agent that calls the tools in its state; a failed call is an answer, too."""
    boxes = [servers] if isinstance(servers, mcp.MCPServer) else list(servers)
    tools = {tool.name: tool for box in boxes for tool in box.tools}

    @agent(name, tools=list(tools.values()))
    async def step(run: Run[Todo]) -> Done[list[Any]] | None:
        tool, arguments = run.state.calls[run.step]
        try:
            answer: Any = await run.call(tools[tool].parse(arguments))
        except CallFailed as error:
            answer = f"{error.type}: {error.message}"
        run.state.answers.append(answer)
        return Done(run.state.answers) if run.step + 1 == len(run.state.calls) else None

    return step


def todo(*calls: tuple[str, Json]) -> Todo:
    return Todo(calls=list(calls))
