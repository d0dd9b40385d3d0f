"""Every test runs in exactly one part, the parts run side by side, and one red part makes the whole red.

Most tests wait: for processes, browsers, leases. Others only count: seeds, crash images, mutants. Side by side the
one kind fills the time that the other waits. Tests that look at a clock come first: whatever runs beside them gives
way a little (nice). `python -m tests.parts` is what `make test` runs: everything but what is marked `more`. With
`--more` it runs what `make test-all` adds: that, and again, with larger numbers, what is marked `soak`.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
CLOCKED = ("adapters", "cancel", "conformance", "core", "drivers", "fence", "models", "unit")
COUNTING = ("crash", "frames/test_histories.py", "mutants", "races")
MCP = "tests/adapters/mcp"
FRAMEWORKS = "tests/fence/test_frameworks.py"
SECTION = re.compile(r"^(\x1b\[[0-9;]*m)*=+ .* =+")
NO_TESTS = 5  # pytest's exit code
GREEN = {0, NO_TESTS}  # -k or -m may leave nothing of a part
NOT_RUN = "not run: "  # how a line begins that says how many tests were skipped, and why


@dataclass(frozen=True)
class Part:
    """One pytest beside others."""

    name: str
    python: str
    workers: int
    nice: int
    chosen: tuple[str, ...]

    def command(self, more: Iterable[str]) -> list[str]:
        return [
            *("nice", "-n", str(self.nice)),
            # Unbuffered by option, not by environment: the programs that tests start must flush by themselves.
            *(self.python, "-u", "-m", "pytest", "-q", "-n", str(self.workers), "--dist", "worksteal"),
            *("-o", f"cache_dir=.pytest_cache/{self.name}", "--color", "yes" if sys.stdout.isatty() else "no"),
            *self.chosen,
            *more,
        ]


def parts(workers: int, *, more: bool = False, mcp1: str = "", frameworks: str = "") -> list[Part]:
    """What is in no list waits, so that a new folder needs no place here."""
    chosen = ("-m", "more or soak" if more else "not more")
    clocked, counting = (tuple(f"tests/{path}" for path in paths) for paths in (CLOCKED, COUNTING))
    rest = ("tests", *(f"--ignore={path}" for path in (*clocked, *counting)))
    all_parts = [
        Part("clocked", sys.executable, 3 * workers, 0, (*chosen, *clocked, f"--ignore={FRAMEWORKS}")),
        Part("waiting", sys.executable, 2 * workers, 1, (*chosen, *rest)),
        # Many a mutant hangs until it is given up.
        Part("counting", sys.executable, 2 * workers if more else workers, 2, (*chosen, *counting)),
    ]
    if mcp1:
        all_parts.append(Part("mcp1", mcp1, 1, 0, (MCP,)))
    if frameworks:
        all_parts.append(Part("frameworks", frameworks, 1, 0, (FRAMEWORKS,)))
    return all_parts


def environment() -> dict[str, str]:
    """Hundreds of tests start a Python of their own: none of them should have to compile the library again."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Printer:
    """Progress of all parts line by line; failures and summary of one part as one block."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._width = max(len(part.name) for part in parts)
        self._lock = threading.Lock()
        self.not_run: Counter[str] = Counter()  # how many tests, by reason

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
            if line.startswith(NOT_RUN):
                count, _, reason = line.removeprefix(NOT_RUN).strip().partition(" x ")
                self.not_run[reason] += int(count)
            elif held or SECTION.match(line):
                held.append(line)
            elif line.strip() and not line.startswith("bringing up nodes"):
                self.show(part, [line])
        self.show(part, held)
        return last


def run(parts: list[Part], more: list[str]) -> int:
    """0 if every part is green."""
    printer, ended = Printer(parts), SimpleQueue[tuple[Part, tuple[int, str]]]()
    began = time.monotonic()
    started = [(part, _start(part, more)) for part in parts]

    def follow(part: Part, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process:
            said = printer.follow(part, process.stdout)
        ended.put((part, (process.returncode, said)))

    for one in started:
        threading.Thread(target=follow, args=one, name=one[0].name, daemon=True).start()
    ends = dict(_next(ended, [process for _, process in started]) for _ in parts)
    print(f"\nall parts, {time.monotonic() - began:.0f} s:")
    for part in parts:
        code, said = ends[part]
        print(f"{'green' if code in GREEN else 'RED  '} {part.name}: {said}")
    for reason, count in sorted(printer.not_run.items()):
        print(f"not run: {count} {'test' if count == 1 else 'tests'}: {reason}")
    codes = {code for code, _ in ends.values()}
    return 0 if codes <= GREEN and codes != {NO_TESTS} else 1


def _start(part: Part, more: list[str]) -> subprocess.Popen[str]:
    out = subprocess.PIPE
    return subprocess.Popen(
        part.command(more), cwd=ROOT, env=environment(), stdout=out, stderr=subprocess.STDOUT, text=True
    )


def _next(ended: SimpleQueue[T], processes: list[subprocess.Popen[str]]) -> T:
    """Ctrl-C has reached the parts as well: they clean up and report, and we wait for that. SIGTERM is passed on."""
    while True:
        try:
            return ended.get()
        except KeyboardInterrupt:
            continue
        except SystemExit:
            for process in processes:
                process.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Anything else goes to every pytest.")
    parser.add_argument("--workers", type=int, default=2, help="cores to keep busy")
    parser.add_argument("--more", action="store_true", help="what `make test-all` adds, instead of `make test`")
    parser.add_argument("--mcp1", metavar="PYTHON", help="the Python of the environment with the older MCP SDK")
    parser.add_argument("--frameworks", metavar="PYTHON", help="the Python of the environment with agent frameworks")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options, more = parser.parse_known_args()
    if options.more:
        os.environ["STANDFAST_MORE"] = "1"  # see tests/trials.py
    chosen = parts(options.workers, more=options.more, mcp1=options.mcp1, frameworks=options.frameworks)
    return run(chosen, more)


if __name__ == "__main__":
    sys.exit(main())
