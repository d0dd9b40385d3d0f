"""How often somebody may ask. Stops are never counted."""

from __future__ import annotations

import time
from collections.abc import Callable

MOST_KNOWN = 10_000
GUESSES = 100  # wrong tokens from one address at once
GUESSES_A_SECOND = 1.0


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
