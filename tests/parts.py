"""Every test runs in exactly one part, the parts run side by side, and one red part makes the whole red.

Most tests wait: for processes, browsers, clocks, leases. Others only count: seeds, crash images, mutants. Side by
side the second fill the time that the first wait; being polite (nice), they never take it from a test that looks
at a clock. `python -m tests.parts --workers 2` is what `make test` runs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COUNTING = ("tests/crash", "tests/frames/test_histories.py", "tests/mutants", "tests/page", "tests/races")
MCP = "tests/adapters/mcp"
SECTION = re.compile(r"^(\x1b\[[0-9;]*m)*=+ .* =+")
NO_TESTS = 5  # pytest's exit code; a part of which nothing is left by -k or -m is not red


@dataclass(frozen=True)
class Part:
    """One pytest beside others."""

    name: str
    python: str
    workers: int
    chosen: tuple[str, ...]
    polite: bool = False

    def command(self, more: Iterable[str]) -> list[str]:
        return [
            *(("nice", "-n", "10") if self.polite else ()),
            # Unbuffered by option, not by environment: the programs that tests start must flush by themselves.
            *(self.python, "-u", "-m", "pytest", "-q", "-n", str(self.workers), "--dist", "worksteal"),
            *("-o", f"cache_dir=.pytest_cache/{self.name}", "--color", "yes" if sys.stdout.isatty() else "no"),
            *self.chosen,
            *more,
        ]


def parts(workers: int, mcp1: str | None = None) -> list[Part]:
    """What is not counting is waiting, so that a new folder needs no place here."""
    rest = ("tests", *(f"--ignore={path}" for path in COUNTING))
    all_parts = [
        Part("waiting", sys.executable, workers + 1, rest),
        Part("counting", sys.executable, workers, COUNTING, polite=True),
    ]
    if mcp1 is not None:
        all_parts.append(Part("mcp1", mcp1, 1, (MCP,)))
    return all_parts


def environment() -> dict[str, str]:
    """Hundreds of tests start a Python of their own: none of them should have to compile the library again."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Printer:
    """Progress of all parts line by line; failures and summary of one part as one block."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._width = max(len(part.name) for part in parts)
        self._lock = threading.Lock()

    def show(self, part: Part, lines: Iterable[str]) -> None:
        text = "".join(f"{part.name:{self._width}} | {line}" for line in lines)
        with self._lock:
            print(text, end="", flush=True)

    def follow(self, part: Part, output: Iterator[str]) -> str:
        """Until the part has ended; its last line, which says how many passed."""
        held: list[str] = []
        last = ""
        for line in output:
            last = line.strip() or last
            if held or SECTION.match(line):
                held.append(line)
            else:
                self.show(part, [line])
        self.show(part, held)
        return last


def run(parts: list[Part], more: list[str]) -> int:
    """0 if every part is green."""
    printer, ends = Printer(parts), dict[Part, tuple[int, str]]()
    began = time.monotonic()

    def one(part: Part) -> None:
        command = part.command(more)
        with subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            said = printer.follow(part, process.stdout)
        ends[part] = (process.returncode, said)

    threads = [threading.Thread(target=one, args=(part,), name=part.name) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        _wait(thread)
    print(f"\nall parts, {time.monotonic() - began:.0f} s:")
    red = False
    for part in parts:
        code, said = ends.get(part, (1, "it did not end"))
        bad = code not in (0, NO_TESTS)
        red = red or bad
        print(f"{'RED ' if bad else 'green'} {part.name}: {said}")
    return 1 if red or all(ends[part][0] == NO_TESTS for part in parts) else 0


def _wait(thread: threading.Thread) -> None:
    """Ctrl-C reaches the parts as well: they clean up and report, and we wait for that."""
    while thread.is_alive():
        try:
            thread.join()
        except KeyboardInterrupt:
            continue


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Anything else goes to every pytest.")
    parser.add_argument("--workers", type=int, default=2, help="cores to keep busy")
    parser.add_argument("--mcp1", metavar="PYTHON", help="the Python of the environment with the older MCP SDK")
    options, more = parser.parse_known_args()
    return run(parts(options.workers, options.mcp1), more)


if __name__ == "__main__":
    sys.exit(main())
