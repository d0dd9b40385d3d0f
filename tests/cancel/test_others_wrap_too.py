"""Tracers wrap what a runtime wraps (R39): whoever comes and goes first, each goes on working, and nothing is lost."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from anyio._backends._asyncio import AsyncIOBackend
from tests.cancel.support import LIMIT, Nothing, cancelled, one_call_of, under_way
from tests.cancel.test_owned_threads import Ticking, step_of

from standfast import Done, Run, Runtime, agent, tool
from standfast.bodies import executors

ANYIO_METHOD = "run_sync_in_worker_thread"


class Tracer:
    """Counts what passes, as sentry_sdk and ddtrace do."""

    def __init__(self) -> None:
        self.seen = 0

    def around_popen(self) -> None:
        was: Any = subprocess.Popen.__init__

        @functools.wraps(was)
        def traced(popen: Any, *args: Any, **kwargs: Any) -> None:
            self.seen += 1
            was(popen, *args, **kwargs)

        subprocess.Popen.__init__ = traced  # type: ignore[method-assign]

    def around_the_loop(self) -> None:
        loop: Any = asyncio.get_running_loop()
        was = loop.run_in_executor

        def traced(*args: Any) -> Any:
            self.seen += 1
            return was(*args)

        loop.run_in_executor = traced

    def around_anyio(self) -> None:
        was = AsyncIOBackend.run_sync_in_worker_thread

        async def traced(cls: Any, *args: Any, **kwargs: Any) -> Any:
            self.seen += 1
            return await was(*args, **kwargs)

        setattr(AsyncIOBackend, ANYIO_METHOD, classmethod(traced))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    popen: Any = subprocess.Popen.__init__
    of_anyio = AsyncIOBackend.__dict__[ANYIO_METHOD]
    yield
    subprocess.Popen.__init__ = popen  # type: ignore[method-assign]
    setattr(AsyncIOBackend, ANYIO_METHOD, of_anyio)


@agent("starter")
async def starter(run: Run[Nothing]) -> Done[str]:
    """Starts a program that tells whether it carries a mark."""
    line = [sys.executable, "-c", "import os; print('STANDFAST_WITHIN' in os.environ)"]
    return Done(subprocess.run(line, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


async def started_in_a_run(db: str) -> str:
    async with Runtime(db, agents=[starter]) as runs:
        run = await runs.start(starter, Nothing())
        return await asyncio.wait_for(run.result(), LIMIT)


async def test_programs_start_and_are_marked_although_a_tracer_came_while_an_earlier_runtime_was_open(db: str) -> None:
    tracer = Tracer()
    async with Runtime(db, agents=[]):
        tracer.around_popen()
    for n in range(3):
        assert await started_in_a_run(f"{db}{n}") == "True"
    seen = tracer.seen
    assert subprocess.run(["true"], check=True).returncode == 0
    assert tracer.seen == seen + 1
    assert seen >= 3


async def test_a_tracer_of_programs_that_leaves_first_leaves_the_runtimes_own_in_place(db: str) -> None:
    before: Any = subprocess.Popen.__init__
    async with Runtime(db, agents=[]):
        ours: Any = subprocess.Popen.__init__
        Tracer().around_popen()
        subprocess.Popen.__init__ = ours  # type: ignore[method-assign]
        assert await started_in_a_run(f"{db}2") == "True"
    assert subprocess.Popen.__init__ is before


async def test_a_tracer_of_anyio_stays_and_threads_are_owned_beneath_it(db: str) -> None:
    tracer = Tracer()
    async with Runtime(db, agents=[]):
        tracer.around_anyio()
        traced = AsyncIOBackend.__dict__[ANYIO_METHOD]
    assert AsyncIOBackend.__dict__[ANYIO_METHOD] is traced
    work = Ticking()
    async with under_way(f"{db}2", step_of(lambda: anyio.to_thread.run_sync(work)), work.begun) as run:
        assert (await cancelled(run)).residue == ()
        assert work.ended.is_set()
    assert tracer.seen == 1
    assert AsyncIOBackend.__dict__[ANYIO_METHOD] is traced


async def test_a_thread_is_owned_once_although_a_tracer_stands_between_two_runtimes(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R39: it would be thrown at by each that owns it, the second time in its clean-up."""
    tracer, owned = Tracer(), list[Any]()
    real = executors.OwnedThread

    def counted(*args: Any) -> Any:
        owned.append(args)
        return real(*args)

    monkeypatch.setattr(executors, "OwnedThread", counted)
    async with Runtime(db, agents=[]):
        tracer.around_the_loop()
    work = Ticking()

    @tool(effect="read")
    async def look() -> None:
        await asyncio.to_thread(work)

    async with under_way(f"{db}2", one_call_of(look), work.begun) as run:
        assert (await cancelled(run)).residue == ()
        assert work.ended.is_set()
    assert len(owned) == 1
    assert tracer.seen >= 1


@pytest.mark.parametrize("how", ["asked", "failed", "left"])
def test_anyio_is_seen_whoever_has_asked_for_it_before(tmp_path: Path, how: str) -> None:
    """R39: a look whether it is there, an import that fails, and a runtime that leaves during the import."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.importing_anyio", str(tmp_path / "runs.db"), how],
        timeout=60,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert done.stdout.split() == ["False", "True", "as", "before"]
