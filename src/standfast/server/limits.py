"""How often somebody may ask. Stops are never counted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

MOST_KNOWN = 10_000
TOKEN = "STANDFAST_TOKEN"
HALT_TOKEN = "STANDFAST_HALT_TOKEN"
NOTIFY = "STANDFAST_NOTIFY"
OURS = frozenset({TOKEN, HALT_TOKEN, NOTIFY})


def without_secrets() -> dict[str, str]:
    """The environment for whatever this server starts: agents and commands do not get what is the server's alone."""
    return {name: value for name, value in os.environ.items() if name not in OURS}


class Rate:
    """A bucket for each who asks: `burst` at once, then `a_second`."""

    def __init__(self, a_second: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._a_second = a_second
        self._burst = burst
        self._now = now
        self._left: dict[str, tuple[float, float]] = {}

    def allows(self, who: str) -> bool:
        """May they ask once more? Counted if so."""
        now = self._now()
        left, at = self._left.get(who, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._a_second)
        if len(self._left) >= MOST_KNOWN and who not in self._left:
            self._left.clear()  # a flood of names must not fill the memory
        self._left[who] = (left - 1 if left >= 1 else left, now)
        return left >= 1
