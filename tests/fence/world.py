"""What the tests of the fence share: a provider on the loopback, and agents that ask it without run.call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from tests.helpers import eventually
from tests.providers.server import Exchange, LoopbackProvider

from standfast import Agent, Done, Handle, Run, Runtime, Tool, agent, fence
from standfast.events import Event, TextDelta

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
CHAT = "/v1/chat/completions"


class Nothing(BaseModel):
    """The state of agents that need none."""


class Words(BaseModel):
    """What the model has said so far."""

    said: list[str] = []


def openai_client(server: LoopbackProvider, **more: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.openai_url, api_key="test", http_client=fence.http_client(), **more)


def sync_client(server: LoopbackProvider, **more: Any) -> OpenAI:
    return OpenAI(base_url=server.openai_url, api_key="test", http_client=fence.sync_http_client(), **more)


def anthropic_client(server: LoopbackProvider, **more: Any) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.anthropic_url, api_key="test", http_client=fence.http_client(), **more)


async def streamed(client: AsyncOpenAI) -> str:
    """An ordinary streaming loop, as in everybody's program."""
    text = ""
    stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
    async with stream:
        async for piece in stream:
            text += (piece.choices[0].delta.content or "") if piece.choices else ""
    return text


async def whole(client: AsyncOpenAI) -> str:
    answer = await client.chat.completions.create(model="m", messages=HELLO)
    return answer.choices[0].message.content or ""


async def anthropic_streamed(client: AsyncAnthropic) -> str:
    text = ""
    async with client.messages.stream(model="m", max_tokens=100, messages=HELLO) as stream:
        async for piece in stream.text_stream:
            text += piece
    return text


def own_loop(ask: Callable[[], Awaitable[str]], turns: int = 1, name: str = "own") -> Agent[Words, list[str]]:
    """An agent whose step asks the model by itself, without run.call."""

    @agent(name)
    async def own(run: Run[Words]) -> Done[list[str]] | None:
        run.state.said.append(await ask())
        return Done(run.state.said) if len(run.state.said) == turns else None

    return own


@asynccontextmanager
async def one_call_of(tool: Tool[..., str]) -> AsyncIterator[Handle[str]]:
    """A run that calls this tool once, and is done with what it says."""

    @agent("caller")
    async def caller(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(tool()))

    async with Runtime(":memory:", agents=[caller]) as runs:
        yield await runs.start(caller, Nothing())


async def asked(server: LoopbackProvider, n: int = 1) -> Exchange:
    """The n-th request, once the server has it."""
    await eventually(lambda: len(server.exchanges) >= n)
    return server.exchanges[n - 1]


async def gone(exchange: Exchange) -> float:
    """When the server saw the client leave in mid-answer."""
    at: float = await eventually(lambda: exchange.gone_at)
    return at


async def recorded(run: Handle[Any]) -> list[Event]:
    """The record of a run that has ended."""
    return [e async for e in run.events() if not isinstance(e, TextDelta)]
