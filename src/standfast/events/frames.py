"""Thoughts: each is tagged with its attempt, as everything a step says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from standfast.events.base import ByPerson, Recorded


@dataclass(slots=True, kw_only=True)
class FrameOpened(Recorded):
    type: Literal["frame_opened"] = "frame_opened"
    frame: str
    goal: str
    steps: Sequence[str] = ()
    kind: str = "task"
    mail: str | None = None
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameAdvanced(Recorded):
    type: Literal["frame_advanced"] = "frame_advanced"
    frame: str
    done: int
    of: int
    next: str | None = None
    note: str = ""
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameHeld(Recorded):
    type: Literal["frame_held"] = "frame_held"
    frame: str
    goal: str
    at_step: str
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameReturned(Recorded):
    """The run has come back to a thought, aloud; `why` says why that is no continuation."""

    type: Literal["frame_returned"] = "frame_returned"
    frame: str
    text: str
    reconstructed: bool = False
    why: str = ""
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameFinished(Recorded):
    type: Literal["frame_finished"] = "frame_finished"
    frame: str
    goal: str
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class FrameAbandoned(ByPerson):
    type: Literal["frame_abandoned"] = "frame_abandoned"
    frame: str
    goal: str
    by: str | None
    reason: str
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class Replied(Recorded):
    """What the agent answered; `lines` are the runtime's own: what is on hold, and what was returned to."""

    type: Literal["replied"] = "replied"
    mail: str | None
    text: str
    lines: Sequence[str] = ()
    attempt: int = 0
