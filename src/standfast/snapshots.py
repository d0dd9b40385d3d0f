"""A snapshot is two lines of JSON: the plan that people see, and the state."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import TypeAdapter
from pydantic_core import to_json

from standfast.records import PlanItem

_plan: TypeAdapter[list[PlanItem]] = TypeAdapter(list[PlanItem])


def pack(plan: Sequence[PlanItem], state: bytes) -> bytes:
    """Plan and state as they are stored."""
    return (to_json(plan) if plan else b"[]") + b"\n" + state


def unpack(snapshot: bytes) -> tuple[list[PlanItem], bytes]:
    """Plan and state again."""
    plan, _, state = snapshot.partition(b"\n")
    return _plan.validate_json(plan), state
