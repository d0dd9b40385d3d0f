"""Ordinary text against every directive at once: how often would a tripwire trip at it?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from standfast.tripwire import Listening, Tripwire
from standfast.tripwire.folding import folded
from standfast.tripwire.scanning import LEAST_IN_A_ROW
from standfast.tripwire.variants import GRAM, grams, variants


@dataclass
class Trips:
    """What tripped: how much was read, and by which directive what was taken for a leak."""

    characters: int = 0
    directives: int = 0
    found: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


def false_trips(texts: Iterable[str], prompts: Sequence[str], tripwire: Tripwire) -> Trips:
    """Every text is read with the tripwire of every directive that could trip at it."""
    trips = Trips(directives=len(prompts))
    owners: dict[int, list[int]] = {}
    for index, prompt in enumerate(prompts):
        for gram in {gram for _, form in variants(prompt) for gram in grams(form)}:
            owners.setdefault(hash(gram), []).append(index)
    for text in texts:
        trips.characters += len(text)
        hits: Counter[int] = Counter()
        plain = folded(text)
        for at in range(len(plain) - GRAM + 1):
            for owner in owners.get(hash(plain[at : at + GRAM]), ()):
                hits[owner] += 1
        for owner, count in hits.items():
            if count >= LEAST_IN_A_ROW:  # fewer trip nothing
                watch = Listening(tripwire.prepared(prompts[owner]), stops=True)
                watch.hear("text", text)
                trips.found += [(owner, text[trip.start : trip.end]) for trip in watch.trips()]
    return trips
