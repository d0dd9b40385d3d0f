"""Small things that many tests need."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from standfast import Handle, RunView


async def eventually(look: Callable[[], Any], timeout: float = 10) -> Any:
    """The first truthy value of `look()` (awaited if need be); fails after `timeout` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while True:
        found = look()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert loop.time() < end, f"not so within {timeout} s"
        await asyncio.sleep(0.01)


async def held(run: Handle[Any], *holds: str) -> RunView:
    """The view, once the run is paused with exactly these holds."""
    async with asyncio.timeout(10):
        while True:
            view = await run.view()
            if view.status == "paused" and set(view.holds) == set(holds):
                return view
            assert view.status not in ("done", "cancelled", "failed"), view
            await asyncio.sleep(0.01)
