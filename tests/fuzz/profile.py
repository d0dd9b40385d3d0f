"""How much is tried: the same things every time in `make test`, many more and others in `make soak`."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from typing import Any

import hypothesis

SOAK = "STANDFAST_SOAK" in os.environ
MORE = int(os.environ.get("STANDFAST_FUZZ", "40")) if SOAK else 1


def tried(examples: int, name: str, **given: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of so many examples, each drawn from the strategies that are given; others for each name."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        settled = hypothesis.settings(
            max_examples=examples * MORE,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],  # a real server has a past: what failed is not tried again smaller
        )
        drawn = settled(hypothesis.given(**given)(test))
        return drawn if SOAK else hypothesis.seed(zlib.crc32(name.encode()))(drawn)

    return decorated
