"""Thoughts, messages and people in random histories with crashes: 1,000 seeds, 12,000 in a soak (R19-R24)."""

from __future__ import annotations

import os

import pytest
from tests.frames.histories import check, totals

SEEDS_A_TEST = 50
SEEDS = 1_000
SOAK_SEEDS = 12_000


@pytest.mark.timeout(900)  # it gives way to others, see tests/parts.py
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_no_thought_and_no_message_is_dropped(first: int) -> None:
    before = dict(totals)
    for seed in range(first, first + SEEDS_A_TEST):
        check(seed)
    happened = {name: totals[name] - before[name] for name in totals}
    assert happened["returns"] and happened["holds"] and happened["waited"] and happened["crashes"], happened


@pytest.mark.soak
@pytest.mark.skipif("STANDFAST_SOAK" not in os.environ, reason="make soak")
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, 500))
def test_no_thought_and_no_message_is_dropped_over_many_more_seeds(first: int) -> None:
    for seed in range(first, min(first + 500, SOAK_SEEDS)):
        check(seed)


def test_the_same_seed_tells_the_same_history() -> None:
    """A failing seed can be replayed."""
    for seed in (3, 11, 42):
        assert check(seed) == check(seed)
