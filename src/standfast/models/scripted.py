"""A model that says what it is told to say: for tests and demos. It thinks nothing."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from pydantic_core import to_json

from standfast.context import ModelContext, current_call, idempotency_key
from standfast.errors import Misuse
from standfast.models.calling import CHARACTERS_A_TOKEN, Messages, Model
from standfast.records import Json
from standfast.replies import (
    Counted,
    Delta,
    Dialect,
    Finished,
    ProviderError,
    Reasoning,
    Request,
    Text,
    ToolCallPart,
    Usage,
)

_ASSISTANT = re.compile(rb'"role"\s*:\s*"assistant"')


@dataclass(frozen=True, slots=True)
class Use:
    """The model asks for a tool; `args` is JSON text if it is to be sent as it stands, valid or not."""

    tool: str
    args: Json | str = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Think:
    """The model reasons aloud before it answers."""

    text: str


def use(tool: str, /, **args: Any) -> Use:
    """Ask for a tool: `use("search", query="...")`."""
    return Use(tool, args)


Part: TypeAlias = str | Use | Think
Line: TypeAlias = "Part | Sequence[Part] | Exception | Callable[[Request], Part | Sequence[Part]]"
"""One reply: text, a tool call, several of them, an error, or a function of the request that gives such a thing."""


class ScriptedProvider:
    """Gives the n-th line as the n-th message of the assistant, however often it is asked for it."""

    dialect: Dialect = "openai-chat"

    def __init__(
        self, lines: Sequence[Line], *, name: str = "scripted", delay: float = 0.0, again: bool = False
    ) -> None:
        self.name = name
        self.requests: list[Request] = []
        """What it was asked, in order."""
        self._lines = lines
        self._delay = delay
        self._again = again
        self._given: Counter[str] = Counter()  # whole replies, by run

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Delta], None]:
        self.requests.append(request)
        deltas = self._deltas(request)
        try:
            yield deltas
        finally:
            await deltas.aclose()

    async def _deltas(self, request: Request) -> AsyncGenerator[Delta, None]:
        parts = self._parts(request)
        characters = 0
        for index, part in enumerate(parts):
            async for delta, length in self._said(index, part):
                characters += length
                yield delta
        asked = sum(map(len, request.messages.raw())) if isinstance(request.messages, Messages) else 0
        yield Counted(Usage(asked // CHARACTERS_A_TOKEN, max(1, characters // CHARACTERS_A_TOKEN)))
        yield Finished(_message(parts), "tool_calls" if any(isinstance(p, Use) for p in parts) else "stop")
        self._given[_conversation()] += 1

    async def _said(self, index: int, part: Part) -> AsyncIterator[tuple[Delta, int]]:
        if isinstance(part, Use):
            arguments = _arguments(part)
            yield ToolCallPart(index, _call_id(index), part.tool, arguments), len(arguments)
            return
        kind = Text if isinstance(part, str) else Reasoning
        text = part if isinstance(part, str) else part.text
        for word in re.findall(r"\s*\S+\s*", text) or [text]:
            if self._delay:
                await asyncio.sleep(self._delay)
            yield kind(word), len(word)

    def _parts(self, request: Request) -> Sequence[Part]:
        line: Any = self._line(request)
        if isinstance(line, Exception):
            raise line
        if callable(line):
            line = line(request)
        return [line] if isinstance(line, str | Use | Think) else cast("Sequence[Part]", line)

    def _line(self, request: Request) -> Line:
        at = _replies_in(request.messages) or self._given[_conversation()]
        if at < len(self._lines):
            return self._lines[at]
        if self._again and self._lines:
            return self._lines[at % len(self._lines)]
        raise ProviderError(
            f"the script of {self.name} has {len(self._lines)} lines, and a line {at + 1} was asked for",
            trouble="refused",
            hint="add a line, or say again=True",
        )


class ScriptedModel(Model):
    """A model that says what it is told to say, and remembers what it was asked."""

    def __init__(self, provider: ScriptedProvider, *, retries: int) -> None:
        super().__init__(provider, retries=retries)
        self.requests = provider.requests
        """What it was asked, in order."""


def script(lines: tuple[Any, ...]) -> Sequence[Line]:
    """The lines of a script: given one by one, or as one list."""
    given = cast("Sequence[Any]", lines[0] if len(lines) == 1 and isinstance(lines[0], list) else lines)
    for line in given:
        for part in cast("Sequence[Any]", line if isinstance(line, list | tuple) else [line]):
            if not isinstance(part, str | Use | Think | Exception) and not callable(part):
                raise Misuse(f"{part!r} is no line of a script", hint='give text, use("tool", ...), or a function')
    return given


def _replies_in(messages: Sequence[Json]) -> int:
    """How many messages of the log are the assistant's, without reading them as JSON where that can be helped."""
    if isinstance(messages, Messages):
        return sum(1 for row in messages.raw() if _ASSISTANT.search(row))
    return sum(1 for message in messages if message.get("role") == "assistant")


def _conversation() -> str:
    context = current_call.get()
    return cast("ModelContext", context).run_id if context is not None else ""


def _message(parts: Sequence[Part]) -> Json:
    text = "".join(part for part in parts if isinstance(part, str))
    calls: list[Any] = [
        {"id": _call_id(index), "type": "function", "function": {"name": part.tool, "arguments": _arguments(part)}}
        for index, part in enumerate(parts)
        if isinstance(part, Use)
    ]
    return {"role": "assistant", "content": text or (None if calls else ""), **({"tool_calls": calls} if calls else {})}


def _arguments(part: Use) -> str:
    return part.args if isinstance(part.args, str) else to_json(part.args).decode()


def _call_id(index: int) -> str:
    """The same when the reply is asked for again; another one in every reply."""
    return f"call-{idempotency_key().rpartition('-')[2][:12]}-{index}"
