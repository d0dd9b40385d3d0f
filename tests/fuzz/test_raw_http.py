"""Bytes that are no HTTP, or HTTP that lies: refused or let go, never a traceback, and the server answers on (R34)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest
from tests.fuzz.oracle import World
from tests.server.serving import LONG, Server

from standfast.server.connections import HEAD_SECONDS

BODY = b'{"text":"hi"}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("raw"), "--workers", "1").ready()
    one.start("shop", "asking")
    one.until("asking", "paused")
    try:
        yield one
    finally:
        one.close()


def connected(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), LONG)


def head(server: Server, *more: bytes, line: bytes = b"POST /api/runs/asking/message HTTP/1.1") -> bytes:
    """A request of somebody who may do what it asks for."""
    host = server.url.rpartition("/")[2].encode()
    known = (b"Host: " + host, b"Authorization: Bearer " + server.token.encode(), b"Content-Type: application/json")
    return b"\r\n".join([line, *known, *more]) + b"\r\n\r\n"


def spoken(server: Server, *pieces: bytes, goes: bool = True) -> bytes:
    """Everything that comes back until the server hangs up; who goes does so after the last piece."""
    with connected(server) as to:
        said = bytearray()
        try:
            for piece in pieces:
                to.sendall(piece)
            if goes:
                to.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has heard enough; what it said is read
        try:
            while more := to.recv(65536):
                said += more
        except ConnectionError:
            pass  # what it had not read is thrown away with the connection
        return bytes(said)


def statuses(said: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", said)]


def unharmed(server: Server, world: World, what: object) -> None:
    """It answers others, nothing has changed, and nothing is in the log."""
    assert server.get("/healthz") == {"ok": True}
    world.unchanged(repr(what)[:300])
    logged = server.log.read_text()
    assert "Traceback" not in logged and "Exception" not in logged, (what, logged[-3000:])


LINES = [
    b"\r\n\r\n",
    b"\x00\x00\x00\x00",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # the beginning of TLS
    b"GET\r\n\r\n",
    b"GET /\r\n\r\n",
    b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    b"GET  /  HTTP/1.1\r\nHost: a\r\n\r\n",
    b"G\xffT / HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /%00%ff%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://evil.example/api/runs HTTP/1.1\r\nHost: a\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",  # no host
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\nHost: a\n\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    b"GET / HTTP/1.1\r\n: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\x01\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    b"A" * 200_000,
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: repr(line[:30]))
def test_what_is_no_request_is_refused(server: Server, line: bytes) -> None:
    world = World(server)
    assert [status for status in statuses(spoken(server, line)) if not 400 <= status < 500] == [], line
    unharmed(server, world, line)
    world.leave()


@pytest.mark.parametrize(
    ("more", "body"),
    [
        ((b"Content-Length: 5\r\nTransfer-Encoding: chunked",), BODY),
        ((b"Transfer-Encoding: chunked\r\nContent-Length: 13",), BODY),
        ((b"Content-Length: 13\r\nContent-Length: 5",), BODY),
        ((b"Content-Length: -1",), BODY),
        ((b"Content-Length: +13",), BODY),
        ((b"Content-Length: 0x0d",), BODY),
        ((b"Content-Length: " + b"9" * 5_000,), BODY),
        ((b"Content-Length: \xd9\xa1\xd9\xa3",), BODY),
        ((b"Content-Length: 1000",), BODY),  # more than comes
        ((b"Transfer-Encoding: gzip, chunked",), BODY),
        ((b"Transfer-Encoding: identity",), BODY),
        ((b"Transfer-Encoding: chunked",), b"zz\r\n" + BODY),
        ((b"Transfer-Encoding: chunked",), b"-1\r\n" + BODY),
        ((b"Transfer-Encoding: chunked",), b"ffffffffffffffffffff\r\n" + BODY),
        ((b"Transfer-Encoding: chunked",), b"d\r\n" + BODY + b"XX0\r\n\r\n"),
        ((b"Transfer-Encoding: chunked",), b"d\r\n" + BODY + b"\r\n"),  # it never ends
        ((b"Transfer-Encoding: chunked",), b"d;" + b"x" * 200_000 + b"\r\n" + BODY),
        ((b"X-A: b\rX-C: d",), b""),
        ((b"X-A: b\nAuthorization: Bearer other",), b""),
    ],
    ids=repr,
)
def test_a_body_that_is_not_what_its_head_says_is_not_taken(
    server: Server, more: tuple[bytes, ...], body: bytes
) -> None:
    """No message of it reaches the run, however the two are told apart elsewhere."""
    world = World(server)
    said = spoken(server, head(server, *more), body)
    assert [status for status in statuses(said) if not 400 <= status < 500] == [], said
    unharmed(server, world, more)
    world.leave()


def test_a_second_request_hidden_in_a_body_is_none(server: Server) -> None:
    """What follows a body is a request of its own, with credentials of its own; what is within it is not."""
    hidden = head(server, line=b"POST /api/runs/asking/cancel HTTP/1.1")
    world = World(server)
    said = spoken(server, head(server, b"Connection: close", b"Content-Length: %d" % len(hidden)), hidden, goes=False)
    assert statuses(said) == [400], said
    stranger = b"POST /api/runs/asking/cancel HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    said = spoken(server, head(server, b"Content-Length: 2"), b"[]", stranger, goes=False)
    assert statuses(said) == [422, 401]
    unharmed(server, world, "hidden")
    world.leave()


def test_requests_one_after_the_other_are_answered_in_order(server: Server) -> None:
    world = World(server)
    one = head(server, line=b"GET /healthz HTTP/1.1")
    two = head(server, line=b"GET /api/runs/nobody HTTP/1.1")
    last = head(server, b"Connection: close", line=b"GET /healthz HTTP/1.1")
    assert statuses(spoken(server, (one + two) * 20 + last, goes=False)) == [200, 404] * 20 + [200]
    assert statuses(spoken(server, one * 3 + b"\x00garbage\r\n\r\n", goes=False)) == [200, 200, 200, 400]
    unharmed(server, world, "pipelined")
    world.leave()


def test_whoever_sends_a_head_letter_by_letter_is_let_go_and_nobody_waits_for_them(server: Server) -> None:
    """R34: also with a whole request that only lacks its end."""
    world = World(server)
    slow = [connected(server) for _ in range(40)]
    try:
        for one in slow:
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: ")
        unharmed(server, world, "slow")
        for one in slow:
            one.settimeout(HEAD_SECONDS + LONG)
            one.sendall(b"y")
        assert {one.recv(1) for one in slow} == {b""}, "closed, without an answer to what was no request"
    finally:
        for one in slow:
            one.close()
    unharmed(server, world, "slow")
    world.leave()


def test_a_stop_holds_although_whoever_asked_for_it_has_gone(server: Server) -> None:
    """R18, R34: what has no arguments is whole when its head is."""
    run = server.start("counter", "left-alone", to=10_000, seconds=0.05)
    server.until(run, "running")
    with connected(server) as to:
        to.sendall(head(server, line=b"POST /api/runs/left-alone/cancel HTTP/1.1"))
    assert server.until(run, "cancelled")


def test_whoever_goes_in_the_midst_of_anything_leaves_nothing_behind(server: Server) -> None:
    world = World(server)
    whole = head(server, b"Content-Length: %d" % len(BODY), line=b"POST /api/runs/nobody/message HTTP/1.1") + BODY
    for at in range(1, len(whole), 7):
        with connected(server) as to:
            to.sendall(whole[:at])
    unharmed(server, world, "cut off")
    world.leave()
    assert server.view("asking")["status"] == "paused"
    assert server.post("/api/runs/asking/cancel", {"reason": "enough"})["answer"] == "accepted"
    server.until("asking", "cancelled")
