"""Stops are never refused; whoever may only pause cannot use that to keep others from stopping, nor fill the disk."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from tests.server.serving import LONG, Server, eventually
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

SOON = 10.0  # seconds: far more than a stop takes, far less than it took behind the flood
SOCKETS = 10


class Flood:
    """Pauses of one run from many sockets, each as fast as it can be sent, with the answers read."""

    def __init__(self, server: Server, token: str, run: str) -> None:
        self._url = server.url.replace("http", "ws", 1) + "/ws"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._run = run
        self._stop = threading.Event()
        self.answered = 0
        self.refused: list[Any] = []

    @contextmanager
    def going_on(self) -> Iterator[None]:
        thread = threading.Thread(target=lambda: asyncio.run(self._all()))
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(LONG)

    async def _all(self) -> None:
        await asyncio.gather(*(self._one() for _ in range(SOCKETS)))

    async def _one(self) -> None:
        async with connect(self._url, additional_headers=self._headers, ping_timeout=None) as socket:
            sending = asyncio.create_task(self._send(socket))
            try:
                while not self._stop.is_set():
                    self._hear(json.loads(await asyncio.wait_for(socket.recv(), LONG)))
            except ConnectionClosed:
                return  # who does not let the server read is not heard to be alive, and let go
            finally:
                sending.cancel()
                socket.transport.abort()  # what is still to be sent is of no interest

    async def _send(self, socket: Any) -> None:
        for n in count():
            args = {"reason": f"{n} " + "x" * 1_900}
            try:
                await socket.send(json.dumps({"op": "verb", "verb": "pause", "run": self._run, "n": n, "args": args}))
                await asyncio.sleep(0)  # the answers are read too
            except ConnectionClosed:
                return

    def _hear(self, said: Any) -> None:
        if said["op"] == "answer":
            self.answered += 1
            if "problem" in said:
                self.refused.append(said["problem"])


def test_a_flood_of_pauses_delays_nobody_elses_cancel_and_fills_no_disk(server: Server) -> None:
    """R34: a token for the pause of one run, against the stops of everybody else."""
    flooded = server.start("counter", "flooded", to=100_000, seconds=0.05)
    others = [server.start("counter", f"other{n}", to=100_000, seconds=0.05) for n in range(3)]
    grant = {"rights": ["pause"], "run": flooded, "name": "mallory"}
    flood = Flood(server, server.post("/api/tokens", grant, status=201)["secret"], flooded)
    with flood.going_on():
        server.until(flooded, "paused")
        eventually(lambda: flood.answered > 600)
        for other in others:
            began = time.monotonic()
            server.post(f"/api/runs/{other}/cancel")
            assert time.monotonic() - began < SOON
        began = time.monotonic()
        server.post(f"/api/runs/{flooded}/pause", {"reason": "mine too"})
        assert time.monotonic() - began < SOON
    assert not flood.refused  # no stop is refused, not even these
    asked = [event for event in server.events(flooded) if event["type"] == "pause_asked"]
    assert len(asked) <= 10
    assert asked[-1]["reason"] == "mine too"
