"""What every contender must do, in the same words and sizes."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import NamedTuple, Protocol

STATE_BYTES = 2048


class Paused(NamedTuple):
    """What one paused run costs while nothing happens."""

    kb: float
    cpu_share: float  # of one core, for all of them together


class Peer(Protocol):
    """A module of bench/peers. All of it runs in a process of its own; importing it imports the peer."""

    def durable_steps(self, path: str, n: int, warm: int = 700) -> float:
        """W1: seconds a step of one run, one read call and a changed 2 KB state each, after `warm` such steps."""
        ...

    def concurrent(self, path: str, runs: int, steps: int) -> float:
        """W2: steps a second of so many runs of so many steps each, at once in one process."""
        ...

    def prepare_resume(self, path: str, steps: int) -> None:
        """Leaves a run that has made so many steps and is not finished."""
        ...

    def resume_seconds(self, path: str, steps: int) -> float:
        """W3: seconds, in a process that has only imported the peer, until the next call of that run starts."""
        ...

    def paused_kb(self, path: str, n: int) -> Paused | None:
        """W5: what each of n runs costs once it is paused in this process; None where nothing can be paused."""
        ...


def body(seq: int) -> str:
    """A state of 2 KB that differs from step to step."""
    return f"{seq:08d}" * (STATE_BYTES // 8)


def read_call(seq: int) -> str:
    """The one call of a step: reads nothing, so that only the bookkeeping is measured."""
    return body(seq)


class MemoryAndCpu:
    """Made before n runs are paused; `cost(n)` is what they added."""

    def __init__(self) -> None:
        self._before = _resident_kb()

    def cost(self, n: int, watch: float = 1.0) -> Paused:
        kb = (_resident_kb() - self._before) / n
        cpu, wall = time.process_time(), time.perf_counter()
        time.sleep(watch)
        return Paused(max(0.0, kb), (time.process_time() - cpu) / (time.perf_counter() - wall))


def _resident_kb() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024
