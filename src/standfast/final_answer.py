"""A result of a given type: the model ends by calling a tool whose arguments are the result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from standfast.codec import Codec, from_json
from standfast.errors import NotStorable
from standfast.json_values import is_object
from standfast.replies import ToolCall
from standfast.tools import Tool

NAME = "final_result"


@dataclass(frozen=True, slots=True)
class Answer:
    """A result that is of the type."""

    value: Any


class FinalAnswer:
    """The tool by which a model gives its result, and what becomes of what it gives."""

    words = f"When you are done, call the tool {NAME} with the result."

    def __init__(self, type_: Any) -> None:
        self._codec: Codec[Any] = Codec(type_)

        async def final_result(result: Any) -> str:
            """Give the result and end. Call it once, alone, when everything is done."""
            del result
            return "not accepted: call it alone, when everything else is done; messages are answered in plain text"

        final_result.__annotations__["result"] = type_
        self.tool: Tool[..., str] = Tool(final_result, effect="read", name=NAME)

    def among(self, calls: Iterable[ToolCall]) -> Answer | None:
        """The result, if it is what the model asked for, alone; what is wrong with it the tool says."""
        given = list(calls)
        if len(given) != 1 or given[0].name != NAME:
            return None
        try:
            return Answer(self.tool.load_args(given[0].arguments.encode())["result"])
        except NotStorable:
            return None  # performed like any tool: its parser tells the model what is wrong

    def from_text(self, text: str) -> Answer | None:
        """The result, if the text is its JSON: some models cannot call tools."""
        try:
            return Answer(self._codec.load(text.encode()))
        except NotStorable:
            return self._within(text)

    def _within(self, text: str) -> Answer | None:
        """The result amid prose: an object that has something of it, for defaults make one of any braces."""
        raw = text[text.find("{") : text.rfind("}") + 1]
        try:
            value = self._codec.load(raw.encode())
        except NotStorable:
            return None
        given, whole = from_json(raw), from_json(self._codec.dump(value))
        return Answer(value) if is_object(given) and is_object(whole) and given.keys() & whole.keys() else None
