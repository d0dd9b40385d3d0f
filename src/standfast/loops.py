"""Loops: the same calls with the same results, or the same states, going round and round (R17).

What came lately is kept as a few entries and a counter for every length a cycle may have, so noticing one
costs the same however often it may repeat, and survives a restart with the run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

LONGEST = 5  # entries of a cycle
_SHOWN = 60  # characters of an entry

Entry = tuple[str, str, str]
"""What was asked, what came of it, and both in words for people."""


@dataclass(frozen=True, slots=True)
class Lately:
    """The last entries, the newest last; `again[p-1]` counts those in a row that equal the one p places before them."""

    seen: tuple[Entry, ...] = ()
    again: tuple[int, ...] = ()

    def after(self, entry: Entry, *, waited: bool = False) -> Lately:
        """With one more. Whoever waits on purpose in a cycle polls; that is a repeat only if nothing else is done."""
        what = entry[:2]
        again = tuple(
            count + 1 if self.seen[-p][:2] == what and not (waited and p > 1) else 0
            for p, count in enumerate(self.again, 1)
        )
        shown = entry[2] if len(entry[2]) <= _SHOWN else f"{entry[2][: _SHOWN - 3]}..."
        return Lately((*self.seen, (*what, shown))[-LONGEST:], (*again, 0)[:LONGEST])

    def cycle(self, repeats: int, asked: str | None = None) -> tuple[tuple[Entry, ...], int] | None:
        """The shortest cycle that came so often already and would go on with `asked`, and how often it came."""
        for p, count in enumerate(self.again, 1):
            rounds = count // p + 1
            if rounds >= max(repeats, min(p, 2)) and (asked is None or self.seen[-p][0] == asked):
                return self.seen[-p:], rounds
        return None


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a run did lately. Calls of models are apart: in a loop of tools each of them differs, for the chat grows."""

    tools: Lately = field(default_factory=Lately)
    models: Lately = field(default_factory=Lately)
    states: Lately = field(default_factory=Lately)  # after steps without a call


def called(rounds: Rounds, kind: str, asked: str, result: bytes, shown: str) -> Rounds:
    """After a call."""
    entry = (asked, _digest(result), shown)
    if kind == "model":
        return Rounds(rounds.tools, rounds.models.after(entry))
    return Rounds(rounds.tools.after(entry, waited=kind == "sleep"), rounds.models)


def stepped(rounds: Rounds, state: bytes) -> Rounds:
    """After a step that called nothing and read no mail."""
    return Rounds(rounds.tools, rounds.models, rounds.states.after(("", _digest(state), "")))


def before_call(rounds: Rounds, kind: str, asked: str, repeats: int) -> str:
    """Why this call would be one round too many, in words; empty if it is not."""
    found = (rounds.models if kind == "model" else rounds.tools).cycle(repeats, asked)
    if found is None:
        return ""
    cycle, times = found
    names = [entry[2] for entry in cycle]
    if len(names) == 1:
        return f"{names[0]}: the same call gave the same result {times} times in a row"
    verb = "alternate" if len(names) == 2 else "go round"
    return f"{', '.join(names[:-1])} and {names[-1]} {verb} with the same results, {times} times"


def before_step(rounds: Rounds, repeats: int) -> str:
    """Why another step would be one round too many, in words; empty if it is not."""
    found = rounds.states.cycle(max(repeats, 2))
    if found is None:
        return ""
    cycle, times = found
    if len(cycle) == 1:
        return f"{times} steps in a row called nothing and left the state as it was"
    return f"the state goes round {len(cycle)} values, {times} times, in steps that call nothing"


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()[:16]
