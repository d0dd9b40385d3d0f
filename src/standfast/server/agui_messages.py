"""The conversation as an AG-UI client has it: what it sent, and what this stream has told it since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

Line = dict[str, Any]

LONGEST_SNAPSHOT: Final = 5_000_000  # characters: beyond that it is not said twice, for a client has read it already
_ROLES: Final = {"TEXT_MESSAGE_START": "assistant", "REASONING_MESSAGE_START": "reasoning"}


class Conversation:
    """Hears every line that the client is told; `snapshot` is where that leaves it."""

    def __init__(self, messages: Iterable[dict[str, Any]]) -> None:
        self._messages: dict[str, dict[str, Any]] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[str, dict[str, str]] = {}
        self._size = 0
        for n, message in enumerate(messages):
            id_ = str(message.get("id") or f"message-{n}")
            self._messages[id_] = {**message, "id": id_}
            content: Any = message.get("content")
            self._add(id_, content if isinstance(content, str) else "")

    def heard(self, line: Line) -> None:
        """One line more."""
        match line["type"]:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                id_ = line["messageId"]
                self._messages.setdefault(id_, {"id": id_, "role": _ROLES[line["type"]]})
                self._add(id_, "")
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                self._add(line["messageId"], line["delta"])
            case "TOOL_CALL_START":
                id_ = line["toolCallId"]
                function = {"name": line["toolCallName"], "arguments": ""}
                self._calls[id_] = function
                call = {"id": id_, "type": "function", "function": function}
                self._messages[id_] = {"id": id_, "role": "assistant", "toolCalls": [call]}
            case "TOOL_CALL_ARGS":
                if (asked := self._calls.get(line["toolCallId"])) is not None:
                    asked["arguments"] += line["delta"]
                    self._size += len(line["delta"])
            case "TOOL_CALL_RESULT":
                id_ = line["messageId"]
                self._messages[id_] = {"id": id_, "role": "tool", "toolCallId": line["toolCallId"]}
                self._texts.pop(id_, None)
                self._add(id_, line["content"])
            case _:
                pass

    def _add(self, id_: str, text: str) -> None:
        self._size += len(text)
        if self._size <= LONGEST_SNAPSHOT:
            self._texts.setdefault(id_, []).append(text)
        else:
            self._texts.clear()

    def snapshot(self) -> list[Line]:
        """MESSAGES_SNAPSHOT; nothing if it would be too long."""
        if self._size > LONGEST_SNAPSHOT:
            return []
        return [{"type": "MESSAGES_SNAPSHOT", "messages": [self._whole(id_) for id_ in self._messages]}]

    def _whole(self, id_: str) -> dict[str, Any]:
        message = self._messages[id_]
        spoken = isinstance(message.get("content"), str) or "content" not in message
        if not spoken or ("toolCalls" in message and not "".join(self._texts.get(id_, []))):
            return message  # as the client sent it: its parts are pictures, say
        return {**message, "content": "".join(self._texts.get(id_, []))}
