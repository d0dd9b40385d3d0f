"""Server-sent events, read in a thread of their own so that leaving never waits for the server."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

from standfast.errors import StandfastError

SILENT_SECONDS = 45.0  # the server says that it is still there every 15 s


class Stream:
    """One stream of events."""

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        path: str,
        headers: dict[str, str],
        lost: Callable[[Exception], StandfastError],
    ) -> None:
        self._connection = connection
        self._path = path
        self._headers = headers
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._began: asyncio.Future[tuple[int, bytes]] = self._loop.create_future()
        self._told: asyncio.Queue[str | StandfastError | None] = asyncio.Queue()
        self._thread = threading.Thread(target=self._read, name="standfast-events", daemon=True)
        self._socket: socket.socket | None = None
        self._closed = False

    async def begin(self) -> tuple[int, bytes]:
        """The status of the answer, and its body if that is no stream."""
        self._thread.start()
        return await self._began

    async def messages(self) -> AsyncIterator[str]:
        """The data of each event; ends when the server ends the stream, raises when the connection is lost."""
        while (told := await self._told.get()) is not None:
            if isinstance(told, StandfastError):
                raise told
            yield told

    async def close(self) -> None:
        """Nobody reads any more."""
        self._closed = True
        if self._socket is not None:
            with contextlib.suppress(OSError):  # the other side was quicker
                self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, 5.0)

    # --- in the thread ----------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            self._connection.connect()
            self._socket = found = cast("socket.socket", self._connection.sock)
            found.settimeout(SILENT_SECONDS)
            self._connection.request("GET", self._path, headers=self._headers)
            response = self._connection.getresponse()
            with response:
                if response.status != 200:
                    self._tell(self._begin, (response.status, response.read()))
                    return
                self._tell(self._begin, (200, b""))
                self._lines(response)
            self._tell(self._told.put_nowait, None)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if not self._closed:
                self._tell(self._fail, self._lost(error))
        finally:
            self._connection.close()

    def _lines(self, response: http.client.HTTPResponse) -> None:
        data: list[str] = []
        while not self._closed and (line := response.readline()):
            text = line.decode().rstrip("\r\n")
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif not text and data:
                self._tell(self._told.put_nowait, "\n".join(data))
                data = []

    def _tell(self, act: Callable[..., Any], what: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(act, what)

    def _begin(self, answer: tuple[int, bytes]) -> None:
        if not self._began.done():
            self._began.set_result(answer)

    def _fail(self, error: StandfastError) -> None:
        if not self._began.done():
            self._began.set_exception(error)
        else:
            self._told.put_nowait(error)
