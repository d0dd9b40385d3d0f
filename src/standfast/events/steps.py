"""Steps, and what a step says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from standfast.events.base import Recorded
from standfast.records import PlanItem


@dataclass(slots=True, kw_only=True)
class StepFinished(Recorded):
    type: Literal["step_finished"] = "step_finished"
    step: int
    attempt: int


@dataclass(slots=True, kw_only=True)
class StepSetBack(Recorded):
    type: Literal["step_set_back"] = "step_set_back"
    step: int
    attempt: int
    why: str


@dataclass(slots=True, kw_only=True)
class StepFailed(Recorded):
    type: Literal["step_failed"] = "step_failed"
    step: int
    attempt: int
    error: str
    traceback: str


@dataclass(slots=True, kw_only=True)
class Noted(Recorded):
    type: Literal["noted"] = "noted"
    text: str
    attempt: int


@dataclass(slots=True, kw_only=True)
class Emitted(Recorded):
    type: Literal["emitted"] = "emitted"
    name: str
    data: JsonValue
    attempt: int


@dataclass(slots=True, kw_only=True)
class PlanChanged(Recorded):
    type: Literal["plan_changed"] = "plan_changed"
    plan: Sequence[PlanItem]


@dataclass(slots=True, kw_only=True)
class LeftBehind(Recorded):
    """Something of this run is still running although it should not be."""

    type: Literal["left_behind"] = "left_behind"
    what: str
    where: str
