"""Which tasks do nothing before a certain time, because they sleep."""

from __future__ import annotations

import asyncio
from types import FrameType
from typing import Any


def sleeps_until(future: asyncio.Future[Any]) -> float | None:
    """When a task that waits in `asyncio.sleep` wakes, by its loop's clock, unless it is cancelled; None for others.

    Nobody else has the future that it waits for.
    """
    if not isinstance(future, asyncio.Task) or future.done() or future.cancelling():
        return None
    frame = _innermost(future.get_coro())
    if frame is None or frame.f_code is not asyncio.sleep.__code__:
        return None
    timer, over = frame.f_locals.get("h"), frame.f_locals.get("future")
    if not isinstance(timer, asyncio.TimerHandle) or not isinstance(over, asyncio.Future) or over.done():
        return None
    return timer.when()


def _innermost(coroutine: Any) -> FrameType | None:
    found: FrameType | None = None
    while coroutine is not None:
        found = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None) or found
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return found
