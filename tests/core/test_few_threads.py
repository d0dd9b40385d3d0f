"""A process that has no room for another thread goes on writing, and says what it waits for (R2, R34)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.helpers import database, eventually

from standfast import Done, Handle, Run, Runtime, agent
from standfast.stores import group

LIMIT = 60.0


class Plain(BaseModel):
    n: int = 0


@pytest.fixture
def no_thread_to_write_in(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    return without_threads(monkeypatch)


def without_threads(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Every commit wants a thread, as on a slow disk; none can be started until the event is set."""
    room = threading.Event()
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "standfast-writer" and not room.is_set():
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(group, "SLOW_IN_A_ROW", 0)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    return room


@agent("counter")
async def counter(run: Run[Plain]) -> Done[int] | None:
    run.state.n += 1
    return Done(run.state.n) if run.state.n == 3 else None


async def test_a_run_goes_on_where_no_thread_can_be_started(
    tmp_path: Path, no_thread_to_write_in: threading.Event
) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[counter]) as runs:
        for room in (False, True):
            if room:
                no_thread_to_write_in.set()
            run = await runs.start(counter, Plain())
            await run.settled(timeout=LIMIT)  # it may say that it waits for the store, for a moment
            assert await run.result(timeout=LIMIT) == 3


@pytest.mark.parametrize("then", ["no thread", "threads"])
async def test_what_cannot_be_written_at_once_is_written_later(
    tmp_path: Path, then: str, no_thread_to_write_in: threading.Event
) -> None:
    """Nobody writes while another process holds the store's lock, and there is no thread to wait in."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    @agent("waiter")
    async def waiter(run: Run[Plain]) -> Done[str] | None:
        if run.step == 0:
            begun.set()
            await go_on.wait()
            return None
        return Done("written")

    db = tmp_path / "runs.db"
    async with Runtime(db, agents=[waiter]) as runs:
        run = await runs.start(waiter, Plain())
        await begun.wait()
        with database(db) as other:
            other.execute("BEGIN IMMEDIATE")
            go_on.set()
            await eventually(lambda: says_why(run))
            other.execute("ROLLBACK")
        if then == "threads":
            no_thread_to_write_in.set()
        await run.settled(timeout=LIMIT)
        assert await run.result(timeout=LIMIT) == "written"


async def says_why(run: Handle[str]) -> bool:
    return "no thread to write in" in (await run.view()).waiting_for
