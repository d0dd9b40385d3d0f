"""An MCP server as a child process: lines in, lines out, and an end that is certain."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import anyio

from standfast.adapters.mcp.backend import Backend, request_id
from standfast.bodies.children import Child
from standfast.bodies.pipes import CHUNK, PipeReader
from standfast.json_values import short

log = logging.getLogger("standfast.mcp")

INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR")  # no secrets go to a server unasked
CLOSE_GRACE = 2.0  # a server whose input was closed may take so long to end by itself
KILL_WAIT = 1.0
LONGEST_LINE = 64 * 1024 * 1024
UNSENT = 1024 * 1024  # so much may wait for a server that does not read


class ServerProcess:
    """One running server; `broken` tells why nothing sensible can come from it any more."""

    def __init__(
        self,
        backend: Backend,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        on_stray: Callable[[str], None],
    ) -> None:
        self._backend = backend
        self._on_stray = on_stray
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        pipe = subprocess.PIPE
        self.child = Child(
            argv, new_session=True, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env={**inherited, **(env or {})}
        )
        process = self.child.process
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        self._loop = asyncio.get_running_loop()
        self.broken: asyncio.Future[str] = self._loop.create_future()
        self._line = bytearray()
        self.strays: deque[str] = deque(maxlen=3)  # what it printed that is no message
        self._complaints = bytearray()  # the end of its stderr
        self._highest = -1  # id of a request
        self._to_session, self.read = anyio.create_memory_object_stream[Any](math.inf)
        self.write = _Input(process.stdin, self)
        self._out = PipeReader(process.stdout, self._heard)
        self._err = PipeReader(process.stderr, self._complained)
        self._out.ended.add_done_callback(self._output_ended)
        self.child.exited.add_done_callback(self._exited)

    # --- what it says -----------------------------------------------------------------------------

    def _heard(self, data: bytes) -> None:
        self._line += data
        lines: list[bytearray] = []
        if b"\n" in data:  # a long line is not searched again and again
            *lines, self._line = self._line.split(b"\n")
        for line in lines:
            if len(line) <= LONGEST_LINE and line.strip() and not self.broken.done():
                self._take(bytes(line))
        if max(map(len, (*lines, self._line))) > LONGEST_LINE:
            self.broke(f"it sent a line of more than {LONGEST_LINE / 2**20:g} MB")

    def _take(self, line: bytes) -> None:
        try:
            message = self._backend.from_line(line)
        except ValueError:
            text = short(line.decode(errors="replace").strip(), 200)
            self.strays.append(text)
            if b'"jsonrpc"' in line:
                self.broke(f"it answered something that is no MCP message: {text}")
            else:  # a print() or a log line that went astray: many servers do it
                self._on_stray(text)
            return
        root = getattr(message.message, "root", message.message)
        answered = getattr(root, "id", None)
        if not hasattr(root, "method") and answered is not None and not self._was_asked(answered):
            self.broke(f"it answered a request that was never made: id {answered!r}")
            return
        self._to_session.send_nowait(message)

    def line(self, message: Any) -> bytes:
        """What a session sends, as it goes into the pipe."""
        return self._backend.to_line(message) + b"\n"

    def issued(self, request: int | str) -> None:
        """A request of this id has been sent; both majors count them up."""
        self._highest = max(self._highest, int(request))

    def _was_asked(self, answered: int | str) -> bool:
        return str(answered).isdigit() and int(answered) <= self._highest  # ids may come back as text

    def _complained(self, data: bytes) -> None:
        self._complaints += data
        del self._complaints[:-4096]
        log.debug("%s says: %s", self.child.process.args, data.decode(errors="replace").rstrip())

    # --- how it ends ------------------------------------------------------------------------------

    def _output_ended(self, ended: asyncio.Future[None]) -> None:
        if not ended.cancelled() and ended.exception() is not None:
            self.broke(f"its output cannot be read: {ended.exception()}")
        elif not self.child.exited.done():
            self._loop.call_later(0.05, self.broke, "it closed its output")  # its exit says more, if it comes now

    def _exited(self, exited: asyncio.Future[None]) -> None:
        if not exited.cancelled():
            self._out.read_rest()
            self._err.read_rest()
            self.broke(f"it ended with exit code {self.child.reap()}")

    def broke(self, why: str) -> None:
        """Nothing more is expected of it; the session sees the end of its stream."""
        if not self.broken.done():
            self.broken.set_result(why + self.complaints())
            self._to_session.close()

    def complaints(self) -> str:
        """The last of what it wrote to stderr, or printed beside the protocol."""
        said = self._complaints.decode(errors="replace").strip().splitlines()[-5:] or list(self.strays)
        return f"; it said: {short(' | '.join(said), 500)}" if said else ""

    async def kill(self, why: str) -> None:
        """SIGKILL to its whole process group, now."""
        self.broke(why)
        self.child.kill()
        await asyncio.wait({self.child.exited}, timeout=KILL_WAIT)

    async def close(self) -> None:
        """Close its input, let it end by itself, then kill it."""
        self.write.close()
        if not self.child.exited.done():
            await asyncio.wait({self.child.exited}, timeout=CLOSE_GRACE)
        if not self.child.exited.done():
            await self.kill("it was closed, and did not end by itself")
        if not self.broken.done():
            self.broken.set_result("it was closed")
        self._out.close()
        self._err.close()
        self._to_session.close()
        self.read.close()
        self.child.release()


class _Input:
    """The write side of a session: messages become lines in the server's input."""

    def __init__(self, pipe: IO[bytes], process: ServerProcess) -> None:
        self._pipe = pipe
        self._fd = pipe.fileno()
        os.set_blocking(self._fd, False)
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._unsent = bytearray()
        self._room = asyncio.Event()

    async def send(self, message: Any, /) -> None:
        if self._pipe.closed or self._process.broken.done():
            raise anyio.BrokenResourceError
        request = request_id(message)
        if request is not None:
            self._process.issued(request)
        self._unsent += self._process.line(message)
        self._flush()
        while len(self._unsent) > UNSENT:
            self._room.clear()
            await self._room.wait()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: os.write(self._fd, self._unsent[:CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(self._fd, self._flush)
            return
        except (BrokenPipeError, ConnectionResetError):
            self._unsent.clear()  # its exit, or the end of its output, says the rest
        self._loop.remove_writer(self._fd)
        self._room.set()

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_writer(self._fd)
            self._unsent.clear()
            self._room.set()
            self._pipe.close()

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> _Input:
        return self

    async def __aexit__(self, *error: object) -> None:
        self.close()
