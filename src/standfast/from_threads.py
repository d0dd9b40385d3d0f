"""What the event loop does because a thread of a run has asked for it, by `call_soon_threadsafe`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class _Now(threading.local):
    handed = False


_now = _Now()


def handed() -> bool:
    """Is a thread's callback being called in this thread just now? What it has begun goes on by itself."""
    return _now.handed


def hand(callback: Callable[..., object], *args: Any) -> None:
    """A callback that a thread has handed to the loop."""
    before, _now.handed = _now.handed, True
    try:
        callback(*args)
    finally:
        _now.handed = before
