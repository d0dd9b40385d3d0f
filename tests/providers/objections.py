"""What the real APIs refuse: why a request would not be accepted; empty if it would."""

from __future__ import annotations

from typing import Any


def to_chat(body: dict[str, Any]) -> str:
    open_calls: list[str] = []
    for i, message in enumerate(body.get("messages") or []):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in open_calls:
                return f"messages[{i}]: a 'tool' message must follow a message with its 'tool_calls'"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            return f"messages[{i}]: tool_call_ids did not have response messages: {', '.join(open_calls)}"
        if role == "assistant":
            calls = message.get("tool_calls")
            if calls is not None and not calls:
                return f"messages[{i}].tool_calls: [] is too short"
            if message.get("content") is None and not calls:
                return f"messages[{i}].content: expected a string, got null"
            open_calls = [c["id"] for c in calls or []]
        elif role not in ("system", "developer", "user"):
            return f"messages[{i}].role: {role!r} is not a role"
        elif message.get("content") is None:
            return f"messages[{i}].content: expected a string, got null"
    if open_calls:
        return f"tool_call_ids did not have response messages: {', '.join(open_calls)}"
    for tool in body.get("tools") or []:
        if tool.get("type") != "function" or "name" not in tool.get("function", {}):
            return "tools: missing function.name"
    return "" if body.get("messages") else "messages: [] is too short"


def to_responses(body: dict[str, Any]) -> str:
    items = body.get("input")
    if isinstance(items, str):
        return ""
    asked: list[str] = []
    for i, item in enumerate(items or []):
        kind = item.get("type") or ("message" if "role" in item else "")
        if kind == "message":
            if item.get("role") not in ("user", "system", "developer", "assistant") or "content" not in item:
                return f"input[{i}]: not a message"
            if item["role"] == "assistant" and isinstance(item["content"], list):
                for part in item["content"]:
                    if part.get("type") not in ("output_text", "refusal"):
                        return f"input[{i}].content: {part.get('type')!r} in an assistant's message"
        elif kind == "function_call":
            asked.append(item["call_id"])
        elif kind == "function_call_output":
            if item.get("call_id") not in asked:
                return f"input[{i}]: no tool call found for function call output with call_id {item.get('call_id')}"
            asked.remove(item["call_id"])
        elif kind == "reasoning":
            if i + 1 == len(items) or items[i + 1].get("role") == "user":
                return f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following item."
        else:
            return f"input[{i}].type: invalid value {kind!r}"
    if asked:
        return f"No tool output found for function call {asked[0]}."
    for tool in body.get("tools") or []:
        if tool.get("type") != "function" or "name" not in tool:
            return "tools: missing name"
    return "" if items else "input: [] is too short"


def to_anthropic(body: dict[str, Any]) -> str:
    if not body.get("max_tokens"):
        return "max_tokens: Field required"
    messages = body.get("messages") or []
    asked: list[str] = []
    last = "assistant"
    for i, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            return f"messages.{i}.role: {role!r} is not a role"
        if role == last:
            return f"messages.{i}: roles must alternate between 'user' and 'assistant'"
        last = role
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            return f"messages.{i}: all messages must have non-empty content"
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                return "messages: text content blocks must contain non-whitespace text"
            if block["type"] == "tool_use" and not isinstance(block.get("input"), dict):
                return f"messages.{i}: tool_use.input: Input should be a valid dictionary"
            if block["type"] == "thinking" and not block.get("signature"):
                return f"messages.{i}: thinking.signature: Field required"
        answered = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if role == "user" and sorted(answered) != sorted(asked):
            return f"messages.{i}: tool_use ids {asked} and tool_result ids {answered} do not match"
        asked = [b["id"] for b in blocks if b["type"] == "tool_use"] if role == "assistant" else []
    if asked:
        return f"tool_use ids were found without tool_result blocks: {asked}"
    for tool in body.get("tools") or []:
        if "name" not in tool or "input_schema" not in tool:
            return "tools: input_schema: Field required"
    return "" if messages else "messages: at least one message is required"
