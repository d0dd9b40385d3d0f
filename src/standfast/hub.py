"""Wakes whoever waits for a run in this process: results, views, event streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Container, Generator
from contextlib import contextmanager, suppress

from standfast.events import TextDelta

LIVE_BACKLOG = 10_000


class Waiter:
    """One reader. A slow one loses live text, never events: those it reads from the store."""

    __slots__ = ("_future", "_loop", "_poked", "_thread", "deltas", "run", "steps")

    def __init__(self, run: str | None, *, steps: bool) -> None:
        self.run = run
        self.steps = steps  # does it want to know of every step, or only when the status may have changed?
        self.deltas: list[TextDelta] = []
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._future: asyncio.Future[None] | None = None
        self._poked = False

    async def wait(self, timeout: float) -> None:
        """Until something may have changed, or the time is up."""
        if not self._poked:
            self._future = self._loop.create_future()
            alarm = self._loop.call_later(timeout, self._wake)
            try:
                await self._future
            finally:
                alarm.cancel()
                self._future = None
        self._poked = False

    def poke(self) -> None:
        if threading.get_ident() == self._thread:
            self._wake()
        elif not self._loop.is_closed():
            with suppress(RuntimeError):  # it was closed since: who waited there waits no longer
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._poked = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class Hub:
    """The readers of this process, by run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: dict[str | None, tuple[Waiter, ...]] = {}
        # Hear all live text, in the thread in which it is said: they must be quick and must not raise.
        self.taps: list[Callable[[str, TextDelta], None]] = []
        self._watching_steps = 0  # how many of them want to know of every step

    @property
    def watched(self) -> bool:
        return bool(self._waiters)

    @property
    def heard(self) -> bool:
        """Would anybody hear live text?"""
        return bool(self._waiters or self.taps)

    def watches_others(self, but: Container[str]) -> bool:
        """Does anybody wait for a run that is not in `but`?"""
        return any(run is None or run not in but for run, _ in self._all())

    @contextmanager
    def waiting(self, run: str | None, *, steps: bool = False) -> Generator[Waiter, None, None]:
        """A waiter for one run, or for all."""
        waiter = Waiter(run, steps=steps)
        with self._lock:
            self._waiters[run] = (*self._waiters.get(run, ()), waiter)
            self._watching_steps += steps
        try:
            yield waiter
        finally:
            with self._lock:
                self._watching_steps -= steps
                left = tuple(w for w in self._waiters[run] if w is not waiter)
                if left:
                    self._waiters[run] = left
                else:
                    del self._waiters[run]

    def poke(self, run: str) -> None:
        """The status of this run may have changed."""
        for waiter in self._of(run):
            waiter.poke()

    def stepped(self, run: str) -> None:
        """This run has gone on; its status is what it was."""
        if self._watching_steps:
            for waiter in self._of(run):
                if waiter.steps:
                    waiter.poke()

    def poke_all(self, but: Container[str] = ()) -> None:
        """Somebody has written something; runs in `but` are known to this process anyway."""
        for run, waiters in self._all():
            if run is None or run not in but:
                for waiter in waiters:
                    waiter.poke()

    def delta(self, run: str, delta: TextDelta) -> None:
        """Text that is being said right now, for readers of this run."""
        for tap in self.taps:
            tap(run, delta)
        for waiter in self._waiters.get(run, ()):
            if waiter.steps:
                if len(waiter.deltas) < LIVE_BACKLOG:
                    waiter.deltas.append(delta)
                waiter.poke()

    def _all(self) -> list[tuple[str | None, tuple[Waiter, ...]]]:
        """Under the lock: even a copy of a dict walks it, and readers come and go in other threads."""
        with self._lock:
            return list(self._waiters.items())

    def _of(self, run: str) -> tuple[Waiter, ...]:
        waiters = self._waiters
        return (*waiters.get(run, ()), *waiters.get(None, ()))
