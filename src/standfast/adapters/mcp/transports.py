"""The two ways to a server: a child process, and streamable HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from standfast.adapters.mcp.backend import Backend
from standfast.adapters.mcp.connection import Open, Transport
from standfast.adapters.mcp.process import ServerProcess


def stdio_transport(argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None) -> Open:
    """A new process for every connection."""

    @asynccontextmanager
    async def open_(backend: Backend, on_stray: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any, Transport]]:
        process = ServerProcess(backend, argv, env, cwd, on_stray)
        try:
            yield process.read, process.write, _Pipes(process)
        finally:
            await process.close()

    return open_


def http_transport(url: str, headers: Mapping[str, str], client: Any) -> Open:
    """A new session for every connection."""

    @asynccontextmanager
    async def open_(backend: Backend, on_stray: Callable[[str], None]) -> AsyncGenerator[tuple[Any, Any, Transport]]:
        del on_stray  # what is no message is an error of its own request there
        async with backend.http(url, headers, client) as (read, write):
            yield read, write, _Http()

    return open_


class _Pipes:
    silent = False

    def __init__(self, process: ServerProcess) -> None:
        self._process = process

    @property
    def ended(self) -> asyncio.Future[str] | None:
        return self._process.broken

    @property
    def pid(self) -> int | None:
        return self._process.child.pid

    async def kill(self, why: str) -> None:
        await self._process.kill(why)

    def complaints(self) -> str:
        return self._process.complaints()


class _Http:
    silent = True
    ended = None
    pid = None

    async def kill(self, why: str) -> None:
        """Nobody here can end a server elsewhere."""

    def complaints(self) -> str:
        return ""
