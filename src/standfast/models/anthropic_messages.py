"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import from_json

from standfast.errors import Misuse
from standfast.json_values import not_finite
from standfast.models.sdk import Price, SdkProvider, check_client, readable
from standfast.models.sdk_errors import Sdk
from standfast.records import Json
from standfast.replies import Counted, Delta, Dialect, Finished, Reasoning, Request, Text, ToolCallPart, Usage

MAX_TOKENS = 8192  # the API wants a limit; give max_tokens= for another one
EMPTY = "(empty reply)"  # the API refuses messages without content in a conversation


def anthropic_sdk() -> Sdk:
    """The SDK; Misuse says how to get it."""
    try:
        import anthropic  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise Misuse(
            "models.anthropic needs the anthropic package, which is not here", hint="pip install 'standfast[anthropic]'"
        ) from error
    return Sdk("anthropic", anthropic, anthropic.AnthropicError, "ANTHROPIC_API_KEY")


class AnthropicMessages(SdkProvider):
    """A model behind the messages API. Implements abc.Provider."""

    dialect: Dialect = "anthropic"

    def __init__(
        self, name: str, *, client: Any = None, price: Price | None = None, options: Json | None = None
    ) -> None:
        check_client(client, "messages", "anthropic")
        super().__init__(name, anthropic_sdk(), client, price, options or {})

    def _new_client(self) -> Any:
        return self._sdk.errors.AsyncAnthropic()

    def _create(self, client: Any) -> Any:
        return client.messages.create

    def _defaults(self) -> dict[str, Any]:
        return {"max_tokens": MAX_TOKENS}

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.name, "messages": taking_turns(request.messages), "stream": True}
        if request.system:
            body["system"] = request.system
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                for tool in request.tools
            ]
        return body

    def _reader(self, url: str) -> _MessageReader:  # noqa: ARG002 - its SDK raises what comes as an error
        return _MessageReader(self._usage)


def taking_turns(messages: Sequence[Json]) -> list[Json]:
    """The messages with neighbours of one role made one, and tool results first, as the API wants them."""
    turns: list[Json] = []
    for message in messages:
        if turns and turns[-1]["role"] == message["role"]:
            blocks = [*_blocks(turns[-1]["content"]), *_blocks(message["content"])]
            blocks.sort(key=lambda block: not _is_tool_result(block))  # stable: the order is kept otherwise
            turns[-1] = {**turns[-1], "content": blocks}
        else:
            turns.append(message)
    return turns


def _blocks(content: JsonValue) -> list[JsonValue]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else cast("list[JsonValue]", content)


def _is_tool_result(block: JsonValue) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


class _MessageReader:
    def __init__(self, usage: Callable[[int | None, int | None], Usage]) -> None:
        self.begun = False
        self.ended = False
        self._usage = usage
        self._blocks: dict[int, _Block] = {}
        self._calls: dict[int, int] = {}  # the place of a block: which call it is
        self._given = 0
        self._stop = ""

    def read(self, event: Any) -> Sequence[Delta]:
        self.begun = True
        match event.type:
            case "content_block_delta":
                return self._read_delta(event.index, event.delta)
            case "content_block_start":
                return self._read_start(event.index, event.content_block)
            case "message_start":
                return (self._count(event.message.usage),)
            case "message_delta":
                self._stop = event.delta.stop_reason or ""
                return (self._count(event.usage),) if getattr(event, "usage", None) else ()
            case "message_stop":
                self.ended = True
                return ()
            case _:
                return ()

    def _count(self, usage: Any) -> Counted:
        """Counts are running totals; those of the input come at the start, perhaps again at the end."""
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        self._given = max(self._given, sum(getattr(usage, name, None) or 0 for name in names))
        return Counted(self._usage(self._given, getattr(usage, "output_tokens", None)))

    def _read_start(self, index: int, block: Any) -> Sequence[Delta]:
        self._blocks[index] = _Block(block.to_dict(mode="json"))
        match block.type:
            case "tool_use":
                self._calls[index] = len(self._calls)
                return (ToolCallPart(self._calls[index], block.id, block.name),)
            case "text" if block.text:
                return (Text(block.text),)
            case "thinking" if block.thinking:
                return (Reasoning(block.thinking),)
            case _:
                return ()

    def _read_delta(self, index: int, delta: Any) -> Sequence[Delta]:
        block = self._blocks[index]
        match delta.type:
            case "text_delta":
                block.add("text", delta.text)
                return (Text(readable(delta.text)),) if delta.text else ()
            case "thinking_delta":
                block.add("thinking", delta.thinking)
                return (Reasoning(readable(delta.thinking)),) if delta.thinking else ()
            case "signature_delta":
                block.add("signature", delta.signature)
                return ()
            case "input_json_delta":
                block.add("input", delta.partial_json)
                return (
                    (ToolCallPart(self._calls[index], arguments=readable(delta.partial_json)),)
                    if index in self._calls
                    else ()
                )
            case "citations_delta":
                block.cite(delta.citation.to_dict(mode="json"))
                return ()
            case _:
                return ()

    def finished(self) -> Finished:
        blocks = [self._blocks[index].json() for index in sorted(self._blocks)]
        content = cast("list[JsonValue]", [block for block in blocks if _may_be_sent(block)])
        return Finished({"role": "assistant", "content": content or [{"type": "text", "text": EMPTY}]}, self._stop)


class _Block:
    """A block of content that is coming in."""

    def __init__(self, start: Json) -> None:
        self._start = start
        self._parts: dict[str, list[str]] = {}
        self._cited: list[JsonValue] = []

    def add(self, field: str, text: str) -> None:
        self._parts.setdefault(field, []).append(text)

    def cite(self, citation: Json) -> None:
        self._cited.append(citation)

    def json(self) -> Json:
        block = dict(self._start)
        for field, parts in self._parts.items():
            text = "".join(parts)
            block[field] = _as_object(text) if field == "input" else str(block.get(field) or "") + text
        if self._cited:
            block["citations"] = self._cited
        return block


def _may_be_sent(block: Json) -> bool:
    """The API refuses blank text, and thoughts that were cut off before they were signed."""
    if block.get("type") == "text":
        return bool(str(block.get("text")).strip())
    return block.get("type") != "thinking" or bool(block.get("signature"))


def _as_object(text: str) -> Json:
    """A tool's input for the log. The API takes nothing but objects: other text is kept inside one, as it advises."""
    if not text.strip():
        return {}
    try:
        found: JsonValue = from_json(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) and not_finite(found) is None else {"INVALID_JSON": text}
