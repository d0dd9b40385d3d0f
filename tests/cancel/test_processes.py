"""Cancelling processes and whole trees of programs (R6)."""

import asyncio
import os
import sys
from pathlib import Path

from tests.cancel.support import Nothing, cancelled, outcomes
from tests.helpers import eventually
from tests.programs.killable import stuck

from standfast import Done, Run, Runtime, agent, run_process, tool

GRANDCHILD = str(Path(__file__).parent.parent / "programs" / "grandchild.py")


def alive(pid: int) -> bool:
    """Does the process exist, and is it no zombie?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def pids_in(file: Path) -> list[int]:
    await eventually(file.exists)
    found = [int(pid) for pid in file.read_text().split()]
    assert all(alive(pid) for pid in found)
    assert os.getpid() not in found
    return found


async def test_cancel_kills_a_process_tool_with_its_children(db: str, tmp_path: Path) -> None:
    """R6: code that ignores everything ends too, in a process of its own."""
    file = tmp_path / "pids"

    @agent("runner")
    async def runner(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(stuck(str(file))))

    async with Runtime(db, agents=[runner]) as runs:
        run = await runs.start(runner, Nothing())
        pids = await pids_in(file)
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"stuck": "aborted"}
        assert receipt.residue == ()
        assert receipt.partial_output == "begun"
        await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_cancel_kills_a_tree_of_programs_whose_grandchild_holds_the_pipes(db: str, tmp_path: Path) -> None:
    """R6: a session of its own and held pipes save no grandchild, and settled does not wait for the pipes."""
    file = tmp_path / "pids"

    @tool(effect="read")
    async def build() -> int:
        return (await run_process(sys.executable, GRANDCHILD, str(file))).returncode

    @agent("builder")
    async def builder(run: Run[Nothing]) -> Done[int]:
        return Done(await run.call(build()))

    async with Runtime(db, agents=[builder]) as runs:
        run = await runs.start(builder, Nothing())
        pids = await pids_in(file)
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"build": "aborted"}
        assert receipt.residue == ()
        assert receipt.partial_output == "half of the output\n"
        await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_program_run_by_a_write_gets_its_grace_then_the_tree_is_killed(db: str, tmp_path: Path) -> None:
    """DESIGN, table of calls: `grace` to finish, then cut; a cut write is in doubt."""
    file = tmp_path / "pids"

    @tool(effect="write", grace=0.2)
    async def deploy() -> int:
        return (await run_process(sys.executable, GRANDCHILD, str(file))).returncode

    @agent("deployer")
    async def deployer(run: Run[Nothing]) -> Done[int]:
        return Done(await run.call(deploy()))

    async with Runtime(db, agents=[deployer]) as runs:
        run = await runs.start(deployer, Nothing())
        pids = await pids_in(file)
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"deploy": "in_doubt"}
        await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_program_of_a_task_left_behind_by_a_tool_is_killed(db: str, tmp_path: Path) -> None:
    """R6: a fire-and-forget task's program goes with the run."""
    file = tmp_path / "pids"
    keep: list[asyncio.Task[object]] = []

    @tool(effect="read")
    async def launch() -> None:
        keep.append(asyncio.create_task(run_process(sys.executable, GRANDCHILD, str(file))))

    @agent("launcher")
    async def launcher(run: Run[Nothing]) -> None:
        await run.call(launch())
        await asyncio.sleep(60)

    async with Runtime(db, agents=[launcher]) as runs:
        run = await runs.start(launcher, Nothing())
        pids = await pids_in(file)
        await cancelled(run)
        await eventually(lambda: not any(alive(pid) for pid in pids))


async def test_a_program_is_reaped_although_its_caller_is_cancelled_again_and_again(tmp_path: Path) -> None:
    """R6: cancels repeat; none of them may leave a zombie behind."""
    file = tmp_path / "pids"
    task = asyncio.create_task(run_process(sys.executable, GRANDCHILD, str(file)))
    program, _ = await pids_in(file)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    await eventually(lambda: not Path(f"/proc/{program}").exists())
