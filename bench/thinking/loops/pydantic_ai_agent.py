"""Pydantic AI's agent, streaming; it keeps nothing on disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits


async def look(n: int) -> str:
    """Look something up."""
    return f"result {n}"


async def _listen(_: Any, events: AsyncIterable[Any]) -> None:
    """Asks for a stream; `run_stream` would take the first text for the answer."""
    async for _event in events:
        pass


def turns(url: str, path: str, n: int) -> float:
    del path

    async def loop() -> float:
        async with AsyncOpenAI(base_url=url, api_key="bench") as client:
            model = OpenAIChatModel(f"turns-{n}", provider=OpenAIProvider(openai_client=client))
            agent = Agent(model, tools=[look])
            start = time.perf_counter()
            limits = UsageLimits(request_limit=None)
            await agent.run("Look often.", usage_limits=limits, event_stream_handler=_listen)
            return (time.perf_counter() - start) / n

    return asyncio.run(loop())
