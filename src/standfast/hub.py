"""Wakes whoever waits for a run in this process: results, views, event streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from standfast.events import TextDelta

LIVE_BACKLOG = 10_000


class Waiter:
    """One reader. A slow one loses live text, never events: those it reads from the store."""

    __slots__ = ("_event", "_loop", "deltas", "run")

    def __init__(self, run: str | None) -> None:
        self.run = run
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self.deltas: list[TextDelta] = []

    async def wait(self, timeout: float | None = None) -> None:
        """Until something may have changed, or the time is up."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout)
        except TimeoutError:
            return
        finally:
            self._event.clear()

    def poke(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)


class Hub:
    """The readers of this process, by run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()

    @property
    def watched(self) -> bool:
        return bool(self._waiters)

    @contextmanager
    def waiting(self, run: str | None) -> Iterator[Waiter]:
        """A waiter for one run, or for all."""
        waiter = Waiter(run)
        with self._lock:
            self._waiters = {*self._waiters, waiter}
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters = self._waiters - {waiter}

    def poke(self, run: str | None = None) -> None:
        """Something of this run may have changed; None: of any run."""
        for waiter in self._waiters:
            if run is None or waiter.run is None or waiter.run == run:
                waiter.poke()

    def delta(self, run: str, delta: TextDelta) -> None:
        """Text that is being said right now."""
        for waiter in self._waiters:
            if waiter.run is None or waiter.run == run:
                if len(waiter.deltas) < LIVE_BACKLOG:
                    waiter.deltas.append(delta)
                waiter.poke()
