"""Verbs that are asked at the same time share a commit (R38), and no verb feels another's trouble (R34)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from standfast import Accepted, Handle, Idle, Run, RunIdTaken, Runtime, UnknownRun, agent
from standfast.stores.sqlite import connect_sqlite


class N(BaseModel):
    n: int = 0


@agent("waits")
async def waits(run: Run[N]) -> Idle:
    return Idle()


@contextmanager
def control_is_busy(runs: Runtime) -> Generator[None, None, None]:
    """Verbs asked in here stand in a queue."""
    free = threading.Event()
    runs.must_be_open().call(free.wait)
    try:
        yield
    finally:
        free.set()


async def all_at_once(runs: Runtime, *verbs: Any) -> list[Any]:
    with control_is_busy(runs):
        asked = asyncio.gather(*verbs, return_exceptions=True)
        await asyncio.sleep(0)  # each has asked by now
    return await asyncio.wait_for(asked, 60)


class Counting:
    """A connection that counts the transactions which the control thread has written; it may begin more."""

    written = 0

    def __init__(self, path: str) -> None:
        self._real = connect_sqlite(path)

    def execute(self, sql: str, parameters: Any = (), /) -> Any:
        answer = self._real.execute(sql, parameters)
        if sql == "COMMIT" and threading.current_thread().name == "standfast-control":
            Counting.written += 1
        return answer

    def close(self) -> None:
        self._real.close()


async def test_a_verb_that_fails_does_not_spoil_those_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, agents=[waits]) as runs:
        taken = await runs.start(waits, N(), id="taken")
        await taken.settled()
        first, refused, unknown, second, cancelled = await all_at_once(
            runs,
            runs.start(waits, N(n=1)),
            runs.start(waits, N(n=2), id="taken"),
            runs.handle("nobody").pause(),
            runs.start(waits, N(n=3)),
            taken.cancel(),
        )
        assert isinstance(refused, RunIdTaken)
        assert isinstance(unknown, UnknownRun)
        assert isinstance(cancelled, Accepted)
        assert isinstance(first, Handle)
        assert isinstance(second, Handle)
        assert (await first.state()).n == 1
        assert (await second.state()).n == 3
    async with Runtime(path, drive=False) as runs:
        assert {view.id for view in await runs.list()} == {"taken", first.id, second.id}
        assert (await runs.handle("taken").view()).status == "cancelled"


async def test_a_hundred_runs_are_started_in_a_few_commits(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[waits], connect=Counting) as runs:
        Counting.written = 0
        started = await all_at_once(runs, *(runs.start(waits, N(n=n)) for n in range(100)))
        written = Counting.written
        assert [(await run.state()).n for run in started] == list(range(100))
    assert 2 <= written < 20, "each start had a commit of its own"
