"""The OpenAI SDK in a loop, and nothing else: not durable, cannot be interrupted."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from openai import AsyncOpenAI

TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Look something up.",
            "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        },
    }
]


async def look(n: int) -> str:
    return f"result {n}"


async def reply(client: AsyncOpenAI, model: str, messages: list[Any], tools: list[Any]) -> Any:
    """One streamed reply, put together."""
    text, calls = "", dict[int, Any]()
    stream = await client.chat.completions.create(model=model, messages=messages, tools=tools, stream=True)
    async with stream:
        async for chunk in stream:
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                    call["id"] = call["id"] or part.id
                    if part.function is not None:
                        call["name"] += part.function.name or ""
                        call["arguments"] += part.function.arguments or ""
    asked = [
        {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
        for c in calls.values()
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": asked} if asked else {})}


def turns(url: str, path: str, n: int) -> float:
    del path

    async def loop() -> float:
        messages: list[Any] = [{"role": "user", "content": "Look often."}]
        async with AsyncOpenAI(base_url=url, api_key="bench") as client:
            start = time.perf_counter()
            while True:
                message = await reply(client, f"turns-{n}", messages, TOOLS)
                messages.append(message)
                if not message.get("tool_calls"):
                    return (time.perf_counter() - start) / n
                for call in message["tool_calls"]:
                    content = await look(**json.loads(call["function"]["arguments"]))
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})

    return asyncio.run(loop())


def stream_seconds(url: str, path: str, tokens: int) -> float:
    """Seconds until so many tokens have come."""
    del path

    async def listen() -> float:
        async with AsyncOpenAI(base_url=url, api_key="bench") as client:
            await reply(client, "stream-10", [{"role": "user", "content": "Go."}], TOOLS)
            start = time.perf_counter()
            await reply(client, f"stream-{tokens}", [{"role": "user", "content": "Go."}], TOOLS)
            return time.perf_counter() - start

    return asyncio.run(listen())
