"""A provider on 127.0.0.1: speaks the real streaming protocols, does what it is told, and times every byte.

    with LoopbackProvider() as server:
        server.will(says("Hello", " there"), goes_silent("Hel"))
        client = AsyncOpenAI(base_url=server.openai_url, api_key="test")        # or
        client = AsyncAnthropic(base_url=server.anthropic_url, api_key="test")
        ...
        server.exchanges[0].gone_at      # when the client was seen to leave before the answer was complete

It runs in a thread with an event loop of its own, so what it sees does not depend on how busy the tested loop is.
Times are `time.monotonic()`, the same in every process of the machine.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

from tests.providers.scenes import FOREVER, Answer, Die, Fault, Raw, Say, Think, Wait, refuses
from tests.providers.wire import Wire, wire_of


@dataclass
class Exchange:
    """One request and what became of its answer."""

    n: int
    at: float  # the whole request was here
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    sent: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])  # when, how many bytes
    tokens: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])  # of text and reasoning
    gone_at: float | None = None  # the client left before the answer was complete
    done_at: float | None = None  # the answer was complete, or broken as told
    refused: str = ""  # why the real API would not accept the request; it was answered with 400

    def tokens_after(self, when: float) -> int:
        """How many tokens were sent after that time."""
        return sum(1 for at, _ in self.tokens if at > when)

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.tokens)


Choose = Callable[[Exchange], Answer]


class _Gone(Exception):
    """The client has left."""


class _Connection:
    """A client's connection. Somebody always reads from it: a client that leaves is noticed at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.buffer = bytearray()
        self.more = asyncio.Event()
        self.gone = asyncio.Event()
        self.gone_at: float | None = None
        self._reader = reader
        self._pump = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            while data := await self._reader.read(65536):
                self.buffer += data
                self.more.set()
        except ConnectionError:
            pass  # a reset is a way of leaving
        self.gone_at = time.monotonic()
        self.gone.set()
        self.more.set()

    async def request(self) -> tuple[str, dict[str, str], bytes] | None:
        """The next request; None when the client has left."""
        while (head := self.buffer.find(b"\r\n\r\n")) < 0:
            if not await self._grown():
                return None
        first, *lines = self.buffer[:head].decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        end = head + 4 + int(headers.get("content-length", 0))
        while len(self.buffer) < end:
            if not await self._grown():
                return None
        body = bytes(self.buffer[head + 4 : end])
        del self.buffer[:end]
        return first.split(" ")[1], headers, body

    async def _grown(self) -> bool:
        self.more.clear()
        if self.gone.is_set():
            return False
        await self.more.wait()
        return not self.gone.is_set()

    async def wait(self, seconds: float) -> None:
        """Be silent so long, or until the client leaves."""
        try:
            await asyncio.wait_for(self.gone.wait(), None if seconds == FOREVER else seconds)
        except TimeoutError:
            return
        raise _Gone

    async def write(self, data: bytes) -> None:
        if self.gone.is_set() or self.writer.transport.is_closing():
            raise _Gone
        self.writer.write(data)
        await asyncio.sleep(0)
        if self.writer.transport.get_write_buffer_size() == 0:
            return
        drained = asyncio.ensure_future(self.writer.drain())
        gone = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait([drained, gone], return_when=asyncio.FIRST_COMPLETED)
            left = not drained.done() or drained.exception() is not None
        finally:
            drained.cancel()
            gone.cancel()
        if left:
            raise _Gone

    def reset(self) -> None:
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def close(self) -> None:
        self._pump.cancel()
        if self.gone.is_set():
            self.writer.transport.abort()  # nobody reads what is still to be sent
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass  # it was reset


class LoopbackProvider:
    """An HTTP/1.1 server that answers as it was told, one answer a request, and keeps a diary."""

    def __init__(self, choose: Choose | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.open_connections = 0
        self.connections = 0
        self._choose = choose
        self._script: deque[Answer] = deque()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._main, name="loopback-provider")
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self.port = 0

    # --- for tests ---------------------------------------------------------------------------------

    def will(self, *answers: Answer) -> None:
        """These are the answers to the next requests, in order; then `choose` is asked."""
        self._script.extend(answers)

    @property
    def openai_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def anthropic_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    def requests_after(self, when: float) -> int:
        return sum(1 for e in self.exchanges if e.at > when)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    # --- the server --------------------------------------------------------------------------------

    def _main(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        tasks: set[asyncio.Task[None]] = set()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._connection(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(lambda _: writer.transport.abort())  # it may have been cancelled before it began

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        # asyncio connects whom it has accepted in a task of its own, which fails once the server is closed, and drops
        # the socket: nobody more is accepted, then all are connected and sent away, then the server is closed
        self._loop.remove_reader(server.sockets[0].fileno())
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tuple(tasks):
                task.cancel()
            await asyncio.wait(others)
            await asyncio.sleep(0)  # a transport that was aborted is closed in the next turn
        server.close()
        await server.wait_closed()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer)
        self.open_connections += 1
        self.connections += 1
        try:
            while (request := await connection.request()) is not None:
                path, headers, body = request
                doc = json.loads(body) if body else {}
                exchange = Exchange(len(self.exchanges), time.monotonic(), path, headers, doc)
                self.exchanges.append(exchange)
                try:
                    if not await self._answer(connection, exchange):
                        return
                    exchange.done_at = time.monotonic()
                except _Gone:
                    exchange.gone_at = connection.gone_at or time.monotonic()
                    return
        finally:
            self.open_connections -= 1
            await connection.close()

    def _chosen(self, exchange: Exchange) -> Answer:
        if self._script:
            return self._script.popleft()
        if self._choose is not None:
            return self._choose(exchange)
        return refuses(400, "the loopback provider was not told what to answer to this request")

    async def _answer(self, connection: _Connection, exchange: Exchange) -> bool:
        """Answer; False if the connection is not to be used again."""
        kind = wire_of(exchange.path)
        if kind is None:
            await self._whole(connection, exchange, Answer(status=404), b'{"error": {"message": "no such path"}}')
            return True
        objection = exchange.refused = kind(exchange.body, Answer(), exchange.n).objection()
        answer = refuses(400, objection) if objection else self._chosen(exchange)
        wire = kind(exchange.body, answer, exchange.n)
        if answer.headers_after:
            await connection.wait(answer.headers_after)
        if answer.body is not None:
            await self._whole(connection, exchange, answer, answer.body)
        elif answer.status != 200:
            fault = next(a for a in answer.acts if isinstance(a, Fault))
            body = json.dumps(wire.error(fault.kind, fault.message)).encode()
            await self._whole(connection, exchange, answer, body)
        elif not exchange.body.get("stream"):
            for wait in (a for a in answer.acts if isinstance(a, Wait)):
                await connection.wait(wait.seconds)
            await self._whole(connection, exchange, answer, json.dumps(wire.whole()).encode())
        else:
            return await self._stream(connection, exchange, answer, wire)
        return True

    async def _whole(self, connection: _Connection, exchange: Exchange, answer: Answer, body: bytes) -> None:
        headers = {"content-type": "application/json", **answer.headers, "content-length": str(len(body))}
        await self._send(connection, exchange, head(answer.status, headers) + body)

    async def _send(self, connection: _Connection, exchange: Exchange, data: bytes) -> None:
        exchange.sent.append((time.monotonic(), len(data)))
        await connection.write(data)

    async def _stream(self, connection: _Connection, exchange: Exchange, answer: Answer, wire: Wire) -> bool:
        async def send(events: Iterator[bytes]) -> None:
            for data in events:
                await self._send(connection, exchange, chunk(data))

        headers = {"content-type": "text/event-stream", **answer.headers, "transfer-encoding": "chunked"}
        await self._send(connection, exchange, head(answer.status, headers))
        begun = False
        for act in answer.acts:
            if not begun and not isinstance(act, Wait | Raw):
                await send(wire.head())
                begun = True
            match act:
                case Wait(seconds):
                    await connection.wait(seconds)
                case Raw(data):
                    await send(iter([data]))
                case Die(how):
                    if how == "reset":
                        connection.reset()
                    elif how == "short":
                        await connection.write(b"0\r\n\r\n")
                    exchange.done_at = time.monotonic()
                    return how == "short"
                case _:
                    if isinstance(act, Say | Think):
                        exchange.tokens.append((time.monotonic(), act.text))
                    await send(wire.act(act))
                    if answer.every:
                        await connection.wait(answer.every)
        if not begun:
            await send(wire.head())
        if not any(isinstance(act, Fault) for act in answer.acts):
            await send(wire.end())
        await connection.write(b"0\r\n\r\n")
        return True


def head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Not so'}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
