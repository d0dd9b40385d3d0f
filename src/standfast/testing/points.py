"""Places in a call's life where a test waits, and where it can stop the world."""

from __future__ import annotations

import asyncio
from collections import Counter

from standfast.abc import Point

HOLD_SECONDS = 0.25


class CallPoints:
    """Holds a call at a point a test waits for, until the test's next act (or a quarter of a second)."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, str, Point]] = Counter()
        self._awaited: dict[tuple[str, str, Point], asyncio.Future[None]] = {}
        self._held: set[asyncio.Future[None]] = set()

    async def reached(self, run: str, tool: str, point: Point) -> None:
        """Called by the driver: waits here if a test wants it to."""
        place = (run, tool, point)
        self.passed[place] += 1
        waiting = self._awaited.pop(place, None)
        if waiting is None or waiting.done():
            return
        waiting.set_result(None)
        held: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.add(held)
        try:
            await asyncio.wait({held}, timeout=HOLD_SECONDS)
        finally:
            self._held.discard(held)

    async def until(self, run: str, tool: str, point: Point) -> None:
        """Until a call of this tool has reached the point in this run."""
        place = (run, tool, point)
        if self.passed[place]:
            return
        future = self._awaited.setdefault(place, asyncio.get_running_loop().create_future())
        await asyncio.shield(future)

    def let_go(self) -> None:
        """Whatever is held goes on."""
        for held in list(self._held):
            if not held.done():
                held.set_result(None)
