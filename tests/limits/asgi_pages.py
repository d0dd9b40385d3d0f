"""A page's socket without a network: the test decides when a message is taken from the server, and sees what waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.websockets import WebSocket
from tests.limits.test_runs import waits

from standfast import Runtime
from standfast.server import Actor
from standfast.server.socket import Page
from standfast.server.surface import Surface

LONG = 30.0


class Reader:
    """Somebody with a page open, who reads or does not."""

    def __init__(self, surface: Surface) -> None:
        self._says: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._says.put_nowait({"type": "websocket.connect"})
        self.reads = asyncio.Event()
        self.reads.set()
        self.sending = 0  # messages that the server has begun to send
        self.told: list[Any] = []
        scope = {"type": "websocket", "path": "/ws", "headers": [], "query_string": b""}
        self.page = Page(surface, Actor("ann"), WebSocket(scope, self._says.get, self._send), None)

    async def _send(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            self.sending += 1
            await self.reads.wait()
        self.told.append(json.loads(message["text"]) if "text" in message else message)

    async def say(self, **op: Any) -> None:
        """Until the server has heard it."""
        self._says.put_nowait({"type": "websocket.receive", "text": json.dumps(op)})
        await self.until(self._says.empty)

    async def until(self, true: Any) -> None:
        async with asyncio.timeout(LONG):
            while not true():
                await asyncio.sleep(0.005)

    def pongs(self) -> list[Any]:
        return [told["n"] for told in self.told if told.get("op") == "pong"]

    def bye(self) -> str:
        return next((told["why"] for told in self.told if told.get("op") == "bye"), "")


@asynccontextmanager
async def reader(folder: Path) -> AsyncIterator[tuple[Reader, asyncio.Task[None]]]:
    """A reader who has been told hello, and the task that serves them."""
    async with Runtime(folder / "runs.db", [waits], drive=False) as runs:
        surface = Surface(runs)
        one = Reader(surface)
        serving = asyncio.create_task(one.page.serve())
        await one.until(lambda: any(told.get("op") == "hello" for told in one.told))
        try:
            yield one, serving
        finally:
            one.reads.set()
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await surface.close()
