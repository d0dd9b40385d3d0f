"""Who keeps the store locked is found within a second; only a frozen worker of the server's own is ended (R34)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.server.serving import LONG

from standfast import Runtime, StoreBusy
from standfast.server import pool as pools
from standfast.server.pool import Pool
from standfast.server.reading import Reader

KEEPER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


class Watch:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Keeper:
    """A worker as the pool knows it, in a process that holds the store's lock."""

    name = "worker 1"

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.pid, self.killed, self.why_killed = process.pid, "", ""
        self.child = SimpleNamespace(exited=asyncio.get_running_loop().create_future(), release=lambda: None)
        self.socket, self.reading = SimpleNamespace(close=lambda: None), None

    @property
    def frozen(self) -> bool:
        return pools._is_stopped(self.pid)

    def kill(self, why: str) -> None:
        self.killed = why


@contextmanager
def keeping(store: Path) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, "-c", KEEPER, str(store)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "locked\n"
            yield process
        finally:
            process.kill()
            process.wait(LONG)


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_second_after_the_lock_was_seen_its_keeper_is_ended_if_it_is_frozen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    store, watch = tmp_path / "runs.db", Watch()
    async with Runtime(store, []) as runs:
        with keeping(store) as process:
            if stopped:
                os.kill(process.pid, signal.SIGSTOP)
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            pool = Pool(runs, cast("Reader", None), store, [], 0)
            keeper = Keeper(process)
            pool._workers["worker 1"] = cast("Any", keeper)
            monkeypatch.setattr(pools, "time", watch)
            assert not pool._kill_lock_keeper()
            watch.now += 0.9
            assert not pool._kill_lock_keeper()
            watch.now += 0.1
            assert pool._kill_lock_keeper() is stopped
            watch.now += 60
            assert bool(keeper.killed) is stopped  # one that runs is never ended, however long it takes
            if not stopped:
                assert not pool._kill_lock_keeper()
                assert not keeper.killed


@pytest.mark.parametrize("gone", [False, True], ids=["being killed", "gone"])
async def test_a_verb_is_tried_again_when_others_have_just_ended_the_keeper(tmp_path: Path, gone: bool) -> None:
    """R34: the verb and the look at the workers find it frozen at the same moment; neither says that it is locked."""
    store = tmp_path / "runs.db"
    async with Runtime(store, []) as runs:
        with keeping(store) as process:
            pool = Pool(runs, cast("Reader", None), store, [], 0)
            keeper = Keeper(process)
            pool._workers["worker 1"] = worker = cast("Any", keeper)
            error = StoreBusy("it is locked", pid=process.pid)
            assert not await pool.freed(error)
            keeper.why_killed = "it was frozen while it kept the store locked"
            keeper.child.exited.set_result(None)
            if gone:
                await pool._bury(worker)
            assert await pool.freed(error)
            assert not await pool.freed(StoreBusy("it is locked", pid=os.getpid()))
