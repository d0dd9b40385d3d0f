"""Interleavings of every verb with steps, crashes, takeovers and freezes.

Each seed tells its own story (chaos.py) and is held to every promise (oracle.py): R2-R12, R15, R28.
"""

from __future__ import annotations

import pytest
from tests.races.replay import check
from tests.trials import trials

SEEDS_A_TEST = trials(25, 50, 1_000)
SEEDS = trials(100, 2_000, 100_000)


@pytest.mark.soak
@pytest.mark.timeout(900)  # it gives way to others, see tests/parts.py
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_every_promise_holds_whatever_comes_between(first: int) -> None:
    for seed in range(first, first + SEEDS_A_TEST):
        check(seed)


def test_an_undo_beside_a_body_that_is_still_at_work_elsewhere_is_not_called_done() -> None:
    """R8: seed 84269. A lock's body takes effect in the process it was taken from, after the other has undone it."""
    check(84_269)


@pytest.mark.parametrize("seed", [1_695, 1_725])
def test_a_pause_between_two_tries_that_is_not_known_here_yet_fails_no_call(seed: int) -> None:
    """R4: the store has it already. The call ends as cut, and is made again when the run goes on."""
    check(seed)


def test_the_same_seed_tells_the_same_story() -> None:
    """A failing seed can be replayed: what the world saw is the same, to the last event."""
    for seed in (3, 11, 42):
        assert check(seed) == check(seed)
