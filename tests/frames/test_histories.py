"""Thoughts, messages and people in random histories with crashes (R19-R24)."""

from __future__ import annotations

import pytest
from tests.frames.histories import check, totals
from tests.trials import trials

SEEDS_A_TEST = trials(25, 50, 500)
SEEDS = trials(50, 1_000, 12_000)


@pytest.mark.soak
@pytest.mark.timeout(900)  # it gives way to others, see tests/parts.py
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_no_thought_and_no_message_is_dropped(first: int) -> None:
    before = dict(totals)
    for seed in range(first, first + SEEDS_A_TEST):
        check(seed)
    happened = {name: totals[name] - before[name] for name in totals}
    assert happened["returns"] and happened["holds"] and happened["waited"] and happened["crashes"], happened


def test_the_same_seed_tells_the_same_history() -> None:
    """A failing seed can be replayed."""
    for seed in (3, 11, 42):
        assert check(seed) == check(seed)
