"""Measures every loop in one run, prints ratios, writes docs/bench-thinking.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

TURNS = 50
TOKENS = 5_000
LIMIT = 300.0


@dataclass(frozen=True)
class Loop:
    title: str
    module: str
    durable: bool
    packages: tuple[str, ...] = ()


BARE = Loop("the SDK in a loop", "bare_sdk", False, ("openai",))
LOOPS = [
    Loop("standfast, one's own loop", "standfast_own", True),
    Loop("standfast, LLMAgent", "standfast_llm", True),
    Loop("LangGraph, AsyncSqliteSaver", "langgraph_agent", True, ("langgraph", "langchain-openai")),
    Loop("Pydantic AI", "pydantic_ai_agent", False, ("pydantic-ai-slim",)),
]


class Provider:
    """The provider's process."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.thinking.provider"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def requests(self) -> list[float]:
        """When requests came."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        found: list[float] = json.loads(self._line())
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@contextmanager
def provider() -> Iterator[Provider]:
    one = Provider()
    try:
        yield one
    finally:
        one.close()


def measured(directory: Path, loop: Loop, function: str, url: str, **arguments: Any) -> Any:
    """The result of one measurement in a new process, with a new provider's connection."""
    with tempfile.TemporaryDirectory(dir=directory, ignore_cleanup_errors=True) as folder:
        given = json.dumps({"url": url, "path": str(Path(folder) / "runs.db"), **arguments})
        command = [sys.executable, "-m", "bench.thinking.worker", loop.module, function, given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise SystemExit(f"{loop.title}, {function}: exit {done.returncode}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def against_bare(directory: Path, loops: list[Loop], rounds: int, function: str, **arguments: Any) -> dict[str, Any]:
    """Median seconds and median ratio of each loop: bare, A, bare, B, bare."""
    seconds: dict[str, list[float]] = {loop.module: [] for loop in (BARE, *loops)}
    ratios: dict[str, list[float]] = {loop.module: [] for loop in loops}

    def once(loop: Loop) -> float:
        with provider() as one:
            taken = float(measured(directory, loop, function, one.url, **arguments))
        seconds[loop.module].append(taken)
        return taken

    for _ in range(rounds):
        before = once(BARE)
        for loop in loops:
            taken = once(loop)
            after = once(BARE)
            ratios[loop.module].append(taken / ((before + after) / 2))
            before = after
    return {
        module: (statistics.median(many), statistics.median(ratios[module]) if module in ratios else 1.0)
        for module, many in seconds.items()
    }


def waits(directory: Path, n: int) -> list[float]:
    """Seconds from a redirect "now" to the new request at the provider."""
    with provider() as one:
        asked = measured(directory, LOOPS[1], "redirects", one.url, n=n)
        came = one.requests()
    return [min(at for at in came if at > when) - when for when in asked]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.thinking", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/bench-thinking.md"))
    parser.add_argument("--dir", type=Path, default=Path("build"), help="where files are made: a real disk")
    asked = parser.parse_args()
    asked.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=asked.dir) as folder:
        directory = Path(folder).resolve()
        turns = against_bare(directory, LOOPS, asked.rounds, "turns", n=TURNS)
        streams = against_bare(directory, LOOPS[:1], asked.rounds, "stream_seconds", tokens=TOKENS)
        growth = measured(directory, LOOPS[1], "growth", "", n=200)
        redirected = waits(directory, 30)
    page = report(turns, streams[LOOPS[0].module][1], growth, redirected)
    print(page)
    asked.out.write_text(page)


def report(turns: dict[str, Any], stream: float, growth: dict[str, float], redirected: list[float]) -> str:
    rows = [_row(loop, turns[loop.module]) for loop in (BARE, *LOOPS)]
    packages = [f"{name} {version(name)}" for loop in (BARE, *LOOPS) for name in loop.packages]
    setting = ", ".join([f"Python {platform.python_version()}", *packages, f"{os.cpu_count()} cores"])
    lines = [
        "# What thinking costs",
        "",
        "Made by `make bench-thinking`. One provider on the loopback for all, in a process of its own; the SDK in a "
        f"bare loop is measured right before and after every other. A turn is one streamed model call and one tool; "
        f"a run has {TURNS} of them, so that the conversation grows. Medians.",
        "",
        "| loop | durable | a turn, times the bare loop | |",
        "| --- | --- | --- | --- |",
        *rows,
        "",
        f"A stream of {TOKENS:,} tokens takes {stream:.3f} times what the bare SDK takes: "
        f"{_lost(stream)} of the tokens a second are lost to standfast.",
        "",
        "A conversation that grows to 200 KB: a turn of a scripted LLMAgent takes "
        f"{growth['first_seconds'] * 1e3:.2f} ms and {growth['first_bytes']:,.0f} stored bytes in its first quarter, "
        f"{growth['last_seconds'] * 1e3:.2f} ms and {growth['last_bytes']:,.0f} in its last.",
        "",
        'From a redirect "now" to the new request at the provider: '
        f"median {statistics.median(redirected) * 1e3:.1f} ms, "
        f"worst of {len(redirected)} {max(redirected) * 1e3:.1f} ms.",
        "",
        f"Measured with {setting}.",
    ]
    return "\n".join(lines) + "\n"


def _row(loop: Loop, figures: tuple[float, float]) -> str:
    seconds, ratio = figures
    return f"| {loop.title} | {'yes' if loop.durable else 'no'} | {ratio:.2f}x | {seconds * 1e3:.2f} ms |"


def _lost(ratio: float) -> str:
    return f"{max(0.0, 1 - 1 / ratio):.1%}"


if __name__ == "__main__":
    main()
