"""The shapes of messages: what a person, a tool or the runtime says, as each provider's logs hold it."""

from __future__ import annotations

from standfast.records import Json
from standfast.replies import Dialect, ToolCall


def user_message(dialect: Dialect, text: str) -> Json:
    """Something said to the model."""
    if dialect == "anthropic":
        return {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"role": "user", "content": text}


def assistant_message(dialect: Dialect, text: str) -> Json:
    """Something the model said, as plain text."""
    if dialect == "anthropic":
        return {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"role": "assistant", "content": text}


def tool_result(dialect: Dialect, call: ToolCall, content: str, *, failed: bool) -> Json:
    """What became of a tool the model asked for."""
    if dialect == "anthropic":
        block: Json = {"type": "tool_result", "tool_use_id": call.id, "content": content, "is_error": failed}
        return {"role": "user", "content": [block]}
    if dialect == "openai-responses":
        return {"type": "function_call_output", "call_id": call.id, "output": content}
    return {"role": "tool", "tool_call_id": call.id, "content": content}
