"""Places in a call's life where a test waits, and where it can stop the world."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from standfast.abc import Point

HOLD_SECONDS = 0.25


class CallPoints:
    """Holds a call at a point a test waits for, until the test's next act (or a quarter of a second)."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, str, Point]] = Counter()
        self._awaited: dict[tuple[str, str, Point], asyncio.Future[None]] = {}
        self._held: set[asyncio.Future[None]] = set()
        self._acting = 0
        self._nobody_acts = asyncio.Event()
        self._nobody_acts.set()

    @contextmanager
    def acting(self) -> Generator[None, None, None]:
        """While a test acts, no call passes a point: what the test waits for next has not gone by meanwhile."""
        self._acting += 1
        self._nobody_acts.clear()
        try:
            yield
        finally:
            self._acting -= 1
            if not self._acting:
                asyncio.get_running_loop().call_soon(self._acted)

    def _acted(self) -> None:
        if not self._acting:
            self._nobody_acts.set()

    async def reached(self, run: str, tool: str, point: Point) -> None:
        """Called by the driver: waits here if a test wants it to."""
        while not self._nobody_acts.is_set():
            await self._nobody_acts.wait()
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

    def until(self, run: str, tool: str, point: Point) -> asyncio.Future[None]:
        """Done when a call of this tool has reached the point in this run."""
        place = (run, tool, point)
        future = self._awaited.get(place)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            if self.passed[place]:
                future.set_result(None)
            else:
                self._awaited[place] = future
        return asyncio.shield(future)

    def let_go(self) -> None:
        """Whatever is held goes on."""
        for held in list(self._held):
            if not held.done():
                held.set_result(None)
