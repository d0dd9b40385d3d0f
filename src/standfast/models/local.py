"""A real small model in this process: no server, no key, no network. Too small to judge agents by, but true tokens."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from standfast import arguments
from standfast.errors import Misuse
from standfast.models import llama, weights
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

DEFAULT_NAME = "SmolLM2-135M-Instruct"


class LocalProvider:
    """Answers from weights on disk, the same to the same question; a reader who leaves stops it within a moment.

    Providers of the same weights share one model in memory; it answers one request at a time. It is loaded
    when it is asked for the first time, so a missing file is told then, as ProviderError.
    """

    dialect: Dialect = "openai-chat"

    def __init__(
        self,
        path: str | PathLike[str] | None = None,
        *,
        context: int = 4096,
        max_tokens: int = 512,
        temperature: float = 0.0,
        threads: int = 1,
    ) -> None:
        for word, value in (("context", context), ("max_tokens", max_tokens), ("threads", threads)):
            if arguments.whole(word, value, "give a whole number of at least 1") < 1:
                raise Misuse(f"{word}={value} makes no sense", hint="give a whole number of at least 1")
        self._path = Path(path).expanduser().absolute() if path is not None else None
        self._context = context
        self._threads = threads
        self._defaults: Json = {"max_tokens": max_tokens, "temperature": temperature}
        self.name = weights.model_name(self._path) if self._path is not None else DEFAULT_NAME

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Delta], None]:
        """The answer as it comes. On the way out it is stopped, and has stopped when this returns."""
        generation = llama.Generation(self._body(request))
        llama.ask((weights.find(self._path).resolve(), self._context, self._threads), generation)
        deltas = self._deltas(generation)
        try:
            yield deltas
        finally:
            generation.stop()
            await deltas.aclose()
            await generation.ended.wait()

    def _body(self, request: Request) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        tools = [
            {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
            for t in request.tools
        ]
        return {
            **self._defaults,
            "cache_prompt": False,  # or an answer would depend on what was asked before
            **request.options,
            **({"tools": tools} if tools else {}),
            "messages": [*system, *request.messages],
            "n": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,  # llama.cpp looks whether to stop whenever it says something: also in the prompt
            "timings_per_token": True,
        }

    async def _deltas(self, generation: llama.Generation) -> AsyncGenerator[Delta, None]:
        answer = _Answer(self.name, self._context)
        async with aclosing(generation.chunks()) as chunks:
            async for chunk in chunks:
                for delta in answer.take(chunk):
                    yield delta
        yield answer.finished()


class _Answer:
    """Chunks of the chat completion protocol, turned into deltas."""

    def __init__(self, name: str, context: int) -> None:
        self._name = name
        self._context = context
        self._text: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._stop = ""

    def take(self, chunk: dict[str, Any]) -> list[Delta]:
        if "error" in chunk:
            raise self._error(chunk["error"])
        deltas: list[Delta] = []
        for choice in chunk.get("choices", ()):
            self._stop = choice.get("finish_reason") or self._stop
            deltas += self._said(choice.get("delta") or {})
        usage = _usage(chunk)
        if usage is not None:
            deltas.append(Counted(usage))
        return deltas

    def _said(self, delta: dict[str, Any]) -> list[Delta]:
        said: list[Delta] = []
        if delta.get("reasoning_content"):
            said.append(Reasoning(delta["reasoning_content"]))
        if delta.get("content"):
            self._text.append(delta["content"])
            said.append(Text(delta["content"]))
        for part in delta.get("tool_calls") or ():
            said.append(self._part(part))
        return said

    def _part(self, part: dict[str, Any]) -> ToolCallPart:
        index = int(part.get("index", 0))
        function: dict[str, Any] = part.get("function") or {}
        name, arguments = str(function.get("name") or ""), str(function.get("arguments") or "")
        call = self._calls.get(index)
        id_ = ""
        if call is None:
            id_ = str(part.get("id") or f"call_{uuid.uuid4().hex}")
            call = self._calls[index] = {"id": id_, "name": name, "arguments": ""}
        call["arguments"] += arguments
        return ToolCallPart(index, id_, name, arguments)

    def finished(self) -> Finished:
        """The whole answer; ProviderError if it broke off."""
        if not self._stop:
            raise ProviderError(
                f"{self._name} fell silent in the middle of its answer",
                trouble="connection",
                hint="what came is kept in the transcript; resume asks again",
            )
        calls: list[JsonValue] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for _, c in sorted(self._calls.items())
        ]
        message: Json = {"role": "assistant", "content": "".join(self._text)}
        if calls:
            message["tool_calls"] = calls
        return Finished(message, self._stop)

    def _error(self, error: dict[str, Any]) -> ProviderError:
        status = error.get("code")
        hint = ""
        if error.get("type") == "exceed_context_size_error":
            hint = (
                f"the conversation has {error.get('n_prompt_tokens')} tokens and the model room for "
                f"{error.get('n_ctx')}: shorten it, or give models.local(context=...) more than {self._context}"
            )
        return ProviderError(
            f"{self._name} refused: {error.get('message')}",
            trouble="refused",
            status=status if isinstance(status, int) else None,
            hint=hint,
        )


def _usage(chunk: dict[str, Any]) -> Usage | None:
    """Tokens so far, as llama.cpp counts them: those of the prompt while it reads, then those it has said."""
    if usage := chunk.get("usage"):
        return Usage(usage["prompt_tokens"], usage["completion_tokens"])
    if progress := chunk.get("prompt_progress"):
        return Usage(progress["processed"], 0)
    if timings := chunk.get("timings"):
        return Usage(timings["cache_n"] + timings["prompt_n"], timings["predicted_n"])
    return None
