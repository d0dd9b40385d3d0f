"""The yardstick: one table, WAL, synchronous=FULL, nothing else."""

from __future__ import annotations

import sqlite3
import time

from bench.workloads import Paused, read_call


def _open(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS step (run TEXT, seq INTEGER, body BLOB, UNIQUE (run, seq))")
    return db


def _commit(db: sqlite3.Connection, rows: list[tuple[str, int, str]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    for row in rows:
        db.execute("INSERT INTO step VALUES (?, ?, ?)", row)
    db.execute("COMMIT")


def durable_steps(path: str, n: int, warm: int = 700) -> float:
    db = _open(path)
    for seq in range(warm):
        _commit(db, [("run", seq, read_call(seq))])
    start = time.perf_counter()
    for seq in range(warm, warm + n):
        _commit(db, [("run", seq, read_call(seq))])
    seconds = time.perf_counter() - start
    db.close()
    return seconds / n


def concurrent(path: str, runs: int, steps: int) -> float:
    """Group commit: the rows of all runs share a commit."""
    db = _open(path)
    names = [f"run-{number}" for number in range(runs)]
    start = time.perf_counter()
    for seq in range(steps):
        _commit(db, [(name, seq, read_call(seq)) for name in names])
    seconds = time.perf_counter() - start
    db.close()
    return runs * steps / seconds


def prepare_resume(path: str, steps: int) -> None:
    db = _open(path)
    _commit(db, [("run", seq, read_call(seq)) for seq in range(steps)])
    db.close()


def resume_seconds(path: str, steps: int) -> float:
    start = time.perf_counter()
    db = _open(path)
    row = db.execute("SELECT seq, body FROM step WHERE run = 'run' ORDER BY seq DESC LIMIT 1").fetchone()
    seconds = time.perf_counter() - start
    assert row[0] == steps - 1
    db.close()
    return seconds


def paused_kb(path: str, n: int) -> Paused | None:  # noqa: ARG001  # a table has nothing to pause
    return None
