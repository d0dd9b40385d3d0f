"""What a tool of a server answered, as the JSON value a step works with."""

from __future__ import annotations

from typing import Any, cast

from pydantic import JsonValue
from pydantic_core import from_json

from standfast.json_values import is_object, same_json
from standfast.records import Json


def value_of(answer: Json) -> JsonValue:
    """The simplest value that loses nothing.

    Text is the text; structured content is that value (bare, where the server had to wrap it as {"result": ...});
    pictures, sounds and resources, and structured content beside other words, come as
    {"text": ..., "content": [...], "structuredContent": ...}.
    """
    blocks = cast("list[dict[str, Any]]", answer.get("content") or [])
    text = "\n".join(block["text"] for block in blocks if block.get("type") == "text")
    others = [block for block in blocks if block.get("type") != "text"]
    structured = answer.get("structuredContent")
    if not others and structured is None:
        return text
    if not others and is_object(structured):
        if structured.keys() == {"result"}:
            return cast("JsonValue", structured["result"])
        if not text or _is_the_same(text, structured):
            return cast("JsonValue", structured)
    whole: dict[str, Any] = {"text": text, "content": others}
    if structured is not None:
        whole["structuredContent"] = structured
    return cast("JsonValue", whole)


def _is_the_same(text: str, structured: Any) -> bool:
    """By the protocol, the text of a structured result is its JSON."""
    try:
        return same_json(from_json(text), structured)
    except ValueError:
        return False
