"""OpenAI's chat completions, and the many servers that speak them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from standfast.models.openai_sdk import openai_sdk
from standfast.models.sdk import Price, SdkProvider, check_client, readable
from standfast.models.sdk_errors import by_word, told
from standfast.records import Json
from standfast.replies import Counted, Delta, Dialect, Finished, Reasoning, Request, Text, ToolCallPart, Usage


class OpenAIChat(SdkProvider):
    """A model behind the chat completions API. Implements abc.Provider."""

    dialect: Dialect = "openai-chat"
    rest_seconds = 5.0  # the count comes after the end of the answer
    reserved = SdkProvider.reserved | {"n"}

    def __init__(
        self, name: str, *, client: Any = None, price: Price | None = None, options: Json | None = None
    ) -> None:
        check_client(client, "chat", "openai")
        super().__init__(name, openai_sdk(), client, price, options or {})

    def _new_client(self) -> Any:
        return self._sdk.errors.AsyncOpenAI()

    def _create(self, client: Any) -> Any:
        return client.chat.completions.create

    def _body(self, request: Request) -> dict[str, Any]:
        system = [{"role": "system", "content": request.system}] if request.system else []
        body: dict[str, Any] = {
            "model": self.name,
            "messages": [*system, *request.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": tool.schema},
                }
                for tool in request.tools
            ]
        return body

    def _reader(self, url: str) -> _ChatReader:
        def fault(said: str, *words: str | None) -> Exception:
            return told(by_word(*words), said, self._sdk, self.name, url)

        return _ChatReader(self._usage, fault)


class _ChatReader:
    def __init__(self, usage: Callable[[int | None, int | None], Usage], fault: Callable[..., Exception]) -> None:
        self.begun = False
        self.ended = False
        self._usage = usage
        self._fault = fault
        self._text: list[str] = []
        self._calls: dict[int, _Asked] = {}
        self._stop = ""

    def read(self, event: Any) -> Sequence[Delta]:
        found: list[Delta] = []
        self.begun = True
        for choice in event.choices or ():
            self._read_choice(choice, found)
        if getattr(event, "usage", None) is not None:
            found.append(Counted(self._usage(event.usage.prompt_tokens, event.usage.completion_tokens)))
        return found

    def _read_choice(self, choice: Any, found: list[Delta]) -> None:
        delta = choice.delta
        if delta is not None:
            # local servers have two names for what a model thinks aloud
            extra: dict[str, Any] = delta.model_extra or {}
            thought = extra.get("reasoning_content") or extra.get("reasoning")
            if isinstance(thought, str) and thought:
                found.append(Reasoning(readable(thought)))
            text = readable((delta.content or "") + (getattr(delta, "refusal", None) or ""))
            if text:
                self._text.append(text)
                found.append(Text(text))
            for part in getattr(delta, "tool_calls", None) or ():
                found.append(self._read_call(part))
        if reason := getattr(choice, "finish_reason", None):
            if reason == "error":  # how some gateways say that the model behind them has failed
                raise self._fault("the model failed in mid-answer")
            self._stop = reason
            self.ended = True

    def _read_call(self, part: Any) -> ToolCallPart:
        # servers that leave the index out send one whole call at a time
        index = part.index if getattr(part, "index", None) is not None else len(self._calls)
        asked = self._calls.setdefault(index, _Asked())
        function = getattr(part, "function", None)
        first_id = (part.id or "") if not asked.id else ""
        first_name = ((function.name if function else "") or "") if not asked.name else ""
        more = readable((function.arguments if function else "") or "")
        asked.id, asked.name = asked.id or first_id, asked.name or first_name
        asked.arguments.append(more)
        return ToolCallPart(index, first_id, first_name, more)

    def finished(self) -> Finished:
        message: Json = {"role": "assistant", "content": "".join(self._text)}
        if self._calls:
            message["content"] = message["content"] or None
            message["tool_calls"] = [self._calls[index].json() for index in sorted(self._calls)]
        return Finished(message, self._stop)


class _Asked:
    """A tool call that is coming in."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def json(self) -> Json:
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": "".join(self.arguments)},
        }
