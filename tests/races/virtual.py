"""An event loop in which time is a number: nothing waits, and the same seed gives the same order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import Any


class Stuck(AssertionError):
    """Nothing will ever happen again, or it takes for ever."""


class _NoWaiting(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if found:
            return found
        self.loop.pass_time(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer instead of sleeping; work for executors is done at once, in order."""

    def __init__(self, *, limit: float = 3_000.0, turns: int = 400_000) -> None:
        self._now = 0.0
        self._limit = limit
        self._turns = turns
        selector = _NoWaiting()
        super().__init__(selector)
        selector.loop = self

    def time(self) -> float:
        return self._now

    def pass_time(self, timeout: float | None) -> None:
        self._turns -= 1
        if timeout is None:
            raise Stuck("nothing is scheduled any more: a wake-up was lost")
        if self._turns < 0:
            raise Stuck("the loop turns and turns: something polls without end")
        self._now += timeout
        if self._now > self._limit:
            raise Stuck(f"not over after {self._limit:.0f} s of virtual time")

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - belongs to whoever waits
            future.set_exception(error)
        return future


class VirtualClock:
    """The loop's time, as the runtime's clock."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return 1_800_000_000.0 + self._loop.time()

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def back_off(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
