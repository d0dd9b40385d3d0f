"""The same promises over streamable HTTP, with a real server process on loopback (R6, R35, R36)."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.adapters.mcp.world import SERVERS, Zoo, caller, todo
from tests.helpers import eventually, held

from standfast import Runtime, ToolServerFailed, events
from standfast.adapters import mcp


class Site:
    """The zoo's server behind a port; it can be killed and started again."""

    def __init__(self, zoo: Zoo) -> None:
        self.zoo = zoo
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        argv = [sys.executable, str(SERVERS / "sdk.py"), str(self.zoo.folder), "http", str(self.port)]
        self._process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await eventually(self._listens, timeout=120)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the server has ended"
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@pytest.fixture
async def site(zoo: Zoo) -> AsyncIterator[Site]:
    site = Site(zoo)
    try:
        await site.start()
        yield site
    finally:
        site.kill()


async def test_tools_over_http_are_tools(site: Site) -> None:
    async with mcp.http(site.url, headers={"x-test": "1"}) as server:
        assert server.pid is None
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(
                one, todo(("add", {"a": 1, "b": 2}), ("count", {"upto": 3}), ("fail", {"text": "no"}))
            )
            answers = await run.result()
            seen = [e.fraction async for e in run.events() if isinstance(e, events.CallProgress)]
    assert answers[:2] == [3, "counted"]
    assert answers[2].startswith("ToolError: ")
    assert seen == [1 / 3, 2 / 3, 1.0]


async def test_pause_reaches_a_server_over_http(site: Site) -> None:
    async with mcp.http(site.url) as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("slow_read", {"seconds": 60})))
            await site.zoo.logged("slow_read began")
            assert await run.pause()
            await held(run, "user")
            await site.zoo.logged("slow_read was cancelled")
            assert await run.cancel()


async def test_a_cut_write_over_http_is_in_doubt(site: Site) -> None:
    async with mcp.http(site.url) as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("slow_write", {"seconds": 60})))
            await site.zoo.logged("slow_write began")
            assert await run.cancel()
            receipt = await run.settled()
            assert [one.outcome for one in receipt.in_flight] == ["in_doubt"]
            await site.zoo.logged("slow_write was cancelled")


async def test_a_server_that_was_started_anew_gets_the_call_in_a_new_session(site: Site) -> None:
    async with mcp.http(site.url) as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            assert await (await runs.start(one, todo(("note", {"text": "a"})))).result() == ["noted"]
            site.kill()
            await site.start()

            async def again() -> Any:
                return (await (await runs.start(one, todo(("note", {"text": "b"})))).result())[0]

            # the first call may meet the dead connection; whatever it says, it says truly
            answers = [await again(), await again()]
            assert answers[1] == "noted"
            assert site.zoo.log().count("note b") >= answers.count("noted")


async def test_a_server_that_dies_in_mid_call_fails_the_call_and_is_found_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.adapters.mcp.connection.HEARTBEAT", 0.5)
    async with mcp.http(site.url, start_timeout=120) as server:
        one = caller(server)
        async with Runtime(":memory:", agents=[one]) as runs:
            run = await runs.start(one, todo(("slow_write", {"seconds": 60}), ("add", {"a": 1, "b": 2})))
            await site.zoo.logged("slow_write began")
            site.kill()
            await eventually(lambda: _answered(run))
            await site.start()
            first = (await run.state()).answers[0]
            assert first.startswith("ToolServerFailed: ")
            second = await runs.start(one, todo(("add", {"a": 1, "b": 2})))
            answer = (await second.result())[0]
            if answer != 3:  # it was asked while the connection was found to be dead
                third = await runs.start(one, todo(("add", {"a": 1, "b": 2})))
                assert (await third.result())[0] == 3
    assert site.zoo.log().count("slow_write began") == 1


async def _answered(run: Any) -> bool:
    return len((await run.state()).answers) >= 1


async def test_nobody_at_the_address_is_a_clear_error(zoo: Zoo) -> None:
    site = Site(zoo)
    with pytest.raises(ToolServerFailed, match=r"127\.0\.0\.1"):
        async with mcp.http(site.url, start_timeout=120):
            pass


async def test_an_address_that_is_no_mcp_server_is_a_clear_error(zoo: Zoo) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\nconnection: close\r\n\r\nhey!"
        )
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    page = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = page.sockets[0].getsockname()[1]
    async with page:
        with pytest.raises(ToolServerFailed, match="cannot be used"):
            async with mcp.http(f"http://127.0.0.1:{port}/mcp", start_timeout=120):
                pass
