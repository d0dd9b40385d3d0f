"""What models are asked and what they say: a request, the deltas of a stream, the reply they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from pydantic import JsonValue

from standfast.errors import StandfastError
from standfast.records import Json

Dialect = Literal["openai-chat", "openai-responses", "anthropic"]
"""The shape of messages: whose JSON a log of them holds."""

Trouble = Literal[
    "rate_limited",  # 429: wait
    "overloaded",  # 5xx: wait
    "connection",  # no connection, or it broke, also half way through a stream
    "unauthorised",  # a wrong or missing key
    "not_found",  # no such model
    "refused",  # the request itself is wrong
    "nonsense",  # an answer that is not the protocol
]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    schema: Json


@dataclass(frozen=True, slots=True)
class Request:
    """What a provider is asked; `messages` are in its own dialect."""

    messages: Sequence[Json]
    tools: Sequence[ToolSpec] = ()
    system: str = ""
    options: Json = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `estimated` when the provider did not say, as after a cut."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model asks for. `arguments` is JSON as the model wrote it, perhaps not valid."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole answer of a model; `message` is what a log of its dialect keeps."""

    text: str
    message: Json
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    reasoning: str = ""
    stop: str = ""  # the provider's word for why it ended
    dialect: Dialect = "openai-chat"


# --- deltas: what a stream is made of ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """More of what the model thinks aloud."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """More of a tool call: id and name come with its first part."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Counted:
    """The provider's count so far; the last one stands."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a whole answer: the message as the log keeps it. A stream without one has died."""

    message: Json
    stop: str = ""


Delta: TypeAlias = Text | Reasoning | ToolCallPart | Counted | Finished


class ProviderError(StandfastError):
    """A provider did not answer; `trouble` says what kind of no it was."""

    def __init__(
        self,
        message: str,
        *,
        trouble: Trouble,
        status: int | None = None,
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.trouble: Trouble = trouble
        self.status = status
        self.retry_after = retry_after  # seconds, if the provider said

    @property
    def passing(self) -> bool:
        """Is it worth asking again?"""
        return self.trouble in ("rate_limited", "overloaded", "connection")
