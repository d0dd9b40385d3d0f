"""R36: agents of foreign frameworks, sub-agents included, inside one step: all of them stop at the fence.

They live apart (`make test-all`): each is skipped where its framework is not installed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openai import AsyncOpenAI
from tests.fence.world import HELLO, Words, asked, gone, own_loop, recorded
from tests.helpers import eventually, held
from tests.providers.scenes import goes_silent, says, use, uses
from tests.providers.server import LoopbackProvider

from standfast import Accepted, Runtime, fence
from standfast.events import CallStarted

Ask = Callable[[], Awaitable[str]]
LIMIT = 120.0  # seconds; only a hang gets there


async def is_stopped_in_its_sub_agent(server: LoopbackProvider, ask: Ask, argument: str = "topic") -> None:
    """The outer agent calls a tool; the tool's own agent is silent; pause, resume, cancel."""
    server.will(uses(use("research", {argument: "x"}, "c1")), goes_silent("inner"))
    server.will(uses(use("research", {argument: "x"}, "c2")), says("inner"), says("outer"))
    server.will(uses(use("research", {argument: "x"}, "c3")), goes_silent("inner"))
    async with Runtime(":memory:", agents=[a := own_loop(ask, turns=2)]) as r:
        run = await r.start(a, Words())
        exchange = await asked(server, 2)
        accepted = await run.pause()
        assert isinstance(accepted, Accepted)
        assert len(accepted.in_flight) == 1
        await held(run, "user")
        await gone(exchange)
        assert len(server.exchanges) == 2
        assert await run.resume()
        exchange = await asked(server, 7)
        assert (await run.state()).said == ["outer"]
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
        await gone(exchange)
        assert [f.outcome for f in receipt.in_flight] == ["aborted"]
        started = [e for e in await recorded(run) if isinstance(e, CallStarted)]
    assert len(server.exchanges) == len(started) == 7
    assert receipt.calls_after_cancel == 0


async def test_pydantic_ai(server: LoopbackProvider) -> None:
    ai: Any = pytest.importorskip("pydantic_ai")
    models: Any = pytest.importorskip("pydantic_ai.models.openai")
    providers: Any = pytest.importorskip("pydantic_ai.providers.openai")
    client = fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test", max_retries=0))
    model = models.OpenAIChatModel("m", provider=providers.OpenAIProvider(openai_client=client))
    outer, inner = ai.Agent(model), ai.Agent(model)

    @outer.tool_plain
    async def research(topic: str) -> str:
        return str((await inner.run(topic)).output)

    async def ask() -> str:
        return str((await outer.run("go")).output)

    async with client:
        await is_stopped_in_its_sub_agent(server, ask)


async def test_openai_agents(server: LoopbackProvider) -> None:
    agents: Any = pytest.importorskip("agents")
    agents.set_tracing_disabled(True)
    client = fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test", max_retries=0))
    model = agents.OpenAIChatCompletionsModel("m", client)
    inner = agents.Agent(name="inner", model=model)
    research = inner.as_tool("research", "finds things out")
    outer = agents.Agent(name="outer", model=model, tools=[research])

    async def ask() -> str:
        return str((await agents.Runner.run(outer, "go")).final_output)

    async with client:
        await is_stopped_in_its_sub_agent(server, ask, "input")


async def test_langgraph(server: LoopbackProvider) -> None:
    chat: Any = pytest.importorskip("langchain_openai")
    agents: Any = pytest.importorskip("langchain.agents")
    tools: Any = pytest.importorskip("langchain_core.tools")
    async with fence.http_client() as http:
        settings: dict[str, Any] = {"base_url": server.openai_url, "api_key": "test", "max_retries": 0}
        model = chat.ChatOpenAI(model="m", http_async_client=http, **settings)

        async def research(topic: str) -> str:
            """Find things out."""
            return str((await model.ainvoke(topic)).content)

        outer = agents.create_agent(model, [tools.tool(research)])

        async def ask() -> str:
            answer = await outer.ainvoke({"messages": [("user", "go")]})
            return str(answer["messages"][-1].content)

        await is_stopped_in_its_sub_agent(server, ask)


class Ticking:
    """A sync tool: it acts until it is unwound."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def research(self, topic: str) -> str:
        """Find things out."""
        self.begun.set()
        try:
            end = time.monotonic() + LIMIT
            while time.monotonic() < end:
                time.sleep(0.002)
        finally:
            self.ended.set()
        return topic


async def is_stopped_in_its_sync_tool(server: LoopbackProvider, ask: Ask, work: Ticking) -> None:
    """R39: the framework runs it in a thread, which has ended when the cancel is settled."""
    server.will(uses(use("research", {"topic": "x"}, "c1")))
    async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
        run = await r.start(a, Words())
        await eventually(work.begun.is_set)
        assert await run.cancel()
        receipt = await run.settled(timeout=LIMIT)
        assert work.ended.is_set()
    assert receipt.residue == ()


async def test_sync_tools_of_pydantic_ai(server: LoopbackProvider) -> None:
    ai: Any = pytest.importorskip("pydantic_ai")
    models: Any = pytest.importorskip("pydantic_ai.models.openai")
    providers: Any = pytest.importorskip("pydantic_ai.providers.openai")
    client = fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test", max_retries=0))
    work = Ticking()
    outer = ai.Agent(
        models.OpenAIChatModel("m", provider=providers.OpenAIProvider(openai_client=client)), tools=[work.research]
    )

    async def ask() -> str:
        return str((await outer.run("go")).output)

    async with client:
        await is_stopped_in_its_sync_tool(server, ask, work)


async def test_sync_tools_of_openai_agents(server: LoopbackProvider) -> None:
    agents: Any = pytest.importorskip("agents")
    agents.set_tracing_disabled(True)
    client = fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test", max_retries=0))
    work = Ticking()
    model = agents.OpenAIChatCompletionsModel("m", client)
    outer = agents.Agent(name="outer", model=model, tools=[agents.function_tool(work.research)])

    async def ask() -> str:
        return str((await agents.Runner.run(outer, "go")).final_output)

    async with client:
        await is_stopped_in_its_sync_tool(server, ask, work)


async def test_sync_tools_of_langgraph(server: LoopbackProvider) -> None:
    chat: Any = pytest.importorskip("langchain_openai")
    agents: Any = pytest.importorskip("langchain.agents")
    tools: Any = pytest.importorskip("langchain_core.tools")
    work = Ticking()
    async with fence.http_client() as http:
        settings: dict[str, Any] = {"base_url": server.openai_url, "api_key": "test", "max_retries": 0}
        model = chat.ChatOpenAI(model="m", http_async_client=http, **settings)
        outer = agents.create_agent(model, [tools.tool(work.research)])

        async def ask() -> str:
            answer = await outer.ainvoke({"messages": [("user", "go")]})
            return str(answer["messages"][-1].content)

        await is_stopped_in_its_sync_tool(server, ask, work)


async def test_the_older_http_library_is_fenced_too(server: LoopbackProvider) -> None:
    httpx = pytest.importorskip("httpx")
    server.will(goes_silent("x"), says("yes"))

    async def ask() -> str:
        body = {"model": "m", "messages": HELLO, "stream": True}
        async with http.stream("POST", f"{server.openai_url}/chat/completions", json=body) as response:
            return "".join([line async for line in response.aiter_lines()])

    async with fence.http_client(library="httpx") as http:
        assert isinstance(http, httpx.AsyncClient)
        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            exchange = await asked(server)
            assert await run.pause()
            await gone(exchange)
            await held(run, "user")
            assert await run.resume()
            assert "[DONE]" in (await run.result(timeout=120))[0]
    with fence.sync_http_client(library="httpx") as sync:
        assert isinstance(sync, httpx.Client)
        with pytest.raises(fence.RequestRefused):
            sync.get(server.openai_url)
