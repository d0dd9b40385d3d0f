"""What the tests of bad input share: a plain state, a simple agent, and what an error owes to a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from tests.helpers import eventually

from standfast import (
    Done,
    Idle,
    Run,
    StandfastError,
    agent,
    tool,
)
from standfast.records import RunView


class Plain(BaseModel):
    n: int = 0
    names: list[str] = []
    anything: Any = None


@dataclass
class Other:
    n: int = 0


@tool(effect="read")
async def look(what: Any) -> Any:
    return what


@tool
async def act(what: str) -> str:
    return what


@agent("simple")
async def simple(run: Run[Plain]) -> Done[int]:
    return Done(run.state.n + await run.call(look(1)))


@agent("waits")
async def waits(run: Run[Plain]) -> Done[int] | Idle:
    return Idle()


def helpful(error: StandfastError, *words: str) -> None:
    """An error tells the person what happened and what to do next."""
    assert error.hint.strip()
    assert error.message.strip()
    for word in words:
        assert word in str(error)


async def held_by(run: Any, hold: str) -> RunView:
    async def look_at() -> RunView | None:
        view: RunView = await run.view()
        return view if view.status == "paused" and hold in view.holds else None

    found: RunView = await eventually(look_at)
    return found
