"""Every guard of ours is guarded itself: taken away, some test turns red. The score is in the summary."""

from __future__ import annotations

from typing import Any

import pytest
from tests.mutants.frame_mutants import FRAME_MUTANTS
from tests.mutants.mutants import MUTANTS, Mutant
from tests.mutants.run import ALL, PLAYED, caught, scenario
from tests.trials import SOAK, trials

SEEDS = trials(300, 300, 2_000)
HANGS = 40  # seconds: a scenario takes one or two, and many a mutant makes it wait for what never comes


@pytest.mark.more
@pytest.mark.soak
@pytest.mark.timeout(3600 if SOAK else 240)
@pytest.mark.parametrize("mutant", ALL, ids=lambda m: m.name.replace(" ", "-"))
def test_mutant_is_caught(mutant: Mutant, record_property: Any) -> None:
    limit = 200 if mutant.caught_by in PLAYED else HANGS
    red, by = caught(mutant, SEEDS, 3000 if SOAK else limit)
    record_property("mutant", "caught" if red else "survived")
    assert red, f"nothing noticed that {mutant.name}"
    print(by)


@pytest.mark.parametrize("guard", sorted({m.caught_by for m in ALL} - {*PLAYED}))
def test_guard_holds(guard: str) -> None:
    scenario(guard)()


def test_there_are_enough_mutants() -> None:
    assert len(MUTANTS) >= 15
    assert len(FRAME_MUTANTS) >= 8
    assert len({m.name for m in ALL}) == len(ALL)
