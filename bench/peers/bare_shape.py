"""How near to raw SQLite Python can come: what any runtime of our shape must do for a step, and nothing else.

A state to JSON and back, the bytes of three events, a hash chain, one guarded row, a commit shared by whoever is ready
in the same tick of the event loop. No gate, no budget, no cancellation, no journal, no redaction, no second process.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

from pydantic import BaseModel, TypeAdapter

from bench.peers import raw_sqlite
from bench.workloads import Paused, body, read_call

_GUARDED = (
    "INSERT INTO record SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7 "
    "WHERE coalesce((SELECT max(seq) FROM record WHERE run = ?1), 0) = ?8 "
    "AND (SELECT fence FROM runs WHERE n = ?1) = ?9"
)
_EVENTS = (
    b'[{"type":"call_finished","seq":%d,"at":1794965824.829841,"call":"%b","result":%d},'
    b'{"type":"step_finished","seq":%d,"at":1794965824.829841,"step":%d,"attempt":1},'
    b'{"type":"call_started","seq":%d,"at":1794965824.829841,"call":"%b","tool":"read","effect":"read","args":{}}]\n'
    b'[1,%d,1,[{"id":"%b","tool":"read","effect":"read","since":1794965824.829841,"title":""}],{"steps":1,"calls":1}]'
)


class State(BaseModel):
    seq: int = 0
    body: str = ""


class Row(NamedTuple):
    run: int
    seq: int
    events: bytes
    state: bytes
    durable: asyncio.Future[None]


_states = TypeAdapter(State)


class _Writer:
    """Commits what one tick of the event loop brings."""

    def __init__(self, path: str, runs: int) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("CREATE TABLE runs (n INTEGER PRIMARY KEY, fence INTEGER)")
        self._db.execute(
            "CREATE TABLE record (run INTEGER, seq INTEGER, at REAL, body BLOB, step INTEGER, state BLOB, hash BLOB, "
            "UNIQUE (run, seq))"
        )
        self._db.executemany("INSERT INTO runs VALUES (?, 1)", [(n,) for n in range(runs)])
        self._heads = [bytes(32)] * runs
        self._queue: list[Row] = []
        self.close: Callable[[], None] = self._db.close

    def submit(self, row: Row) -> None:
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._flush)
        self._queue.append(row)

    def _flush(self) -> None:
        batch, self._queue = self._queue, []
        at = time.time()
        self._db.execute("BEGIN IMMEDIATE")
        for run, seq, events, state, _ in batch:
            head = sha256(self._heads[run] + sha256(events).digest() + sha256(state).digest()).digest()
            values = (run, seq + 1, at, events, seq, state, head, seq, 1)
            assert self._db.execute(_GUARDED, values).rowcount == 1
            self._heads[run] = head
        self._db.execute("COMMIT")
        for row in batch:
            row.durable.set_result(None)


async def _read(seq: int) -> int:
    return seq + 1


async def _run(writer: _Writer, run: int, steps: int) -> None:
    loop = asyncio.get_running_loop()
    state = State(body=body(0))
    raw = _states.dump_json(state)
    for seq in range(steps):
        call = b"read-" + sha256(b"%d\0%d" % (run, seq)).hexdigest()[:24].encode()
        events = _EVENTS % (seq, call, seq, seq, seq, seq, call, seq, call)
        durable: asyncio.Future[None] = loop.create_future()
        writer.submit(Row(run, seq, events, raw, durable))
        await durable
        state.seq = await _read(seq)
        state.body = read_call(seq)
        raw = _states.dump_json(state)
        state = _states.validate_json(raw, strict=True)


def concurrent(path: str, runs: int, steps: int) -> float:
    async def measure() -> float:
        writer = _Writer(path, runs)
        start = time.perf_counter()
        await asyncio.gather(*(_run(writer, run, steps) for run in range(runs)))
        seconds = time.perf_counter() - start
        writer.close()
        return runs * steps / seconds

    return asyncio.run(measure())


def durable_steps(path: str, n: int, warm: int = 700) -> float:
    return 1 / concurrent(path, 1, warm + n)


prepare_resume = raw_sqlite.prepare_resume
resume_seconds = raw_sqlite.resume_seconds


def paused_kb(path: str, n: int) -> Paused | None:  # noqa: ARG001  # a row has nothing to pause
    return None
