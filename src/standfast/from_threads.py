"""What the event loop does because a thread of a run has asked for it, by `call_soon_threadsafe`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Giver:
    """Who has handed a callback to the loop."""

    work: object = None  # the function in a pool's thread, as its owner knows it; None: another thread
    cut: bool = False  # had it been cut by then, or its call?


class _Now(threading.local):
    giver: Giver | None = None


_now = _Now()


def handed() -> Giver | None:
    """Whose callback is being called in this thread just now? What it has begun goes on by itself."""
    return _now.giver


def hand(giver: Giver, callback: Callable[..., object], *args: Any) -> None:
    """A callback that a thread has handed to the loop."""
    before, _now.giver = _now.giver, giver
    try:
        callback(*args)
    finally:
        _now.giver = before
