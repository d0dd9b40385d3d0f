"""A driver is killed while its calls run programs: those end with it, and nothing is done twice (R6, R15)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held
from tests.programs.deploying import deployer
from tests.unit.bodies.watching import alive, pids_in, until_dead

from standfast import Done, Run, Runtime, agent
from standfast.bodies import marks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere marks cannot be read")
ROOT = Path(__file__).parents[2]


class Nothing(BaseModel):
    pass


@contextmanager
def driver(folder: Path, tool: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.programs.deploying", str(folder / "runs.db"), str(folder), tool]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def guards_of(pid: int) -> list[int]:
    """The guard of a process, which says of itself whose it is."""
    words = f"the programs of process {pid} with it".encode()
    commands = {int(p.name): p / "cmdline" for p in Path("/proc").iterdir() if p.name.isdigit()}
    return [p for p, path in commands.items() if path.exists() and words in path.read_bytes()]


async def killed(process: subprocess.Popen[bytes], number: int = 9, *, with_its_guard: bool = False) -> None:
    if with_its_guard:
        (guard,) = guards_of(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.kill(guard, signal.SIGKILL)
    process.send_signal(number)
    await asyncio.to_thread(process.wait)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("tool", ["look", "in_process"])
async def test_programs_end_with_their_driver_however_it_ends(tmp_path: Path, tool: str, number: int) -> None:
    """R6: nobody takes its place; the program, its children, and one in a session of its own."""
    with driver(tmp_path, tool) as process:
        pids = await pids_in(tmp_path, 3)
        (guard,) = guards_of(process.pid)
        await killed(process, number)
        await until_dead([*pids, guard])


@pytest.mark.parametrize("with_its_guard", [False, True])
async def test_a_deploy_whose_driver_was_killed_is_not_done_twice(tmp_path: Path, with_its_guard: bool) -> None:
    """R15: NotHappened counts once the old driver is dead, and the program that it had started."""
    with driver(tmp_path, "deploy") as process:
        (program,) = await pids_in(tmp_path, 1)
        await killed(process, with_its_guard=with_its_guard)
    async with Runtime(tmp_path / "runs.db", agents=[deployer]) as runs:
        assert await runs.handle("job").result(timeout=120) == "ok"
    assert not alive(program)
    await asyncio.sleep(2.5)  # as long as the first program would have taken
    assert len((tmp_path / "deployed").read_text().split()) == 1


@pytest.mark.parametrize("with_its_guard", [False, True])
async def test_a_cancel_after_a_crash_settles_when_the_programs_have_ended(
    tmp_path: Path, with_its_guard: bool
) -> None:
    """R6: nothing of the run is running but what the receipt names."""
    with driver(tmp_path, "look") as process:
        pids = await pids_in(tmp_path, 3)
        await killed(process, with_its_guard=with_its_guard)
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        assert await runs.handle("job").cancel()
    async with Runtime(tmp_path / "runs.db", agents=[deployer]) as runs:
        receipt = await runs.handle("job").settled(timeout=120)
        assert [f.outcome for f in receipt.in_flight] == ["aborted"]
        assert receipt.residue == ()
        assert not any(map(alive, pids))


async def test_a_cancel_after_a_crash_settles_at_once_when_all_programs_had_ended(tmp_path: Path) -> None:
    """RULINGS: a driver is waited for only if there is something to end."""
    with driver(tmp_path, "ended") as process:
        await eventually((tmp_path / "resting").exists)
        await killed(process)
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        assert await runs.handle("job").cancel()
        assert (await runs.handle("job").settled(timeout=120)).residue == ()


async def test_a_read_is_repeated_when_its_first_program_has_ended(tmp_path: Path) -> None:
    """R15: two of them would be at it, and only one could be stopped."""
    with driver(tmp_path, "look") as process:
        pids = await pids_in(tmp_path, 3)
        await killed(process, with_its_guard=True)
    for file in tmp_path.glob("*.pid"):
        file.unlink()
    async with Runtime(tmp_path / "runs.db", agents=[deployer]) as runs:
        try:
            await eventually((tmp_path / "a.pid").exists)
            assert not any(map(alive, pids))
        finally:
            for pid in filter(alive, pids):
                os.kill(pid, signal.SIGKILL)
            await runs.handle("job").cancel()
            await runs.handle("job").settled(timeout=120)


async def test_a_program_that_cannot_be_killed_may_still_act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R15: the probe's answer does not count, and a person is asked."""
    with driver(tmp_path, "deploy") as process:
        pids = await pids_in(tmp_path, 1)
        await killed(process, with_its_guard=True)
    os.kill(pids[0], signal.SIGSTOP)
    monkeypatch.setattr(marks, "_kill", lambda *_: None)
    monkeypatch.setattr(marks, "GONE_WAIT", 0.1)
    try:
        async with Runtime(tmp_path / "runs.db", agents=[deployer]) as runs:
            await held(runs.handle("job"), "in_doubt")
            row = runs.read(lambda tx: tx.run("job"))
            assert row is not None
            assert "a program of it, may still be alive" in row.doc.holds["in_doubt"].text
    finally:
        os.killpg(pids[0], signal.SIGKILL)


async def test_a_read_whose_program_cannot_be_killed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6"""
    with driver(tmp_path, "look") as process:
        pids = await pids_in(tmp_path, 3)
        await killed(process, with_its_guard=True)
    monkeypatch.setattr(marks, "_kill", lambda *_: None)
    try:
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            assert await runs.handle("job").cancel()
        async with Runtime(tmp_path / "runs.db", agents=[deployer]) as runs:
            receipt = await runs.handle("job").settled(timeout=120)
            assert [f.outcome for f in receipt.in_flight] == ["still_running"]
            assert receipt.residue[-1].call is not None
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


async def test_another_driver_that_comes_first_does_not_make_the_dead_one_forgotten(tmp_path: Path) -> None:
    """R15: a lease is taken out of the store when nothing of its process runs any more."""

    @agent("another")
    async def another(run: Run[Nothing]) -> Done[int]:
        return Done(1)

    with driver(tmp_path, "look") as process:
        pids = await pids_in(tmp_path, 3)
        await killed(process, with_its_guard=True)
    async with Runtime(tmp_path / "runs.db", agents=[another]) as runs:
        assert process.pid in [lease.pid for lease in runs.read(lambda tx: tx.leases())]
        assert all(map(alive, pids))  # not its run: nobody who can go on with it has come
    async with Runtime(tmp_path / "runs.db", agents=[deployer]) as runs:
        run = runs.handle("job")
        await eventually(lambda: not any(map(alive, pids)))
        assert await run.cancel()
        await run.settled(timeout=120)
    async with Runtime(tmp_path / "runs.db", agents=[another]) as runs:
        assert process.pid not in [lease.pid for lease in runs.read(lambda tx: tx.leases())]


async def test_what_a_finished_call_left_running_outlives_its_driver_and_ends_with_the_run(tmp_path: Path) -> None:
    """R6: the call is not made again, so what it started must be there; a cancel takes it."""
    with driver(tmp_path, "serve") as process:
        pids = await pids_in(tmp_path, 1)
        await eventually((tmp_path / "resting").exists)
        (guard,) = guards_of(process.pid)
        await killed(process)
        await until_dead([guard])
    async with Runtime(tmp_path / "runs.db", agents=[deployer]) as runs:
        run = runs.handle("job")
        await eventually(lambda: run_is_resting(runs))
        assert alive(pids[0])
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
        assert receipt.residue == ()
        assert not alive(pids[0])


def run_is_resting(runs: Runtime) -> bool:
    row = runs.read(lambda tx: tx.run("job"))
    return row is not None and row.fence > 1 and [ref.tool for ref in row.in_flight] == ["rest"]


async def test_a_guard_that_was_killed_is_replaced_at_the_next_program(tmp_path: Path) -> None:
    with driver(tmp_path, "deploy") as process:
        await pids_in(tmp_path, 1)
        (guard,) = guards_of(process.pid)
        os.kill(guard, signal.SIGKILL)
        await eventually((tmp_path / "deployed").exists)
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            assert await runs.handle("job").result(timeout=120) == "ok"
