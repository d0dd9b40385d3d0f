"""standfast.fence.openai and .anthropic: a client like the given one, behind the fence."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAI
from tests.fence.world import (
    HELLO,
    Words,
    anthropic_streamed,
    asked,
    gone,
    one_call_of,
    own_loop,
    recorded,
    streamed,
    whole,
)
from tests.helpers import held
from tests.providers.scenes import goes_silent, says
from tests.providers.server import LoopbackProvider

from standfast import Misuse, Runtime, fence, tool
from standfast.events import CallStarted


async def is_cut_and_goes_on(server: LoopbackProvider, ask: Callable[[], Awaitable[str]]) -> None:
    server.will(goes_silent("x"), says("yes"))
    async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
        run = await r.start(a, Words())
        exchange = await asked(server)
        assert await run.pause()
        await held(run, "user")
        await gone(exchange)
        assert await run.resume()
        assert await run.result(timeout=120) == ["yes"]
        assert len([e for e in await recorded(run) if isinstance(e, CallStarted)]) == 2


async def test_a_wrapped_openai_client_is_cut_and_goes_on(server: LoopbackProvider) -> None:
    async with fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test")) as client:
        await is_cut_and_goes_on(server, lambda: streamed(client))


async def test_a_wrapped_anthropic_client_is_cut_and_goes_on(server: LoopbackProvider) -> None:
    async with fence.anthropic(AsyncAnthropic(base_url=server.anthropic_url, api_key="test")) as client:
        await is_cut_and_goes_on(server, lambda: anthropic_streamed(client))


@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_a_wrapped_sync_client_is_cut(server: LoopbackProvider, sdk: str) -> None:
    server.will(goes_silent("x"))
    client: Any
    if sdk == "openai":
        client = fence.openai(OpenAI(base_url=server.openai_url, api_key="test"))
        ask: Callable[[], Any] = lambda: client.chat.completions.create(model="m", messages=HELLO)  # noqa: E731
    else:
        client = fence.anthropic(Anthropic(base_url=server.anthropic_url, api_key="test"))
        ask = lambda: client.messages.create(model="m", max_tokens=5, messages=HELLO)  # noqa: E731

    @tool(effect="read")
    def think() -> str:
        return str(ask())

    with client:
        async with one_call_of(think) as run:
            exchange = await asked(server)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            await gone(exchange)
    assert [f.outcome for f in receipt.in_flight] == ["aborted"]
    assert receipt.residue == ()


async def test_the_given_client_stays_as_it_is(server: LoopbackProvider) -> None:
    """Its settings go into the new one; it itself still works outside runs, and closes when it is closed."""
    server.will(says("unfenced"))
    async with AsyncOpenAI(
        base_url=server.openai_url,
        api_key="key-1",
        max_retries=7,
        timeout=12.5,
        organization="org",
        default_headers={"x": "y"},
    ) as plain:
        fenced = fence.openai(plain)
        assert type(fenced) is AsyncOpenAI
        assert str(fenced.base_url) == str(plain.base_url)
        assert (fenced.api_key, fenced.max_retries, fenced.timeout) == ("key-1", 7, 12.5)
        assert fenced.organization == "org"
        assert fenced.default_headers["x"] == "y"
        assert await whole(plain) == "unfenced"
        with pytest.raises(fence.RequestRefused):
            await whole(fenced)
    assert len(server.exchanges) == 1


async def test_a_client_that_only_the_fence_knows_stays_open(server: LoopbackProvider) -> None:
    """The SDK's http clients close themselves when they are freed: not while the fence stands on them."""
    server.will(says("a", "b", "c", every=0.1))
    client = fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test"))
    gc.collect()
    await asyncio.sleep(0)
    async with client, Runtime(":memory:", agents=[a := own_loop(lambda: streamed(client))]) as r:
        run = await r.start(a, Words())
        await asked(server)
        other = client.with_options(timeout=3)  # shares the http client, and is freed before it
        del other
        gc.collect()
        assert await run.result(timeout=120) == ["abc"]


async def test_a_fenced_client_that_is_freed_leaves_the_given_one_open(server: LoopbackProvider) -> None:
    server.will(says("a", "b", "c", every=0.1))
    async with AsyncOpenAI(base_url=server.openai_url, api_key="test") as plain:
        fenced: list[AsyncOpenAI] = [fence.openai(plain)]
        reading = asyncio.create_task(streamed(plain))
        await asked(server)
        fenced.clear()
        gc.collect()
        assert await reading == "abc"


async def test_transports_mounts_and_hooks_of_the_http_client_are_kept(server: LoopbackProvider) -> None:
    seen: list[str] = []

    class Counting(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            seen.append("transport")
            return await super().handle_async_request(request)

    class Mounted(Counting):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            seen.append("mount")
            return await super().handle_async_request(request)

    async def hook(request: httpx2.Request) -> None:
        seen.append("hook")

    server.will(says("one"), says("two"))
    http = DefaultAsyncHttpxClient(
        transport=Counting(), mounts={"http://localhost": Mounted()}, event_hooks={"request": [hook]}
    )
    client = fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test", http_client=http))
    mounted = client.with_options(base_url=f"http://localhost:{server.port}/v1")

    async def ask() -> str:
        return await whole(client) + await whole(mounted)

    async with client, Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
        run = await r.start(a, Words())
        assert await run.result(timeout=120) == ["onetwo"]
        started = [e.tool for e in await recorded(run) if isinstance(e, CallStarted)]
    assert seen == ["hook", "transport", "hook", "mount", "transport"]
    assert started == [f"http POST {host}:{server.port}/v1/chat/completions" for host in ("127.0.0.1", "localhost")]


async def test_twice_fenced_is_one_call(server: LoopbackProvider) -> None:
    server.will(says("yes"))
    client = fence.openai(fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test")))
    async with client, Runtime(":memory:", agents=[a := own_loop(lambda: whole(client))]) as r:
        run = await r.start(a, Words())
        assert await run.result(timeout=120) == ["yes"]
        assert (await run.view()).spent.calls == 1


async def test_settings_of_an_http_client_are_the_librarys_own(server: LoopbackProvider) -> None:
    server.will(says("yes"))
    async with fence.http_client(headers={"x-mine": "1"}, timeout=7.0) as http:
        assert isinstance(http, httpx2.AsyncClient)
        client = AsyncOpenAI(base_url=server.openai_url, api_key="test", http_client=http)
        assert client.timeout == httpx2.Timeout(7.0)
        async with Runtime(":memory:", agents=[a := own_loop(lambda: whole(client))]) as r:
            run = await r.start(a, Words())
            assert await run.result(timeout=120) == ["yes"]
    assert server.last.headers["x-mine"] == "1"


def test_something_else_than_a_client_is_misuse() -> None:
    with pytest.raises(Misuse, match="the fence was given"):
        fence.openai("sk-key")
