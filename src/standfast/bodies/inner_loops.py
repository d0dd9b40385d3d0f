"""An event loop that code runs in a thread of its own: `asyncio.run` in a sync tool, a framework's `run_sync`."""

from __future__ import annotations

import asyncio
import sys
from asyncio.base_events import BaseEventLoop
from typing import Any

from standfast.ladder import Ladder, cut_task

MOST_LOOKS = 50  # a loop that has not taken a request by then is busy: what it runs must be thrown at


def main_task(ident: int) -> asyncio.Task[Any] | None:
    """What the innermost loop of a thread runs until it is complete; None if the thread runs no loop.

    Code in a loop is ended by cancelling this task, as Ctrl-C does: an exception that is thrown lands in the loop's own
    code as often as not, where it is lost, or loses somebody's callback.
    """
    frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage] - documented
    while frame is not None:
        if frame.f_code is BaseEventLoop.run_until_complete.__code__:
            future: object = frame.f_locals.get("future")
            return future if isinstance(future, asyncio.Task) else None  # pyright: ignore[reportUnknownVariableType]
        frame = frame.f_back
    return None


class InnerLoop:
    """Asked to end, once, from outside of its thread."""

    def __init__(self, task: asyncio.Task[Any] | None, ladder: Ladder) -> None:
        self._ladder = ladder
        self._looks = 0
        self._taken = False  # by the loop, in its own thread
        self._over = task is None
        if task is not None:
            try:
                task.get_loop().call_soon_threadsafe(self._cut, task)
            except RuntimeError:  # it was closed just now
                self._over = True

    def asked(self) -> bool | None:
        """True, once: it has taken the request. False: not yet. None: there is no loop, or it was asked in vain."""
        if self._over:
            return None
        self._looks += 1
        self._over = self._taken or self._looks > MOST_LOOKS
        return self._taken if self._taken or not self._over else None

    def _cut(self, task: asyncio.Task[Any]) -> None:
        if not self._over:
            self._taken = True
            self._ladder.allow(self._ladder.grace)  # its clean-up begins now
            cut_task(task, self._ladder.grace)
