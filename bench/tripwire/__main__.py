"""Measures the tripwire, prints what it found, writes it into docs/tripwire.md, and fails if a promise is broken."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import tracemalloc
from random import Random

import standfast.tripwire
from bench.tripwire.closing import closings
from bench.tripwire.crying_wolf import false_trips
from bench.tripwire.leaks import leaks
from bench.tripwire.ordinary import texts
from bench.tripwire.prompts import prompts
from bench.tripwire.recall import Seen, recall
from bench.tripwire.report import Figures, table, whole, write
from standfast import Tripwire
from standfast.tripwire import Listening
from standfast.tripwire.variants import Secret

ORDINARY = 12_000_000
DRAWS = 5  # of leaks that chance decides
PROMISED = {"verbatim": 0.99, "reformatted": 0.99, "encoded": 0.99, "20% of words replaced": 0.95}
MOST_LEFT = 64
MOST_SECONDS = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--characters", type=int, default=ORDINARY, help="of ordinary text")
    parser.add_argument("--dry", action="store_true", help="print only")
    asked = parser.parse_args()
    found = prompts()
    every = [text for one in found.values() for text in one]
    standfast.tripwire.MOST_PREPARED = len(every)  # each is used again and again
    tripwire = Tripwire()
    families: dict[str, dict[str, Seen]] = {}
    for family, kinds in leaks([word for text in every for word in text.split()]).items():
        families[family] = {
            name: recall(leak, every * (DRAWS if "%" in family else 1), tripwire, Random(family + name))
            for name, leak in kinds.items()
        }
        seen = whole(families[family])
        print(f"{family:24} {seen.share:8.2%}   left, worst: {max(seen.out):6.0f}", flush=True)
    trips = false_trips(texts(asked.characters), every, tripwire)
    print(f"false trips: {len(trips.found)} in {trips.characters:,} characters", flush=True)
    for owner, text in trips.found:
        print(f"  {every[owner][:60]!r} tripped at {text[:120]!r}")
    seconds, left = closings(max(found["our own"], key=len))
    print(f"closed within {max(seconds) * 1000:.1f} ms; {max(left)} characters had left")
    prepare, memory = _preparing(max(every, key=len))
    figures = Figures(
        sources={name: len(one) for name, one in found.items()},
        families=families,
        trips=trips,
        microseconds=_cost(every[0]),
        prepare=prepare,
        memory=memory,
        closings=seconds,
        left=left,
        python=platform.python_version(),
        load=os.getloadavg()[0],
    )
    print(f"\n{table(figures)}")
    if not asked.dry:
        write(figures)
    return _broken(figures)


def _cost(prompt: str) -> float:
    """Microseconds of processor time a character of ordinary text, four at a time, as tokens come."""
    text = "\n".join(texts(1_000_000))
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    best = float("inf")
    for _ in range(3):
        watch = Listening(Secret(prompt))
        began = time.process_time()
        for piece in pieces:
            watch.hear("text", piece)
        best = min(best, time.process_time() - began)
    return best / len(text) * 1e6


def _preparing(prompt: str) -> tuple[float, float]:
    """Milliseconds a thousand characters, and bytes a character."""
    began = time.process_time()
    Secret(prompt)
    seconds = time.process_time() - began
    tracemalloc.start()
    kept = Secret(prompt)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept.length
    return seconds * 1e6 / len(prompt), memory / len(prompt)


def _broken(figures: Figures) -> int:
    """Every promise that was not kept, said aloud."""
    broken: list[str] = []
    for family, least in PROMISED.items():
        seen = whole(figures.families[family])
        if seen.share < least:
            broken.append(f"{family}: {seen.share:.2%} noticed, {least:.0%} promised")
        if least == 0.99 and max(seen.out) > MOST_LEFT:
            broken.append(f"{family}: {max(seen.out):.0f} characters left, at most {MOST_LEFT} promised")
    if len(figures.trips.found) > figures.trips.characters / 10_000_000:
        broken.append(f"{len(figures.trips.found)} false trips in {figures.trips.characters:,} characters")
    if max(figures.closings) > MOST_SECONDS or max(figures.left) > MOST_LEFT:
        broken.append("the connection was closed too late")
    for one in broken:
        print(f"broken: {one}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
