"""The caps of a budget, as people may give them: refused where they are written, not when a run is started (R17)."""

from __future__ import annotations

from math import isfinite
from typing import Any

from standfast.errors import Misuse


class Unsaid(str):
    """The default of `then`: as it reads, unless the budget before it says otherwise."""

    __slots__ = ()


def whole_cap(name: str, cap: Any) -> None:
    """Return if it is a whole number, 0 or more, or None for no cap; else Misuse."""
    if cap is not None and (isinstance(cap, bool) or not isinstance(cap, int) or cap < 0):
        raise _no_cap(name, cap, "a whole number")


def other_cap(name: str, cap: Any) -> None:
    """The same for a number that need not be whole."""
    if cap is None:
        return
    number = isinstance(cap, int | float) and not isinstance(cap, bool)
    if not number or cap < 0 or (isinstance(cap, float) and not isfinite(cap)):
        raise _no_cap(name, cap, "a finite number")


def known_end(then: Any) -> None:
    """Return if it is something that can become of a run that has used up its budget; else Misuse."""
    if then not in ("pause", "cancel", None):
        raise Misuse(f"a budget's then={then!r} is unknown", hint='use "pause" or "cancel"')


def _no_cap(name: str, cap: Any, kind: str) -> Misuse:
    return Misuse(f"a budget of {name}={cap!r} makes no sense", hint=f"give {kind}, 0 or more, or None for no cap")
