"""The official AG-UI client in a node process of its own, as a front end would use it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass
from queue import Queue
from typing import Any

import pytest
from tests.server.serving import LONG, ROOT, Server

SCRIPT = ROOT / "page" / "test" / "agui_client.mjs"
PACKAGE = ROOT / "page" / "node_modules" / "@ag-ui" / "client"


@dataclass(frozen=True, slots=True)
class Told:
    """What the client made of one AG-UI run."""

    events: list[str]
    growth: list[str]  # the text of the message after each piece of it
    end: Any  # how it says that the run ended
    result: Any
    new_messages: list[Any]
    messages: list[Any]  # the conversation, in the client's own model
    state: Any
    interrupts: list[Any]  # those it holds open
    error: str | None
    complaints: list[str]


class OfficialClient:
    """One `HttpAgent`, and so one thread of AG-UI."""

    def __init__(self, server: Server, path: str, thread: str, state: Any = None) -> None:
        if shutil.which("node") is None or not PACKAGE.exists():
            reason = "the official AG-UI client: node or its package not installed (npm install in page/)"
            (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)
        given = {"url": server.url + path, "token": server.token, "threadId": thread, "state": state or {}}
        self._process = subprocess.Popen(
            ["node", str(SCRIPT), json.dumps(given)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._lines: Queue[str] = Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _say(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def begin(self, run: str, **more: Any) -> None:
        """`runAgent()`, with words of the user (`text`, `messageId`) or `responses` to the open interrupts."""
        self._say(runId=run, **more)

    def abort(self) -> None:
        """`abortRun()`."""
        self._say(op="abort")

    def told(self) -> Told:
        """What came of the run that was begun."""
        line = self._lines.get(timeout=LONG)
        assert line, f"node ended with {self._process.wait(LONG)}"
        said: dict[str, Any] = json.loads(line)
        names = {"newMessages": "new_messages"}
        found: dict[str, Any] = {"result": None, "new_messages": []}
        return Told(**found | {names.get(name, name): value for name, value in said.items()})

    def run(self, run: str, **more: Any) -> Told:
        """Begin, and wait for the end."""
        self.begin(run, **more)
        return self.told()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait(LONG)
        self._reader.join(LONG)
        self._process.stdout.close()
