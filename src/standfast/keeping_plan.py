"""The plan a model keeps: it says what it means to do, people see it, and may rewrite the next line."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ValidationError

from standfast.plan import Plan
from standfast.records import PlanStatus
from standfast.replies import ToolCall
from standfast.tools import tool

PLAN_WORDS = "If the task takes several steps, keep a plan with update_plan: people watch it, and may change it."


class PlanLine(BaseModel):
    """One line of the plan."""

    title: str
    status: PlanStatus = "queued"


@tool(effect="read", name="update_plan")
async def UPDATE_PLAN(items: list[PlanLine]) -> str:  # noqa: N802 - a tool, not a function
    """Keep the plan that people see: all of its lines, in order, each with its status."""
    return f"kept: {sum(line.status == 'done' for line in items)} of {len(items)} done"


class _Lines(BaseModel):
    items: list[PlanLine]


def keep_plan(plan: Plan, asked: Iterable[ToolCall]) -> None:
    """Take over what the model has said of its plan; what is malformed it has been told by the tool."""
    for call in asked:
        if call.name != UPDATE_PLAN.name:
            continue
        try:
            lines = _Lines.model_validate_json(call.arguments or "{}").items
        except ValidationError:
            continue
        by_title: dict[str, PlanStatus] = {line.title: line.status for line in lines if line.title.strip()}
        plan.keep(by_title.items())
