"""The operator's process: listens on a Unix socket of mode 0600, and on a port of this machine if asked to.

One line in, one line out, within strict limits of size, time and number. It shares nothing with the server but the
store, so no flood, no blocked loop and no death of the server keeps a halt from being set.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import secrets
import signal
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from standfast.descriptors import SPARE, Descriptors
from standfast.errors import Misuse, StandfastError, StoreError
from standfast.evidence.halt_signatures import signs_halts, verifies_halts
from standfast.json_values import is_object
from standfast.leases import proven_dead
from standfast.operator.acting import Acting, failed
from standfast.operator.client import NoOperator, socket_of
from standfast.operator.refusals import Refusals
from standfast.rates import GUESSES, GUESSES_A_SECOND, Rate
from standfast.records import Json
from standfast.stores.sqlite import SqliteStore

log = logging.getLogger("standfast")

LONGEST_LINE = 64_000
READ_SECONDS = 5.0
WRITE_SECONDS = 5.0
MOST_CONNECTIONS = 32
THREADS = 4
LOOK_SECONDS = 0.5
ALONE_SECONDS = 5.0  # with its server gone and nobody driving, there is nothing left to halt


class Listening:
    """One store's operator, from its socket to its end."""

    def __init__(
        self,
        acting: Acting,
        *,
        port: int | None = None,
        token: str = "",
        server: int | None = None,
        tell: Callable[[str], None] = log.info,
    ) -> None:
        self._acting = acting
        self._path = socket_of(acting.path)
        self._port = port
        self._token = token or secrets.token_urlsafe(24)
        self._given = bool(token)
        self._server = server  # the process it was started by: without it, it leaves when nobody drives
        self._tell = tell
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="standfast-operator")
        self._refusals = Refusals(acting.path)
        self._guesses = Rate(GUESSES_A_SECOND, GUESSES)
        self._spare = Descriptors(self._make_room)
        self._silent: dict[asyncio.StreamWriter, str] = {}  # who has asked nothing yet, by which way
        self._most = min(MOST_CONNECTIONS, max(4, (_most_descriptors() - SPARE) // 4))
        self._open: Counter[str] = Counter()  # by the way they came: strangers at the port keep nobody from the socket
        self._inode = 0
        self._leaving = asyncio.Event()
        self._alone_since: float | None = None

    async def serve(self) -> None:
        """Until SIGTERM, or until another operator has taken the socket's place."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._leaving.set)
        self._spare.start(loop)
        servers = [await self._listen_on_socket()]
        if self._port is not None:
            servers.append(await self._listen_on_port(self._port))
        self._tell(f"operator: {self._path}")
        try:
            while not self._leaving.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._leaving.wait(), LOOK_SECONDS)
                self._refusals.tell()
                if not self._leaving.is_set():
                    servers += await self._look()
        finally:
            for server in servers:
                server.close()
            if self._is_mine():
                self._path.unlink(missing_ok=True)
            self._spare.close()
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._refusals.close()

    # --- where it listens ---------------------------------------------------------------------------------

    async def _listen_on_socket(self) -> asyncio.AbstractServer:
        """Bound beside its place and moved there: an operator that is there already is replaced without a gap."""
        beside = self._path.with_name(f"{self._path.name}.{secrets.token_hex(3)}")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            before = os.umask(0o177)
            try:
                listening.bind(str(beside))  # 0600 by the umask; what is there already is not touched
            finally:
                os.umask(before)
            self._inode = beside.lstat().st_ino
            beside.replace(self._path)
        except OSError as error:
            listening.close()
            raise Misuse(
                f"the operator cannot listen on {self._path}: {error}",
                hint="halts can be set straight on the store: standfast halt --store FILE",
            ) from error
        return await asyncio.start_unix_server(self._connected, sock=listening, limit=LONGEST_LINE)

    async def _listen_on_port(self, port: int) -> asyncio.AbstractServer:
        try:
            server = await asyncio.start_server(self._connected, "127.0.0.1", port, limit=LONGEST_LINE)
        except OSError as error:
            raise Misuse(
                f"the operator cannot listen on port {port}: {error.strerror}", hint="give another --halt-port"
            ) from error
        self._tell(f"operator port: {server.sockets[0].getsockname()[1]}")
        if not self._given:
            self._tell(f"operator token: {self._token}")
        return server

    def _is_mine(self) -> bool:
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    async def _look(self) -> list[asyncio.AbstractServer]:
        """Is the socket still ours, and is there anything left to stop?"""
        if not self._path.parent.exists():
            self._leaving.set()
        elif not self._path.exists():
            return [await self._listen_on_socket()]
        elif not self._is_mine():
            log.info("standfast: another operator listens on %s now", self._path)
            self._leaving.set()
        elif self._server is not None and os.getppid() != self._server:
            self._leave_if_alone()
        return []

    def _leave_if_alone(self) -> None:
        if self._somebody_drives():
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > ALONE_SECONDS:
            self._leaving.set()

    def _somebody_drives(self) -> bool:
        store = SqliteStore(self._acting.path, looks_only=True)
        try:
            return store.exists() and not all(map(proven_dead, store.read(lambda tx: tx.leases())))
        except StoreError:
            return True  # who cannot look stays
        finally:
            store.close()

    # --- who asks -----------------------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = "port" if writer.get_extra_info("socket").family != socket.AF_UNIX else "socket"
        self._open[way] += 1
        self._silent[writer] = way
        try:
            writer.write(b" ")  # a sign of life: who asks need not wait for a process that is frozen
            if self._open[way] > self._most:
                answer = failed(NoOperator("too many connections", hint="try again, or halt straight on the store"))
            else:
                answer = await self._answer(reader, writer)
            writer.write(to_json(answer) + b"\n")
            async with asyncio.timeout(WRITE_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError):
            log.info("standfast: who asked the operator has gone, or does not read")
        finally:
            self._open[way] -= 1
            self._silent.pop(writer, None)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Json:
        try:
            route = self._route(writer)
            async with asyncio.timeout(READ_SECONDS):
                line = await reader.readuntil(b"\n")
            self._silent.pop(writer, None)
            asked: Any = from_json(line)
            if not is_object(asked):
                raise ValueError("not a JSON object")
            if route == "port" and not _same(asked.pop("token", None), self._token):
                return self._wrong_token(route, asked.get("do"))
        except StandfastError as error:
            return failed(error)
        except (TimeoutError, ValueError, asyncio.LimitOverrunError, asyncio.IncompleteReadError) as error:
            why = "it did not come in time" if isinstance(error, TimeoutError) else str(error)[:200]
            return failed(Misuse(f"the request is not one line of JSON: {why}", hint=f"at most {LONGEST_LINE} bytes"))
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._acting.answer, asked, route)

    def _wrong_token(self, route: str, what: object) -> Json:
        """A right one is let in at once, however many wrong ones came before."""
        if self._guesses.allows(route):
            why, hint = "the token is not the operator's", "nothing was changed"
        else:
            why, hint = "too many wrong tokens came to this port", "wait a minute; a right one is let in at once"
        self._refusals.note(route, what, why)
        return failed(Misuse(why, hint=hint))

    def _make_room(self) -> None:
        """Descriptors have run out: strangers at the port go that have asked nothing yet, the oldest first."""
        waiting = [writer for writer, way in self._silent.items() if way == "port"]
        for writer in waiting[: max(1, len(waiting) // 2)]:
            writer.transport.abort()

    def _route(self, writer: asyncio.StreamWriter) -> str:
        """By which way somebody asks; a socket also says whose process it is."""
        asking: Any = writer.get_extra_info("socket")
        if asking.family != socket.AF_UNIX:
            return "port"
        if not hasattr(socket, "SO_PEERCRED"):
            return "socket"
        found = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        pid, uid, _ = struct.unpack("3i", found)
        if uid not in (0, os.getuid()):  # the mode of the socket says so too
            why = "this socket is another user's"
            self._refusals.note(f"socket, process {pid} of user {uid}", None, why)
            raise Misuse(why, hint="nothing was changed")
        return f"socket, process {pid} of user {uid}"


def _most_descriptors() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _same(given: Any, token: str) -> bool:
    return isinstance(given, str) and secrets.compare_digest(given.encode(), token.encode())


def listen(
    store: Path,
    *,
    port: int | None = None,
    token: str = "",
    server: int | None = None,
    tell: Callable[[str], None] = log.info,
) -> None:
    """Be the operator of a store, until told to go."""

    async def through() -> None:
        acting = Acting(store, sign=signs_halts(store), verify=verifies_halts(store), token=token)
        try:
            await Listening(acting, port=port, token=token, server=server, tell=tell).serve()
        finally:
            acting.close()

    asyncio.run(through())
