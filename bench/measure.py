"""Runs the workloads so that a noisy machine does not decide: raw SQLite before and after every measurement."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.chat import Growth, growth
from bench.contenders import RAW, Contender
from bench.stops import TRIALS, Latency, latencies

CONCURRENT_RUNS = 100
RESUME_STEPS = (10, 1_000, 10_000)
_WORKER_LIMIT = 300.0


@dataclass
class Figures:
    """What was measured of one contender; a ratio is against raw SQLite next to it in time."""

    import_seconds: float = 0.0
    step_seconds: float = 0.0
    step_ratio: float | None = None
    syncs_a_step: float | None = None
    concurrent_rate: float = 0.0
    concurrent_ratio: float | None = None
    resume_seconds: dict[int, float] = field(default_factory=dict[int, float])
    paused_kb: float | None = None
    paused_cpu: float | None = None


class WorkloadError(Exception):
    """A contender's process ended without a result."""


def call(contender: Contender, workload: str, prefix: Sequence[str] = (), **arguments: Any) -> dict[str, Any]:
    """The result of one workload in a new process."""
    command = [*prefix, sys.executable, "-m", "bench.worker", contender.module, workload, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WORKER_LIMIT, check=False)
    if done.returncode:
        raise WorkloadError(f"{contender.title}, {workload}: exit {done.returncode}\n{done.stderr[-4000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@contextmanager
def scratch(parent: Path) -> Generator[str, None, None]:
    """A new file's path in a directory of its own, removed afterwards."""
    with tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True) as directory:
        yield str(Path(directory) / "runs.db")


def interleave(
    contenders: Sequence[Contender], rounds: int, once: Callable[[Contender], float]
) -> tuple[dict[str, float], dict[str, float]]:
    """Median value and median ratio by module: raw, A, raw, B, raw; each round begins with another contender."""
    values: dict[str, list[float]] = {contender.module: [] for contender in (RAW, *contenders)}
    ratios: dict[str, list[float]] = {contender.module: [] for contender in contenders}
    for turn in range(rounds):
        shift = turn % max(1, len(contenders))
        raw_before = once(RAW)
        values[RAW.module].append(raw_before)
        for contender in [*contenders[shift:], *contenders[:shift]]:
            value = once(contender)
            raw_after = once(RAW)
            values[contender.module].append(value)
            values[RAW.module].append(raw_after)
            ratios[contender.module].append(value / ((raw_before + raw_after) / 2))
            raw_before = raw_after
    return (
        {module: statistics.median(many) for module, many in values.items()},
        {module: statistics.median(many) for module, many in ratios.items()},
    )


class Bench:
    """Measures all contenders; files go below `directory`, which should be on the disk that matters."""

    def __init__(self, contenders: Sequence[Contender], directory: Path, rounds: int, scale: float = 1.0) -> None:
        self.contenders = contenders
        self.figures = {contender.module: Figures() for contender in (RAW, *contenders)}
        self.stops: list[Latency] = []
        self.chat: Growth | None = None
        self._directory = directory
        self._rounds = rounds
        self._scale = scale  # below 1 for a quick look

    def _scaled(self, count: int) -> int:
        return max(1, int(count * self._scale))

    def durable_steps(self) -> None:
        def once(contender: Contender) -> float:
            with scratch(self._directory) as path:
                done = call(contender, "durable_steps", path=path, n=self._scaled(300), warm=self._scaled(700))
            self.figures[contender.module].import_seconds = done["import"]
            return float(done["result"])

        values, ratios = interleave(self.contenders, self._rounds, once)
        for module, figures in self.figures.items():
            figures.step_seconds, figures.step_ratio = values[module], ratios.get(module)

    def syncs(self) -> None:
        """Counted by strace, as the difference of a long and a short run; left out where strace may not work."""
        if (
            shutil.which("strace") is None
            or subprocess.run(["strace", "true"], capture_output=True, check=False).returncode
        ):
            print("syncs a step are not counted: strace is missing or not permitted")
            return
        for contender in (RAW, *self.contenders):
            short, long = (self._sync_calls(contender, steps) for steps in (50, 150))
            self.figures[contender.module].syncs_a_step = (long - short) / 100

    def _sync_calls(self, contender: Contender, steps: int) -> int:
        with scratch(self._directory) as path:
            summary = Path(path).with_name("strace")
            strace = ["strace", "-f", "-c", "-o", str(summary), "-e", "trace=fsync,fdatasync,msync"]
            call(contender, "durable_steps", prefix=strace, path=path, n=steps, warm=0)
            rows = [line.split() for line in summary.read_text().splitlines()]
        return sum(int(row[3]) for row in rows if row and row[-1] in ("fsync", "fdatasync", "msync"))

    def ours(self) -> None:
        """What no peer can be asked to do: stop at once, and keep a growing chat flat."""
        if not any(contender.ours for contender in self.contenders):
            return
        with scratch(self._directory) as path:
            self.stops = latencies(path, self._scaled(TRIALS))
        with scratch(self._directory) as path:
            self.chat = growth(path)

    def concurrent(self) -> None:
        def once(contender: Contender) -> float:
            steps = self._scaled(contender.concurrent_steps)
            with scratch(self._directory) as path:
                return float(call(contender, "concurrent", path=path, runs=CONCURRENT_RUNS, steps=steps)["result"])

        values, ratios = interleave(self.contenders, self._rounds, once)
        for module, figures in self.figures.items():
            figures.concurrent_rate, figures.concurrent_ratio = values[module], ratios.get(module)

    def resume(self) -> None:
        # Preparing needs no durability: in memory where there is such a place. Resuming happens on the disk.
        memory = Path("/dev/shm")
        fast = memory if os.access(memory, os.W_OK) else self._directory
        for steps in sorted({self._scaled(steps) for steps in RESUME_STEPS}):
            for contender in (RAW, *self.contenders):
                with scratch(fast) as prepared:
                    call(contender, "prepare_resume", path=prepared, steps=steps)
                    taken = [self._resumed(contender, prepared, steps) for _ in range(min(3, self._rounds))]
                self.figures[contender.module].resume_seconds[steps] = statistics.median(taken)

    def _resumed(self, contender: Contender, prepared: str, steps: int) -> float:
        with scratch(self._directory) as path:
            shutil.copytree(Path(prepared).parent, Path(path).parent, dirs_exist_ok=True)
            return float(call(contender, "resume_seconds", path=path, steps=steps)["result"])

    def paused(self) -> None:
        for contender in self.contenders:
            with scratch(self._directory) as path:
                done = call(contender, "paused_kb", path=path, n=self._scaled(contender.paused_runs))
            if done["result"] is not None:
                figures = self.figures[contender.module]
                figures.paused_kb, figures.paused_cpu = done["result"]
