"""A snapshot is two lines of JSON: what stands beside the state (the plan, the frames), and the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json

from standfast.lazily import adapter
from standfast.records import PlanItem
from standfast.rows import Frame

T = TypeVar("T")


@dataclass(slots=True)
class Thoughts:
    """The frames of a run at a boundary."""

    frames: list[Frame] = field(default_factory=list[Frame])  # open ones, the active one last
    opened: int = 0  # so far: the next one's number
    untold: str = ""  # the return to the active frame, until a reply has named it


@dataclass(slots=True)
class _Head:
    plan: list[PlanItem]
    thoughts: Thoughts


_plan: TypeAdapter[list[PlanItem]] = adapter(list[PlanItem])
_head: TypeAdapter[_Head] = adapter(_Head)


def pack(plan: Sequence[PlanItem], state: bytes, thoughts: Thoughts | None = None) -> bytes:
    """Plan, frames and state as they are stored; a run that never opened a frame has a plan alone."""
    if thoughts is not None and thoughts.opened:
        return to_json(_Head(list(plan), thoughts)) + b"\n" + state
    return (to_json(plan) if plan else b"[]") + b"\n" + state


def unpack(snapshot: bytes) -> tuple[list[PlanItem], bytes]:
    """Plan and state again."""
    head, _, state = snapshot.partition(b"\n")
    return (_head.validate_json(head).plan if head.startswith(b"{") else _plan.validate_json(head)), state


def thoughts_in(snapshot: bytes) -> Thoughts:
    """The frames again; none in a snapshot without that part."""
    head = snapshot.partition(b"\n")[0]
    return _head.validate_json(head).thoughts if head.startswith(b"{") else Thoughts()


def with_state(snapshot: bytes, state: bytes) -> bytes:
    """The same place with another state: plan and frames stay."""
    return snapshot.partition(b"\n")[0] + b"\n" + state
