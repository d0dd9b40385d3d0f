"""What evidence costs: `python -m bench.record` measures a durable step with and without it, and the time to verify.

Variants take turns in one process, so that a noisy machine does not decide; ratios are against the bare step next to
it in time. Writes docs/bench-record.md.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.workloads import body, read_call
from standfast import Budget, Done, Run, Runtime, agent, tool
from standfast.evidence.keys import load_public
from standfast.evidence.notary import Notary
from standfast.evidence.store_check import verify_store
from standfast.stores import sqlite_tx

TARGET = 0.10  # chain and signatures may cost so much of a durable step
WARM = 200


@dataclass
class Work:
    """How many steps are left, and 2 KB that change."""

    left: int
    text: str = ""
    timed_from: int = 0


@tool(effect="read")
async def look(seq: int) -> str:
    """One read call a step."""
    return read_call(seq)


@agent("worker", budget=Budget())  # without caps
async def worker(run: Run[Work]) -> Done[float] | None:
    """A step: one read call, and a state of 2 KB that changes."""
    s = run.state
    s.text = await run.call(look(s.left))
    s.left -= 1
    if s.left == s.timed_from:
        clock.began, clock.used = time.perf_counter(), time.process_time()
    return Done(0.0) if s.left <= 0 else None


class Clock:
    """When the steps that count began, and what the process had used of its processors by then."""

    began = 0.0
    used = 0.0


clock = Clock()


@contextmanager
def unchained() -> Generator[None, None, None]:
    """Rows get numbers in place of hashes: what a record without a chain would cost."""
    numbers = itertools.count(1)
    module: Any = sqlite_tx
    was = {name: getattr(module, name) for name in ("link", "digests", "_fits")}

    def number(*_: object) -> bytes:
        return next(numbers).to_bytes(32, "big")

    module.link, module.digests, module._fits = number, lambda *_: b"", lambda *_: True
    try:
        yield
    finally:
        vars(module).update(was)


@contextmanager
def chained() -> Generator[None, None, None]:
    yield


@dataclass(frozen=True)
class Variant:
    title: str
    chain: Any = chained
    signs: bool = False
    redacts: bool = False


BARE = Variant("bare: no chain, no signatures, no redaction", unchained)
VARIANTS = [
    Variant("chain"),
    Variant("chain and signatures", signs=True),
    Variant("chain, signatures and redaction (the default)", signs=True, redacts=True),
]


async def steps(variant: Variant, folder: Path, n: int) -> tuple[float, float]:
    """Seconds a step, and seconds of processor time a step, of all threads."""
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made, variant.chain():
        notary = Notary() if variant.signs else False
        async with Runtime(Path(made) / "runs.db", [worker], notary=notary, redact=variant.redacts) as runs:
            run = await runs.start(worker, Work(n + WARM, body(0), n))
            await run.result(timeout=600)
            return (time.perf_counter() - clock.began) / n, (time.process_time() - clock.used) / n


@dataclass
class Figures:
    """Of one variant: times the bare steps beside it, and processor time beyond theirs."""

    ratios: list[float] = field(default_factory=list[float])
    extra: list[float] = field(default_factory=list[float])


def measure(folder: Path, n: int, rounds: int) -> tuple[float, float, dict[str, Figures]]:
    """The bare step in seconds and in processor time, and each variant beside it."""
    bare: list[tuple[float, float]] = []
    found = {variant.title: Figures() for variant in VARIANTS}
    for turn in range(rounds):
        before = asyncio.run(steps(BARE, folder, n))
        for variant in VARIANTS[turn % len(VARIANTS) :] + VARIANTS[: turn % len(VARIANTS)]:
            value = asyncio.run(steps(variant, folder, n))
            after = asyncio.run(steps(BARE, folder, n))
            bare += [before, after]
            found[variant.title].ratios.append(value[0] / ((before[0] + after[0]) / 2))
            found[variant.title].extra.append(value[1] - (before[1] + after[1]) / 2)
            before = after
    return statistics.median(one[0] for one in bare), statistics.median(one[1] for one in bare), found


async def filled(path: Path, events: int) -> None:
    """A store with at least so many events, signed as it grew."""
    async with Runtime(path, [worker]) as runs:
        handles = [await runs.start(worker, Work(events // 30 + 10)) for _ in range(10)]
        for run in handles:
            await run.result(timeout=1200)


def verified(folder: Path, events: int) -> tuple[int, int, float]:
    """Events and checkpoints of a store, and the seconds it took to verify them."""
    path = folder / "runs.db"
    asyncio.run(filled(path, events))
    began = time.perf_counter()
    report = verify_store(path, [load_public(f"{path}.pub")])
    seconds = time.perf_counter() - began
    assert not report.of("broken"), report.of("broken")
    runs = [one.text for one in report.of("proved") if one.what.startswith("run ")]
    signed = next(one.text for one in report.of("proved") if one.what == "checkpoints")
    return sum(int(text.split()[0]) for text in runs), int(signed.split()[0]), seconds


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--write", type=Path, default=Path("docs/bench-record.md"))
    parser.add_argument("--dir", type=Path, default=None, help="where the stores are made")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=asked.dir, ignore_cleanup_errors=True) as made:
        bare, used, found = measure(Path(made), asked.steps, asked.rounds)
        (Path(made) / "verify").mkdir()
        events, checkpoints, seconds = verified(Path(made) / "verify", asked.events)
    text = report(asked, (bare, used), found, (events, checkpoints, seconds))
    asked.write.write_text(text)
    print(text)


def report(
    asked: argparse.Namespace,
    bare: tuple[float, float],
    found: dict[str, Figures],
    check: tuple[int, int, float],
) -> str:
    """The figures as a page."""
    rows = [
        f"| {title} | {statistics.median(one.ratios):.2f} ({min(one.ratios):.2f} to {max(one.ratios):.2f}) "
        f"| {statistics.median(one.extra) * 1e6:+.0f} µs |"
        for title, one in found.items()
    ]
    signed = statistics.median(found["chain and signatures"].ratios) - 1
    processor = statistics.median(found["chain and signatures"].extra) / bare[0]
    word = "within" if max(signed, processor) <= TARGET else "above"
    events, checkpoints, seconds = check
    return "\n".join(
        [
            "# What evidence costs",
            "",
            "Made by `python -m bench.record`; ratios are against the bare step measured next to it in time.",
            f"Python {platform.python_version()}, {os.cpu_count()} cores; {asked.rounds} x {asked.steps} steps.",
            "",
            "| a durable step (one read call, 2 KB of state) | times bare (lowest to highest round) | processor time |",
            "|---|---|---|",
            f"| {BARE.title} | 1 ({bare[0] * 1e6:.0f} µs) | {bare[1] * 1e6:.0f} µs |",
            *rows,
            "",
            f"Chain and signatures cost {signed:+.0%} of a durable step by the clock, and processor time worth "
            f"{processor:.0%} of it: {word} the {TARGET:.0%} that were allowed. On a disk that others use too, "
            "the clock says little; processor time is what they add.",
            "Signatures are made by a thread of their own, at stops, every 1,000 commits and every minute.",
            "",
            f"Verifying {events:,} events under {checkpoints} checkpoints took {seconds:.1f} s "
            f"({seconds / events * 1e6:.0f} µs an event).",
            "",
        ]
    )


if __name__ == "__main__":
    main(sys.argv[1:])
