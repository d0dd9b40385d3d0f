"""What an AG-UI client sends: never more is believed of it than that the client has what it shows."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

from standfast.arguments import LONGEST_LABEL
from standfast.json_values import fingerprint
from standfast.server.agui_events import Known
from standfast.server.verbs import Key


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)


class Answer(_Model):
    """What somebody says to an interrupt. What is not understood here is refused: it may change what they mean."""

    model_config = ConfigDict(extra="forbid")

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: JsonValue = None
    metadata: JsonValue = None


class Held(_Model):
    """A tool call in a message."""

    id: str


class Said(_Model):
    """A message of the conversation."""

    id: str = ""
    role: str
    content: JsonValue = None
    tool_calls: list[Held] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """Its words."""
        if isinstance(self.content, str):
            return self.content
        parts = self.content if isinstance(self.content, list) else []
        texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))


class RunInput(_Model):
    """RunAgentInput, as far as it means something here."""

    thread_id: Key
    run_id: Key
    messages: list[Said] = []
    state: JsonValue = None
    resume: list[Answer] | None = None
    forwarded_props: JsonValue = None

    @property
    def last_words(self) -> str:
        """The id of the user's last message, if the conversation ends with it."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "user":
            return ""
        if last.id and len(last.id) <= LONGEST_LABEL:
            return last.id
        return fingerprint([len(self.messages), last.text, last.id])  # words without an id are words too

    @property
    def conversation(self) -> list[dict[str, str]]:
        """What person and agent have said to each other, in the shape that every model understands."""
        spoken = [said for said in self.messages if said.role in ("user", "assistant") and said.text]
        return [{"role": said.role, "content": said.text} for said in spoken]

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The messages as they were sent."""
        return [said.model_dump(mode="json", by_alias=True, exclude_unset=True) for said in self.messages]

    @property
    def known(self) -> Known:
        """What the client has from earlier runs of the thread."""
        return Known(
            {said.id: said.text for said in self.messages if said.role in ("assistant", "reasoning")},
            frozenset(call.id for said in self.messages for call in said.tool_calls or ()),
            frozenset(said.tool_call_id for said in self.messages if said.tool_call_id is not None),
        )
