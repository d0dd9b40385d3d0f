"""Pipes read and written from the event loop, without tasks that could be left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import IO

CHUNK = 65536
PIPE_HOLDS = 1024 * 1024  # no pipe holds more, unless a privileged process says so


class PipeReader:
    """Hands on what comes out of a pipe; after `close()` nothing is read and the pipe is closed."""

    def __init__(self, pipe: IO[bytes], on_data: Callable[[bytes], None]) -> None:
        self._pipe = pipe
        self._fd = pipe.fileno()
        os.set_blocking(self._fd, False)
        self._on_data = on_data
        self._loop = asyncio.get_running_loop()
        # done at the end of the pipe; holds the error if on_data raised one
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._fd, self._ready)

    def _ready(self) -> None:
        try:
            self._read(CHUNK)
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits `ended`
            self._end(error)

    def read_rest(self) -> None:
        """Hand on what is in the pipe already; whoever writes on is not waited for."""
        self._read(PIPE_HOLDS)

    def _read(self, most: int) -> None:
        while most > 0 and not self.ended.done():
            try:
                data = os.read(self._fd, CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._end(None)
                return
            most -= len(data)
            self._on_data(data)

    def _end(self, error: Exception | None) -> None:
        self._loop.remove_reader(self._fd)
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)

    def close(self) -> None:
        """Stop reading; harmless when repeated."""
        if self._pipe.closed:
            return
        self._loop.remove_reader(self._fd)
        self._pipe.close()
        self.ended.cancel()


class PipeWriter:
    """Writes `data` into a pipe as it is taken; a reader that goes away is not an error."""

    def __init__(self, pipe: IO[bytes], data: bytes, *, then_close: bool) -> None:
        self._pipe = pipe
        self._fd = pipe.fileno()
        os.set_blocking(self._fd, False)
        self._rest = memoryview(data)
        self._then_close = then_close
        self._loop = asyncio.get_running_loop()
        self._loop.add_writer(self._fd, self._ready)
        self._ready()  # what fits goes out at once, even if the loop gets no turn for a while

    def _ready(self) -> None:
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._fd, self._rest[:CHUNK]) :]
        except BlockingIOError:
            return
        except (BrokenPipeError, ConnectionResetError):
            self._rest = memoryview(b"")
        if self._rest:  # in pieces, so that a large input does not hold up the loop
            return
        self._loop.remove_writer(self._fd)
        if self._then_close:
            self.close()

    def close(self) -> None:
        """Close the pipe, which the reader sees as its end; harmless when repeated."""
        if self._pipe.closed:
            return
        self._loop.remove_writer(self._fd)
        self._pipe.close()
