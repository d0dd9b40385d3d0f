"""OpenAI's responses.

A reply is kept in a log as one message, `{"object": "response", "output": [...]}`: the part of the API's own
response object that the next request needs. Its items (messages, function calls, reasoning) are laid out
again, in their order, when that request is made. Items that people append themselves go as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from pydantic import JsonValue

from standfast.models.openai_sdk import openai_sdk
from standfast.models.sdk import Price, SdkProvider, check_client, readable
from standfast.models.sdk_errors import by_word, told
from standfast.records import Json
from standfast.replies import Counted, Delta, Dialect, Finished, Reasoning, Request, Text, ToolCallPart, Usage


class OpenAIResponses(SdkProvider):
    """A model behind the responses API. Implements abc.Provider."""

    dialect: Dialect = "openai-responses"
    reserved = SdkProvider.reserved | {"input", "background"}  # in the background it could not be cut

    def __init__(
        self, name: str, *, client: Any = None, price: Price | None = None, options: Json | None = None
    ) -> None:
        check_client(client, "responses", "openai")
        super().__init__(name, openai_sdk(), client, price, options or {})

    def _new_client(self) -> Any:
        return self._sdk.errors.AsyncOpenAI()

    def _create(self, client: Any) -> Any:
        return client.responses.create

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.name, "input": [*laid_out(request.messages)], "stream": True}
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": False,  # a strict schema has rules that ours need not keep
                }
                for tool in request.tools
            ]
        return body

    def _reader(self, url: str) -> _ResponsesReader:
        def fault(said: str, *words: str | None) -> Exception:
            return told(by_word(*words), said, self._sdk, self.name, url)

        return _ResponsesReader(self._usage, fault)


def laid_out(messages: Sequence[Json]) -> Iterator[JsonValue]:
    """The input items of a log's messages."""
    for message in messages:
        if message.get("object") == "response":
            yield from cast("list[JsonValue]", message["output"])
        else:
            yield message


class _ResponsesReader:
    def __init__(self, usage: Callable[[int | None, int | None], Usage], fault: Callable[..., Exception]) -> None:
        self.begun = False
        self.ended = False
        self._usage = usage
        self._fault = fault
        self._items: list[Any] = []
        self._calls: dict[int, int] = {}  # the place of an item in the output: which call it is
        self._streamed: set[int] = set()  # calls whose arguments came in pieces
        self._stop = ""

    def read(self, event: Any) -> Sequence[Delta]:
        self.begun = True
        match event.type:
            case "response.output_text.delta" | "response.refusal.delta":
                return (Text(readable(event.delta)),) if event.delta else ()
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return (Reasoning(readable(event.delta)),) if event.delta else ()
            case "response.reasoning_summary_part.added" if event.summary_index:
                return (Reasoning("\n\n"),)
            case "response.output_item.added" if event.item.type == "function_call":
                call = self._calls[event.output_index] = len(self._calls)
                return (ToolCallPart(call, event.item.call_id, event.item.name),)
            case "response.function_call_arguments.delta":
                call = self._calls[event.output_index]
                self._streamed.add(call)
                return (ToolCallPart(call, arguments=readable(event.delta)),)
            case "response.output_item.done":
                self._items.append(event.item)
                return self._whole_call(event)
            case "response.completed" | "response.incomplete":
                return self._end(event.response)
            case "response.failed":
                error = event.response.error
                raise self._fault(error.message if error else "it failed", error.code if error else None)
            case "error":
                raise self._fault(event.message, event.code)
            case _:
                return ()

    def _whole_call(self, event: Any) -> Sequence[Delta]:
        """A function call whose arguments did not come in pieces."""
        if event.item.type != "function_call" or self._calls.get(event.output_index) in self._streamed:
            return ()
        call = self._calls.get(event.output_index)
        if call is None:
            call = self._calls[event.output_index] = len(self._calls)
            return (ToolCallPart(call, event.item.call_id, event.item.name, readable(event.item.arguments)),)
        return (ToolCallPart(call, arguments=readable(event.item.arguments)),) if event.item.arguments else ()

    def _end(self, response: Any) -> Sequence[Delta]:
        self._items = getattr(response, "output", None) or self._items
        details = getattr(response, "incomplete_details", None)
        self._stop = (details.reason if details else None) or response.status or "completed"
        self.ended = True
        usage = getattr(response, "usage", None)
        return (Counted(self._usage(usage.input_tokens, usage.output_tokens)),) if usage else ()

    def finished(self) -> Finished:
        items: list[JsonValue] = [item.to_dict(mode="json") for item in self._items]
        while items and cast("Json", items[-1]).get("type") == "reasoning":
            items.pop()  # reasoning that led to nothing: the API refuses it without the item it led to
        return Finished({"object": "response", "output": items}, self._stop)
