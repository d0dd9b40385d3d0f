"""Worker processes that a test can talk to, freeze, wake and kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from tests.programs.outside import Outside

from standfast import Handle, Runtime

ROOT = Path(__file__).parents[2]


class Worker:
    """One driving process on a store."""

    def __init__(self, folder: Path, store: Path | None = None, **options: Any) -> None:
        self.store = store or folder / "runs.db"
        self.log = folder / f"worker-{len(list(folder.glob('worker-*')))}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.programs.driving_worker"),
                    *(str(self.store), str(folder / "world"), json.dumps(options)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    async def _line(self) -> str:
        assert self._process.stdout is not None
        line: bytes = await asyncio.wait_for(asyncio.to_thread(self._process.stdout.readline), 120)
        assert line, f"the worker has ended: {self.said}"
        return line.decode().strip()

    async def ready(self) -> Self:
        assert await self._line() == "ready"
        return self

    async def ask(self, line: str) -> Any:
        """Have one line answered."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()
        return json.loads(await self._line())

    async def leave(self) -> None:
        """Have it end in an orderly way."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert await self._line() == "left"
        assert await asyncio.to_thread(self._process.wait, 30) == 0, self.said

    def freeze(self) -> None:
        """SIGSTOP, but not inside a commit: it would keep the store locked, which is another story."""
        for _ in range(100):
            os.kill(self.pid, signal.SIGSTOP)
            with closing(sqlite3.connect(self.store, timeout=1, isolation_level=None)) as db:
                try:
                    db.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError:
                    self.wake()
                    continue
                db.execute("ROLLBACK")
                return
        raise AssertionError("it is always inside a commit")

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9; its world ends in the middle of whatever it was doing."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    @property
    def frozen(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    @property
    def said(self) -> str:
        return self.log.read_text()


@asynccontextmanager
async def driven(folder: Path, store: Path | None = None, **options: Any) -> AsyncIterator[tuple[Worker, Runtime]]:
    """A worker that is ready, and the store it drives, from outside."""
    with Worker(folder, store, **options) as worker:
        await worker.ready()
        async with Runtime(store or folder / "runs.db", drive=False) as runs:
            yield worker, runs


async def at_step(run: Handle[Any], step: int) -> bool:
    return (await run.view()).step >= step


def need(tool: str, usable: bool, why: str) -> None:
    """Skip a test by the name of the tool it lacks; where tools are required, fail."""
    if not usable:
        reason = f"{tool}: {why}"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)


def outside(folder: Path) -> Outside:
    return Outside(folder / "world")


@contextmanager
def attached(worker: Worker, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """strace on a live worker, for as long as the block lasts."""
    tracer = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-p", str(worker.pid), *options], stderr=subprocess.PIPE
    )
    try:
        yield tracer
    finally:
        tracer.terminate()
        tracer.wait()
        assert tracer.stderr is not None
        tracer.stderr.close()
