"""Looking at a run from outside, until it is what a test waits for."""

from __future__ import annotations

from typing import Any

from tests.helpers import eventually

from standfast.records import RunView


async def status_is(run: Any, status: str) -> RunView:
    async def look() -> RunView | None:
        view: RunView = await run.view()
        return view if view.status == status else None

    found: RunView = await eventually(look)
    return found


async def events_of(run: Any, kind: type[Any]) -> list[Any]:
    """Events of one kind so far, of a run that is held or has ended."""
    found = []
    seq = (await run.view()).seq
    async for event in run.events():
        if isinstance(event, kind):
            found.append(event)
        if getattr(event, "seq", 0) >= seq:
            break
    return found
