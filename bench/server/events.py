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
    """Events a second, and seconds from the end of all runs until the last watcher has the last event."""

    watchers: int
    a_second: float
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
        lag = 0.0
        if watching is not None:
            told, _ = watching.communicate(timeout=300)
            lag = float(told.split()[1]) - ended_at
            told = told.split()[0]
            if int(told) != events * watchers:
                raise SystemExit(f"{told} events were told, {events} x {watchers} are in the record")
        return Rate(watchers, events / (ended - began), max(0.0, lag))
