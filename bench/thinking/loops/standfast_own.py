"""standfast, one's own loop: `m(log, tools=[...])` and `run.use_tools` in a step, durable."""

from __future__ import annotations

import asyncio
import time

from openai import AsyncOpenAI
from pydantic import BaseModel, Field

from standfast import Budget, Done, Json, Log, Run, Runtime, agent, models, tool


class Chat(BaseModel):
    log: Log[Json] = Field(default_factory=Log[Json])


@tool(effect="read")
async def look(n: int) -> str:
    """Look something up."""
    return f"result {n}"


def turns(url: str, path: str, n: int) -> float:
    async def loop() -> float:
        async with AsyncOpenAI(base_url=url, api_key="bench") as client:
            model = models.openai(f"turns-{n}", client)

            @agent("own", budget=Budget())
            async def own(run: Run[Chat]) -> Done[str] | None:
                log = run.state.log
                if not len(log):
                    log.append({"role": "user", "content": "Look often."})
                reply = await run.call(model(log, tools=[look]))
                log.append(reply.message)
                log.extend(await run.use_tools(reply, [look]))
                return None if reply.tool_calls else Done(reply.text)

            async with Runtime(path, agents=[own]) as runs:
                start = time.perf_counter()
                await (await runs.start(own, Chat())).result()
                return (time.perf_counter() - start) / n

    return asyncio.run(loop())


def stream_seconds(url: str, path: str, tokens: int) -> float:
    """Seconds until so many tokens have come, measured around the call."""

    async def listen() -> float:
        async with AsyncOpenAI(base_url=url, api_key="bench") as client:
            taken: list[float] = []

            @agent("listener", budget=Budget())
            async def listener(run: Run[Chat]) -> Done[None]:
                await run.call(models.openai("stream-10", client)("Go.", tools=[look]))
                start = time.perf_counter()
                await run.call(models.openai(f"stream-{tokens}", client)("Go.", tools=[look]))
                taken.append(time.perf_counter() - start)
                return Done(None)

            async with Runtime(path, agents=[listener]) as runs:
                await (await runs.start(listener, Chat())).result()
            return taken[0]

    return asyncio.run(listen())
