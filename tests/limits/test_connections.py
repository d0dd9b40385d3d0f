"""Connections that ask nothing, and sockets that ask too much: they go, and stops come through (R34)."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.server.serving import LONG, Server
from websockets.exceptions import ConnectionClosed

from standfast.server.connections import LONGEST_HEAD, connections
from standfast.server.serving import LONGEST_MESSAGE
from standfast.server.socket import MESSAGES_AT_ONCE
from standfast.server.verbs import LONGEST_ID


async def _hello(_: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


@asynccontextmanager
async def listening(most: int, seconds: float) -> AsyncIterator[int]:
    """A server whose connections may be idle so many, for so long."""
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/", _hello)])
    config = uvicorn.Config(
        app,
        http=connections(most, seconds),
        h11_max_incomplete_event_size=LONGEST_HEAD,
        lifespan="off",
        log_config=None,
        ws="none",
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([bound]))
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        await serving
        bound.close()


async def _silent(port: int, begins: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(begins)
    return reader, writer


@pytest.mark.parametrize("begins", [b"", b"GET / HTTP/1.1\r\nhost: he", b"GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HT"])
async def test_a_request_that_does_not_come_is_not_waited_for(begins: bytes) -> None:
    """Also the second one of a connection."""
    async with listening(10, 0.3) as port, asyncio.timeout(LONG):
        reader, writer = await _silent(port, begins)
        said = await reader.read()
        assert said.count(b"200 OK") == begins.count(b"\r\n\r\n")
        writer.close()


async def test_the_oldest_of_too_many_idle_connections_goes_and_the_newest_is_answered() -> None:
    async with listening(3, LONG) as port, asyncio.timeout(LONG):
        idle = [await _silent(port) for _ in range(3)]
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/")).text == "hello"
            assert await idle[0][0].read() == b"", "the one that waited longest was closed"
            assert (await client.get("/")).text == "hello"
            assert not idle[2][0].at_eof()
        for _, writer in idle:
            writer.close()


@pytest.mark.parametrize(("size", "status"), [(LONGEST_HEAD - 1_000, b"200"), (LONGEST_HEAD + 1_000, b"400")])
async def test_the_head_of_a_request_is_so_long_and_no_longer(size: int, status: bytes) -> None:
    async with listening(10, LONG) as port, asyncio.timeout(LONG):
        head = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx: "
        reader, writer = await _silent(port, head + b"x" * (size - len(head)))
        await asyncio.sleep(0.2)  # what is too long is refused before its end has come
        if status == b"200":
            writer.write(b"\r\n\r\n")
        assert (await reader.read(12)).split()[1] == status
        writer.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("limits"), "--workers", "1").ready()
    try:
        yield one
    finally:
        one.close()


def test_a_socket_that_says_too_much_is_told_so_and_its_stop_is_heard(server: Server) -> None:
    run = server.start("counter", "flooded", to=10_000, seconds=0.05)
    most = int(MESSAGES_AT_ONCE)
    with server.socket() as page:
        told: list[int] = []
        while 429 not in told and len(told) < 20 * most:  # a busy machine says little more than it may
            for n in range(100):
                page.say(op="ping", n=len(told) + n)
            told += [_status(page.raw.recv(timeout=LONG)) for _ in range(100)]  # it reads, so it is not let go
        assert told.index(429) >= most, "not before the limit"
        assert page.verb("cancel", run)["answer"] == "accepted"
    assert server.until(run, "cancelled")


def _status(said: str | bytes) -> int:
    told = json.loads(said)
    return int((told.get("problem") or {}).get("status", 200))


def test_a_message_names_a_run_by_so_long_a_name_and_no_longer(server: Server) -> None:
    with server.socket() as page:
        for length, fits in ((LONGEST_ID, True), (LONGEST_ID + 1, False)):
            page.say(op="watch", n=1, run="x" * length)
            told = page.next("gone" if fits else "answer")
            assert fits or told["problem"]["status"] == 422


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_of_a_socket_is_so_large_and_no_larger(server: Server, more: int) -> None:
    """And whoever sent too much can connect again: the run is as it was, and can be stopped."""
    run = server.start("counter", f"messaged-{more}", to=10_000, seconds=0.05)
    with server.socket() as page:
        page.raw.send('{"op":"ping","n":7}'.ljust(LONGEST_MESSAGE + more))
        if more:
            with pytest.raises(ConnectionClosed):
                while True:
                    page.raw.recv(timeout=LONG)
        else:
            assert page.next("pong")["n"] == 7
    with server.socket() as page:
        assert page.verb("cancel", run)["answer"] == "accepted"
    assert server.until(run, "cancelled")
