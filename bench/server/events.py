"""How many events a second the server holds: written, and told to those who watch."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.server.served import server, until

RUNS = 20


@dataclass(frozen=True)
class Rate:
    """Events a second, written and told, and seconds from the last run's end until the last watcher has all."""

    watchers: int
    a_second: float
    told_a_second: float
    lag: float


def rate(directory: Path, watchers: int, steps: int) -> Rate:
    """Runs that make steps as fast as they can, and watchers who each watch all of them."""
    with server(directory) as one:
        began = time.perf_counter()
        runs = [one.start("sprinter", steps=steps) for _ in range(RUNS)]
        given = {"url": one.socket_url, "token": one.token, "runs": runs, "count": watchers}
        command = [sys.executable, "-m", "bench.server.watchers", json.dumps(given)]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True) if watchers else None
        left = set(runs)
        until(lambda: not left.difference_update(one.done(left)) and not left, "all runs are done", 300)
        ended, ended_at = time.perf_counter(), time.time()
        events = sum(one.view(run)["seq"] for run in runs)
        written = events / (ended - began)
        if watching is None:
            return Rate(watchers, written, 0.0, 0.0)
        said, _ = watching.communicate(timeout=300)
        told, seconds, last_at = said.split()
        if int(told) != events * watchers:
            raise SystemExit(f"{told} events were told, {events} x {watchers} are in the record")
        return Rate(watchers, written, int(told) / float(seconds), max(0.0, float(last_at) - ended_at))
