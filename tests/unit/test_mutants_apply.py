"""Code moves: a mutant that no longer applies is told at once, not when its turn comes."""

from __future__ import annotations

from tests.mutants.run import ALL, SOURCE


def test_every_mutant_changes_what_is_there() -> None:
    places = [(m.name, *place) for m in ALL for place in ((m.file, m.old, m.new), *m.also)]
    assert [name for name, file, old, _ in places if old not in (SOURCE / file).read_text()] == []
