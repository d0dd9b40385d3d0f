"""Measures the server with real pages at it, prints ratios, writes docs/bench-server.md."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from bench.server import browser, report
from bench.server.events import Rate, rate
from bench.server.memory import TOKENS, Kept, kept
from bench.server.report import Load
from bench.server.served import bare_server, pages, server
from bench.server.verbs import Latency, bare_posts, latencies

LOADS = ((1, 0), (200, 50))  # live runs, open pages
WATCHERS = (0, 1, 50)
STEPS = 100


def load(directory: Path, live: int, watching: int, trials: int) -> Load:
    """Verbs on one run more than those that are live beside it, and a bare POST before and after them."""
    with server(directory) as one, bare_server() as bare:
        runs = [one.start("thinker") for _ in range(live - 1)]
        with pages(one, runs, watching):
            time.sleep(3)  # until all are under way
            before = bare_posts(bare, trials)
            taken = latencies(one, trials, {})
            after = bare_posts(bare, trials)
    return Load(live, watching, taken, Latency.of(before + after))


def clicks(directory: Path, trials: int) -> Load:
    """The same, pressed on a real page."""
    with server(directory) as one, bare_server() as bare:
        before = bare_posts(bare, trials)
        taken = browser.clicks(one, trials)
        after = bare_posts(bare, trials)
    return Load(1, 1, taken, Latency.of(before + after))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.server", description=__doc__)
    parser.add_argument("--trials", type=int, default=30, help="how often each verb is asked")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: shows that it runs, not how fast")
    parser.add_argument("--out", type=Path, default=Path("docs/bench-server.md"))
    parser.add_argument("--dir", type=Path, default=Path("build"), help="where files are made: a real disk")
    asked = parser.parse_args()
    asked.dir.mkdir(parents=True, exist_ok=True)
    trials, scale = (3, 10) if asked.quick else (asked.trials, 1)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=asked.dir) as folder:
        directory = Path(folder).resolve()
        loads = [load(directory, live, watching, trials) for live, watching in LOADS]
        rates: list[Rate] = [rate(directory, watchers, STEPS // scale) for watchers in WATCHERS]
        clicked: Load | None = None
        memory: list[Kept] = []
        if browser.CHROMIUM is None:
            print("neither clicks nor the page's memory are measured: chromium is missing")
        else:
            clicked = clicks(directory, max(3, trials // 2))
            tokens = TOKENS // scale
            memory = [kept(directory, title, calls, tokens) for title, calls in (("one call", 1), ("100 calls", 100))]
    page = report.page(loads, clicked, rates, memory)
    print(page)
    asked.out.write_text(page)


if __name__ == "__main__":
    main()
