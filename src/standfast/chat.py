"""The state of an LLMAgent: a task, the conversation about it, and what the model has asked for."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from standfast.log import Log
from standfast.records import Json


class AskedTool(BaseModel):
    """A tool the model has asked for that has no result yet."""

    id: str
    name: str
    arguments: str


class Chat(BaseModel):
    """A conversation. `log` holds messages in the model's own shape and is only ever added to."""

    model_config = ConfigDict(extra="forbid")

    task: str = Field(pattern=r"\S")
    log: Log[Json] = Field(default_factory=Log[Json])
    plan: list[str] = []
    """Titles to begin the plan with; the model keeps it from there on."""
    asked: list[AskedTool] = []
    said: str = ""
    """What the model said before it asked for these tools: why."""
    begun: bool = False
    so_far: str = ""
    """Of an answer that the provider cuts into pieces, for its length."""
    pieces: int = 0
    ended: bool = False
    """Is the task over? Its result is kept in `final` while what else is open is answered."""
    final: JsonValue = None
    frame: str = ""
    """The frame that the model was last told of."""
    reminders: int = 0
    """How often in a row the model was told that its answer is none."""
