"""How much is tried: the same things every time in `make test`, more in `make test-all`, others too in `make soak`."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable
from typing import Any

import hypothesis
from tests.trials import SOAK, trials

SHARE = trials(0.25, 1, int(os.environ.get("STANDFAST_FUZZ", "40")))


def tried(examples: int, name: str, **given: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test of so many examples, each drawn from the strategies that are given; others for each name."""

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        settled = hypothesis.settings(
            max_examples=math.ceil(examples * SHARE),
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],  # a real server has a past: what failed is not tried again smaller
        )
        drawn = settled(hypothesis.given(**given)(test))
        return drawn if SOAK else hypothesis.seed(zlib.crc32(name.encode()))(drawn)

    return decorated
