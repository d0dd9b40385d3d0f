"""DBOS on SQLite, with its defaults."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig

from bench.workloads import MemoryAndCpu, Paused, read_call

_VERSION = "bench"  # recovery takes up runs of the same version only


class _Watch:
    """Tells when the step with this number starts."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.started = 0.0
        self.reached = threading.Event()

    def saw(self, seq: int) -> None:
        if seq == self.at:
            self.started = time.perf_counter()
            self.reached.set()


def _configure(path: str) -> None:
    config: DBOSConfig = {
        "name": "bench",
        "system_database_url": f"sqlite:///{Path(path).resolve()}",
        "application_version": _VERSION,
        "executor_id": "bench",
        "log_level": "ERROR",
    }
    DBOS(config=config)


def _looping(watch: _Watch, freeze: bool = False) -> Any:
    @DBOS.step(name="step")
    def step(seq: int) -> str:
        watch.saw(seq)
        if freeze and seq == watch.at:
            threading.Event().wait()  # until the process is ended: the run stays unfinished
        return read_call(seq)

    @DBOS.workflow(name="loop")
    def loop(steps: int) -> int:
        for seq in range(steps):
            step(seq)
        return steps

    return loop


def durable_steps(path: str, n: int, warm: int = 700) -> float:
    watch = _Watch(warm)
    _configure(path)
    loop = _looping(watch)
    DBOS.launch()
    loop(warm + n)
    seconds = time.perf_counter() - watch.started
    DBOS.destroy()
    return seconds / n


def concurrent(path: str, runs: int, steps: int) -> float:
    _configure(path)
    loop = _looping(_Watch(-1))
    DBOS.launch()
    start = time.perf_counter()
    handles = [DBOS.start_workflow(loop, steps) for _ in range(runs)]
    for handle in handles:
        handle.get_result(polling_interval_sec=0.01)
    seconds = time.perf_counter() - start
    DBOS.destroy()
    return runs * steps / seconds


def _until_frozen(path: str, steps: int, start_it: bool) -> float:
    watch = _Watch(steps)
    start = time.perf_counter()
    _configure(path)
    loop = _looping(watch, freeze=True)
    DBOS.launch()  # takes up unfinished runs by itself
    if start_it:
        DBOS.start_workflow(loop, steps + 1)
    if not watch.reached.wait(120):
        raise AssertionError("the run did not come to its next step")
    return watch.started - start


def prepare_resume(path: str, steps: int) -> None:
    _until_frozen(path, steps, start_it=True)


def resume_seconds(path: str, steps: int) -> float:
    return _until_frozen(path, steps, start_it=False)


def paused_kb(path: str, n: int) -> Paused | None:
    """A paused run waits for a message in the process that started it."""
    _configure(path)

    @DBOS.workflow(name="waiting")
    async def waiting() -> None:
        await DBOS.recv_async("go on", timeout_seconds=3600)

    async def pause_all() -> Paused:
        DBOS.launch()
        for _ in range(20):  # caches fill first
            await DBOS.start_workflow_async(waiting)
        await asyncio.sleep(1)
        before = MemoryAndCpu()
        for _ in range(n):
            await DBOS.start_workflow_async(waiting)
        await asyncio.sleep(3)
        return await asyncio.to_thread(before.cost, n)

    # Not asyncio.run: it would wait for the runs, which never end.
    return asyncio.new_event_loop().run_until_complete(pause_all())
