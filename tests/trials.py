"""How much is tried where larger numbers prove more: few in `make test`, more in `make test-all`, most in `make soak`.

Such a test has `@pytest.mark.soak`, so that the longer runs find it.
"""

from __future__ import annotations

import os
from typing import TypeVar

T = TypeVar("T")
SOAK = bool(os.environ.get("STANDFAST_SOAK"))
MORE = bool(os.environ.get("STANDFAST_MORE"))


def trials(few: T, more: T, most: T) -> T:
    """The number, or whatever it is, that belongs to this run."""
    return most if SOAK else more if MORE else few
