"""A clock that moves only when a test says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools


class FakeClock:
    """Time for tests: `advance(s)` wakes whoever sleeps until then."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._start = start
        self._passed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Wall time."""
        return self._start + self._passed

    def monotonic(self) -> float:
        return self._passed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), future))
        await future

    async def back_off(self, seconds: float) -> None:
        """Trying again costs a test no waiting: time moves by itself."""
        await self.advance(seconds)

    async def advance(self, seconds: float) -> None:
        """Let time pass, waking sleepers in order, and let them run."""
        end = self._passed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            when, _, future = heapq.heappop(self._sleepers)
            self._passed = max(self._passed, when)
            if not future.done():
                future.set_result(None)
            await _settle()
        self._passed = end
        await _settle()


async def _settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
