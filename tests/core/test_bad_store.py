"""A store that is damaged, foreign, full or read-only: told with a hint, never "no such run", never changed."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.core.mistakes import Plain, held_by, helpful, simple
from tests.helpers import database

from standfast import (
    Accepted,
    Done,
    Idle,
    Run,
    Runtime,
    StandfastError,
    StoreDamaged,
    StoreFailed,
    StoreTooNew,
    UnknownRun,
    agent,
)

# --- the store ------------------------------------------------------------------------------------------------


async def open_fails(path: Path, *, drive: bool = True) -> StandfastError:
    with pytest.raises(StandfastError) as caught:
        async with Runtime(path, agents=[simple] if drive else [], drive=drive) as runs:
            await runs.handle("r1").view()
    helpful(caught.value)
    return caught.value


async def a_store(path: Path) -> None:
    async with Runtime(path, agents=[simple]) as runs:
        await (await runs.start(simple, Plain(), id="r1")).result()


@pytest.mark.parametrize("drive", [True, False])
async def test_a_file_that_is_no_store(tmp_path: Path, drive: bool) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"these are my holiday notes, not a database\n" * 200)
    before = path.read_bytes()
    assert isinstance(await open_fails(path, drive=drive), StoreDamaged)
    assert path.read_bytes() == before


@pytest.mark.parametrize("drive", [True, False])
async def test_another_programs_database(tmp_path: Path, drive: bool) -> None:
    path = tmp_path / "runs.db"
    with database(path) as c:
        c.execute("CREATE TABLE contacts (name TEXT)")
    before = path.read_bytes()
    assert isinstance(await open_fails(path, drive=drive), StoreDamaged)
    assert path.read_bytes() == before


@pytest.mark.parametrize("drive", [True, False])
async def test_a_store_of_a_newer_standfast(tmp_path: Path, drive: bool) -> None:
    path = tmp_path / "runs.db"
    await a_store(path)
    with database(path) as c:
        c.execute("PRAGMA user_version = 9999")
    before = path.read_bytes()
    assert isinstance(await open_fails(path, drive=drive), StoreTooNew)
    assert path.read_bytes() == before


async def test_a_damaged_store_is_never_no_such_run(tmp_path: Path) -> None:
    """A load error is never "no such run"."""
    path = tmp_path / "runs.db"
    await a_store(path)
    size = path.stat().st_size
    with path.open("r+b") as file:  # everything but the header page is rubbish
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    error = await open_fails(path, drive=False)
    assert not isinstance(error, UnknownRun)


@pytest.mark.parametrize("budget", ["7", '{"steps": -1}'])
async def test_a_run_row_that_cannot_be_read_is_damage_not_absence(tmp_path: Path, budget: str) -> None:
    path = tmp_path / "runs.db"
    await a_store(path)
    with database(path) as c:
        c.execute("UPDATE runs SET doc = ?", (f'{{"budget": {budget}}}',))
    error = await open_fails(path, drive=False)
    assert isinstance(error, StoreDamaged)
    assert "r1" in str(error)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    error = asyncio.run(open_fails(tmp_path / "file" / "runs.db"))
    assert isinstance(error, StoreFailed)


PROGRAM = """
import asyncio, os, resource, signal, sys
from pydantic import BaseModel
from standfast import Done, Run, Runtime, StandfastError, agent, tool

class S(BaseModel):
    n: int = 0
    fat: str = ""

@tool(effect="read")
async def look(n: int) -> int:
    return n

@agent("grower")
async def grower(run: Run[S]) -> Done[int] | None:
    run.state.n = await run.call(look(run.state.n)) + 1
    run.state.fat = "x" * 50_000
    return Done(run.state.n) if run.state.n == 60 else None

async def main() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with Runtime(sys.argv[1], agents=[grower]) as runs:
        run = await runs.start(grower, S(), id="r1")
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        try:
            await run.result(timeout=120)
            print("no trouble")
        except StandfastError as error:
            print(type(error).__name__, bool(error.hint), "storage" in error.view.waiting_for)
        print((await run.view()).waiting_for)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        for _ in range(2000):
            if (await run.view()).status == "done":
                break
            await asyncio.sleep(0.01)
        print("result", await run.result(timeout=120))

asyncio.run(main())
"""


def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """Bad input, R2: `result()` says storage, with a hint; nothing acknowledged is lost; no restart is needed."""
    assert resource.RLIMIT_FSIZE
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    argv = [sys.executable, str(program), str(tmp_path / "runs.db")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    told, waiting, ended = done.stdout.splitlines()
    assert told == "RunHeld True True"
    assert waiting.startswith("storage")
    assert ended == "result 60"


async def test_a_store_that_becomes_read_only_refuses_verbs_with_a_hint(tmp_path: Path) -> None:
    """A verb that cannot be written is an error with a hint; the run is what it was."""

    @agent("held")
    async def held(run: Run[Plain]) -> Done[int] | Idle:
        return Idle()

    path = tmp_path / "runs.db"
    async with Runtime(path, agents=[held]) as runs:
        run = await runs.start(held, Plain(), id="r1")
        await held_by(run, "waiting")

    def read_only(file: str) -> Any:
        c = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        c.execute("PRAGMA query_only = 1")
        return c

    async with Runtime(path, drive=False, connect=read_only) as runs:
        run = runs.handle("r1")
        with pytest.raises(StoreFailed) as caught:
            await run.cancel()
        helpful(caught.value)
        assert (await run.view()).status == "paused"
    async with Runtime(path, drive=False) as runs:
        assert isinstance(await runs.handle("r1").cancel(), Accepted)
