"""Measures every contender in one run, prints a table of ratios, writes docs/bench.md and docs/bench.svg."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench import plot, report
from bench.contenders import CONTENDERS
from bench.measure import Bench


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (medians are shown)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: shows that it runs, not how fast")
    parser.add_argument("--only", nargs="*", default=[], metavar="MODULE", help="contenders by module name")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where bench.md and bench.svg go")
    parser.add_argument("--dir", type=Path, default=Path("build"), help="where files are made: a real disk")
    asked = parser.parse_args()

    unknown = set(asked.only) - {contender.module for contender in CONTENDERS}
    if unknown:
        parser.error(f"no such contender: {', '.join(sorted(unknown))}")
    contenders = [contender for contender in CONTENDERS if not asked.only or contender.module in asked.only]
    asked.dir.mkdir(parents=True, exist_ok=True)
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=asked.dir) as directory:
        rounds, scale = (1, 0.1) if asked.quick else (asked.rounds, 1.0)
        bench = Bench(contenders, Path(directory).resolve(), rounds, scale)
        for part in (bench.durable_steps, bench.syncs, bench.concurrent, bench.resume, bench.paused, bench.ours):
            start = time.perf_counter()
            part()
            print(f"{part.__name__}: {time.perf_counter() - start:.0f} s", flush=True)
    print()
    print(report.as_text(*report.rows(contenders, bench.figures)))
    print()
    print(report.paragraph(contenders, bench.figures))
    print()
    print(report.ours(bench.stops, bench.chat))
    report.write(asked.out / "bench.md", contenders, bench.figures, report.ours(bench.stops, bench.chat))
    plot.draw(asked.out / "bench.svg", contenders, bench.figures)
