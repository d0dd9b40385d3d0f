"""Leaks of every kind, streamed in pieces within other talk: which are noticed, and how much had come out by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from bench.tripwire.leaks import Leak
from standfast.tripwire import Listening, Tripwire

BEFORE = "Certainly. I have looked at your question with care, and here is what I can tell you about it:\n\n"
AFTER = "\n\nI hope that this is of use. Please tell me if there is anything else you would like to know today."


@dataclass
class Seen:
    """What came of one kind of leak."""

    tried: int = 0
    noticed: int = 0
    heard: list[float] = field(default_factory=list[float])  # characters of the secret, when it tripped
    out: list[float] = field(default_factory=list[float])  # of those, how many had left

    @property
    def share(self) -> float:
        return self.noticed / self.tried


def recall(leak: Leak, prompts: Sequence[str], tripwire: Tripwire, chance: Random) -> Seen:
    """Every prompt once."""
    seen = Seen()
    for prompt in prompts:
        said = leak(prompt, chance)
        secret = tripwire.prepared(prompt)
        seen.tried += 1
        heard = _heard(BEFORE + said + AFTER, Listening(secret, stops=True), chance)
        if heard is not None:
            end, left = heard
            scale = len(prompt) / len(said)
            seen.noticed += 1
            seen.heard.append(max(0, end - len(BEFORE)) * scale)
            seen.out.append(max(0, left - len(BEFORE)) * scale)
    return seen


def _heard(text: str, watch: Listening, chance: Random) -> tuple[int, int] | None:
    """Where it tripped, and how much had been let through by then."""
    at, left = 0, 0
    while at < len(text):
        piece = text[at : at + chance.randint(1, 8)]
        left += len(watch.hear("text", piece))
        at += len(piece)
        for trip in watch.trips():
            return trip.end, left
    return None
