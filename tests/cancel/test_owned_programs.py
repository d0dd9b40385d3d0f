"""A call or a step owns the programs that its code starts by itself: by asyncio or by subprocess (R39)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, left_behind, one_call_of, outcomes
from tests.unit.bodies.watching import alive, pids_in

from standfast import Accepted, Agent, Done, Performed, Run, Runtime, agent, tool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere marks cannot be read")

Start = Callable[[str], Awaitable[Any]]
started: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def reaped() -> Iterator[None]:
    yield
    while started:
        started.pop().wait(LIMIT)


async def by_asyncio_exec(line: str) -> None:
    await (await asyncio.create_subprocess_exec("sh", "-c", line)).wait()


async def by_asyncio_shell(line: str) -> None:
    await (await asyncio.create_subprocess_shell(line, env={"PATH": "/usr/bin:/bin"})).communicate()


async def by_run_in_a_thread(line: str) -> None:
    await asyncio.to_thread(subprocess.run, ["sh", "-c", line], check=False)


async def by_run_in_an_executor(line: str) -> None:
    await asyncio.get_running_loop().run_in_executor(None, subprocess.call, ["sh", "-c", line])


async def by_anyio(line: str) -> None:
    await anyio.run_process(line)


async def by_popen(line: str) -> None:
    started.append(subprocess.Popen(["sh", "-c", line], start_new_session=True))
    await asyncio.sleep(1000)


STARTS: list[Start] = [
    by_asyncio_exec,
    by_asyncio_shell,
    by_run_in_a_thread,
    by_run_in_an_executor,
    by_anyio,
    by_popen,
]
in_every_way = pytest.mark.parametrize("start", STARTS, ids=lambda s: s.__name__)


def lines(folder: Path) -> str:
    """A program that starts another, in a session of its own, and goes on itself; both write their pids down."""
    other = f"setsid sh -c 'echo $$ > {folder}/b.pid; exec sleep 1000'"
    return f"{other} & echo $$ > {folder}/a.pid; exec sleep 1000"


def step_of(start: Start, folder: Path) -> Agent[Nothing, Any]:
    @agent("direct")
    async def direct(run: Run[Nothing]) -> Done[Any]:
        return Done(await start(lines(folder)))

    return direct


@in_every_way
async def test_programs_of_a_write_have_ended_before_it_is_undone(db: str, tmp_path: Path, start: Start) -> None:
    seen: list[bool] = []
    pids: list[int] = []

    async def undo(_: Performed[Any, Any]) -> None:
        seen.extend(alive(pid) for pid in pids)

    @tool(undo=undo)
    async def build() -> None:
        await start(lines(tmp_path))

    it = one_call_of(build)
    async with Runtime(db, agents=[it]) as runs:
        run = await runs.start(it, Nothing())
        pids += await pids_in(tmp_path, 2)
        receipt = await cancelled(run)
        assert seen == [False, False]
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert receipt.residue == ()


async def test_programs_of_a_sync_tool_end_with_it(db: str, tmp_path: Path) -> None:
    @tool(effect="read")
    def build() -> None:
        subprocess.run(["sh", "-c", lines(tmp_path)], check=False)

    it = one_call_of(build)
    async with Runtime(db, agents=[it]) as runs:
        run = await runs.start(it, Nothing())
        pids = await pids_in(tmp_path, 2)
        receipt = await cancelled(run)
        assert not any(map(alive, pids))
        assert outcomes(receipt) == {"build": "aborted"}
        assert receipt.residue == ()


@in_every_way
async def test_programs_of_a_step_have_ended_when_the_cancel_is_settled(db: str, tmp_path: Path, start: Start) -> None:
    it = step_of(start, tmp_path)
    async with Runtime(db, agents=[it]) as runs:
        run = await runs.start(it, Nothing())
        pids = await pids_in(tmp_path, 2)
        receipt = await cancelled(run)
        assert not any(map(alive, pids))
        assert receipt.residue == ()


@in_every_way
async def test_programs_of_a_step_have_ended_when_the_pause_is_settled(db: str, tmp_path: Path, start: Start) -> None:
    it = step_of(start, tmp_path)
    async with Runtime(db, agents=[it]) as runs:
        run = await runs.start(it, Nothing())
        pids = await pids_in(tmp_path, 2)
        assert isinstance(await run.pause(), Accepted)
        receipt = await run.settled(timeout=LIMIT)
        assert not any(map(alive, pids))
        assert receipt.residue == ()
        await cancelled(run)


async def test_a_program_that_a_finished_step_left_is_named_by_a_pause_and_ended_by_a_cancel(
    db: str, tmp_path: Path
) -> None:
    went_on = asyncio.Event()

    @agent("server")
    async def server(run: Run[Nothing]) -> None:
        if run.step == 0:
            await asyncio.create_subprocess_exec("sh", "-c", lines(tmp_path))
            await pids_in(tmp_path, 2)
            return
        went_on.set()
        await asyncio.sleep(1000)

    async with Runtime(db, agents=[server]) as runs:
        run = await runs.start(server, Nothing())
        await went_on.wait()
        pids = await pids_in(tmp_path, 2)
        assert isinstance(await run.pause(), Accepted)
        assert "a program that this run started is still running" in left_behind(await run.settled(timeout=LIMIT))
        assert all(map(alive, pids))
        assert (await cancelled(run)).residue == ()
        assert not any(map(alive, pids))


async def test_a_program_of_a_steps_own_code_ends_with_its_process(db: str, tmp_path: Path) -> None:
    """R39: killed, the process ends nothing itself; its guard does."""
    driver = subprocess.Popen([sys.executable, "-m", "tests.programs.starting_programs", db, lines(tmp_path)])
    pids = await pids_in(tmp_path, 2)
    driver.kill()
    driver.wait()
    async with asyncio.timeout(LIMIT):
        while any(map(alive, pids)):
            await asyncio.sleep(0.01)


async def test_programs_outside_any_run_are_started_as_before(db: str, tmp_path: Path) -> None:
    before = subprocess.Popen.__init__
    async with Runtime(db, agents=[]), Runtime(f"{db}2", agents=[]):
        seen = subprocess.run(["env"], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert "STANDFAST_WITHIN" not in seen
    assert subprocess.Popen.__init__ is before
