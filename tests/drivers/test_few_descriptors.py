"""A process without file descriptors left still stops its runs (R34)."""

from __future__ import annotations

import asyncio
import asyncio.constants
import contextlib
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.helpers import eventually
from tests.server.serving import Server
from tests.server.serving import eventually as eventually_seen

from standfast import Accepted, Done, Performed, Run, Runtime, agent, tool
from standfast.descriptors import Descriptors
from standfast.leases import Lease, proven_dead
from standfast.server.connections import Idle

undone: list[str] = []
begun: list[str] = []


async def take_back(call: Performed[None, None]) -> None:
    undone.append(call.key)


@tool(effect="write", undo=take_back)
async def order() -> None:
    """Takes long."""
    begun.append("order")
    await asyncio.sleep(3600)


@tool(effect="read")
def watch() -> None:
    """Takes long, in a thread."""
    begun.append("watch")
    while True:
        time.sleep(0.01)


@agent("buyer")
async def buyer(run: Run[dict[str, str]]) -> Done[int]:
    await run.call(order() if run.state["how"] == "order" else watch())
    return Done(1)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Every one that this process may have is in use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 256), hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


@pytest.mark.parametrize("how", ["order", "watch"])
async def test_a_cancel_is_accepted_and_settles_without_a_descriptor(tmp_path: Path, how: str) -> None:
    begun.clear()
    undone.clear()
    async with Runtime(tmp_path / "runs.db", [buyer]) as runs:
        run = await runs.start(buyer, {"how": how})
        await eventually(lambda: begun)
        with no_descriptors():
            answer = await run.cancel()
            assert isinstance(answer, Accepted)
            receipt = await run.settled(timeout=120)
        assert receipt.status == "cancelled"
        assert len(undone) == (how == "order")


def test_a_process_that_cannot_be_looked_at_is_not_taken_for_dead() -> None:
    """Whoever has no descriptor left to look into /proc knows nothing of others, and takes no run from them."""
    mine = Lease("me", []).row
    assert not proven_dead(mine)
    with no_descriptors():
        assert not proven_dead(mine)
        unknown = Lease("me", []).row
    assert not proven_dead(unknown)


# --- a server ------------------------------------------------------------------------------------------------


class Flood:
    """Connections that ask nothing, opened again as soon as they are closed."""

    def __init__(self, address: tuple[str, int | None], many: int) -> None:
        self._address = address
        self._many = many
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._keep_coming, daemon=True)

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _keep_coming(self) -> None:
        there: list[socket.socket] = []
        while not self._ends.is_set():
            try:
                there.append(socket.create_connection(self._address, 1))
            except OSError:
                self._ends.wait(0.05)
            if len(there) > self._many:
                there.pop(0).close()
        for one in there:
            one.close()


@pytest.mark.more
def test_a_flood_that_uses_up_a_servers_descriptors_does_not_keep_out_a_stop(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        server.ready()
        runs = [server.start("counter", f"run{n}", to=100_000, seconds=0.2) for n in range(4)]
        server.http.close()
        pid = server.process.pid
        used = len([*Path(f"/proc/{pid}/fd").iterdir()])
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 8, used + 8))
        with Flood((server.http.base_url.host, server.http.base_url.port), 100):
            eventually_seen(lambda: "accept" in server.log.read_text())
            for run in runs:
                eventually_seen(lambda: stopped(server, run))  # noqa: B023 - called at once
        complaints = server.log.read_text().count("accept")
        assert 1 <= complaints <= 3, "the log is not filled with them"
    finally:
        server.close()


def stopped(server: Server, run: str) -> bool:
    """By a connection of its own, which has to get in first; one that is too slow to ask is closed, and tries again."""
    with httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}, timeout=60) as http:
        try:
            return http.post(f"/api/runs/{run}/cancel", json={}).status_code == 200
        except httpx2.TransportError:
            return False


async def test_a_server_that_has_ended_leaves_the_loop_and_asyncio_as_they_were() -> None:
    """R34, for programs that serve for a while and go on."""
    loop = asyncio.get_running_loop()
    heard: list[dict[str, Any]] = []

    def mine(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        heard.append(context)

    loop.set_exception_handler(mine)
    delay = getattr(asyncio.constants, "ACCEPT_RETRY_DELAY")  # noqa: B009 - a constant to checkers
    spare = Descriptors(Idle())
    spare.start(loop)
    loop.call_exception_handler({"message": "something else"})
    assert heard == [{"message": "something else"}], "what is not about accepting is heard by who heard it before"
    spare.close()
    assert loop.get_exception_handler() is mine
    assert getattr(asyncio.constants, "ACCEPT_RETRY_DELAY") == delay  # noqa: B009
