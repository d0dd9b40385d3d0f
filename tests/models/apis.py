"""The three APIs and both kinds of clients, so that one promise is tested on all of them.

The SDKs take seconds to import: only whoever makes a client of theirs does so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.providers.server import LoopbackProvider

from standfast.models import Model, anthropic, openai
from standfast.models.anthropic_messages import AnthropicMessages
from standfast.models.openai_chat import OpenAIChat
from standfast.models.openai_responses import OpenAIResponses
from standfast.models.sdk import SdkProvider
from standfast.records import Json
from standfast.replies import (
    Counted,
    Delta,
    Finished,
    Reasoning,
    Request,
    Text,
    ToolCall,
    ToolCallPart,
    ToolSpec,
    Usage,
)

ApiName = Literal["chat", "responses", "anthropic"]
APIS: tuple[ApiName, ...] = ("chat", "responses", "anthropic")

WEATHER = ToolSpec("weather", "The weather of a city.", {"type": "object", "properties": {"city": {"type": "string"}}})


@dataclass
class Api:
    """One API against a server of the test's own."""

    name: ApiName
    server: LoopbackProvider
    clients: list[Any] = field(default_factory=list[Any])

    def client(self, *, sync: bool = False, **more: Any) -> Any:
        given: dict[str, Any] = {"api_key": "sk-test", **more}
        if self.name == "anthropic":
            from anthropic import Anthropic, AsyncAnthropic  # noqa: PLC0415

            kind: Any = Anthropic if sync else AsyncAnthropic
            given.setdefault("base_url", self.server.anthropic_url)
        else:
            from openai import AsyncOpenAI, OpenAI  # noqa: PLC0415

            kind = OpenAI if sync else AsyncOpenAI
            given.setdefault("base_url", self.server.openai_url)
        client = kind(**given)
        self.clients.append(client)
        return client

    def provider(self, *, client: Any = None, price: Any = None, **options: Any) -> SdkProvider:
        client = client or self.client()
        if self.name == "anthropic":
            return AnthropicMessages("test-model", client=client, price=price, options=options)
        kind = OpenAIChat if self.name == "chat" else OpenAIResponses
        return kind("test-model", client=client, price=price, options=options)

    def model(self, *, client: Any = None, **more: Any) -> Model:
        client = client or self.client()
        if self.name == "anthropic":
            return anthropic("test-model", client, **more)
        return openai("test-model", client, api=self.name, **more)

    async def close(self) -> None:
        for client in self.clients:
            if hasattr(client, "__aenter__"):
                await client.close()
            else:
                client.close()

    # --- messages of the dialect -------------------------------------------------------------------

    def user(self, text: str) -> Json:
        return {"role": "user", "content": text}

    def result(self, call: ToolCall, text: str) -> Json:
        if self.name == "anthropic":
            return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": text}]}
        if self.name == "responses":
            return {"type": "function_call_output", "call_id": call.id, "output": text}
        return {"role": "tool", "tool_call_id": call.id, "content": text}


@dataclass
class Heard:
    """A whole stream."""

    deltas: list[Delta]

    def _texts(self, kind: type[Text] | type[Reasoning]) -> list[str]:
        return [delta.text for delta in self.deltas if isinstance(delta, kind)]

    @property
    def text(self) -> str:
        return "".join(self._texts(Text))

    @property
    def tokens(self) -> list[str]:
        return self._texts(Text)

    @property
    def reasoning(self) -> str:
        return "".join(self._texts(Reasoning))

    @property
    def calls(self) -> list[ToolCall]:
        calls: dict[int, ToolCall] = {}
        for part in self.deltas:
            if isinstance(part, ToolCallPart):
                old = calls.get(part.index, ToolCall("", "", ""))
                calls[part.index] = ToolCall(old.id + part.id, old.name + part.name, old.arguments + part.arguments)
        return [calls[index] for index in sorted(calls)]

    @property
    def usage(self) -> Usage:
        return [delta.usage for delta in self.deltas if isinstance(delta, Counted)][-1]

    @property
    def finished(self) -> Finished:
        [finished] = [delta for delta in self.deltas if isinstance(delta, Finished)]
        assert self.deltas[-1] is finished
        return finished


async def hear(provider: SdkProvider, *messages: Json, **more: Any) -> Heard:
    """Everything a provider says to these messages."""
    async with provider.stream(Request(messages, **more)) as deltas:
        return Heard([delta async for delta in deltas])


class Reading:
    """A stream that is being read in a task of its own, so that it can be cancelled."""

    def __init__(self, provider: SdkProvider, *messages: Json) -> None:
        self.deltas: list[Delta] = []
        self.task = asyncio.create_task(self._read(provider, messages))

    async def _read(self, provider: SdkProvider, messages: tuple[Json, ...]) -> None:
        async with provider.stream(Request(messages)) as deltas:
            async for delta in deltas:
                self.deltas.append(delta)

    async def cancel(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task], timeout=30)
        assert self.task.cancelled()


@contextmanager
def an_api(name: ApiName) -> Iterator[Api]:
    with LoopbackProvider() as server:
        yield Api(name, server)
