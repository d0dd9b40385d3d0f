"""Cancelling runs of other processes: live ones, dead ones, blocked ones (R2, R6, R7, R34)."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cancel.support import LIMIT, left_behind, of_kind, outcomes, settled
from tests.programs.victim import victim

from standfast import Accepted, Runtime
from standfast.events import CallStarted

PROGRAMS = Path(__file__).parent.parent / "programs"


@contextmanager
def driving(db: str, kind: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that drives run r1, caught in the midst of it."""
    argv = [sys.executable, "-W", "error", str(PROGRAMS / "victim.py"), db, kind]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n", process.communicate()[1]
            yield process
        finally:
            process.kill()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


@pytest.mark.parametrize(("kind", "outcome"), [("read", "aborted"), ("write", "in_doubt")])
async def test_cancel_reaches_a_run_in_another_live_process(db: str, kind: str, outcome: str) -> None:
    """R6: any process that opens the store can cancel; the holder learns of it and settles."""
    with driving(db, kind) as process:
        async with Runtime(db, drive=False) as runs:
            run = runs.handle("r1")
            answer = await run.cancel(by="ann", reason="from outside")
            assert isinstance(answer, Accepted)
            assert [ref.tool for ref in answer.in_flight] == [kind]
            receipt = await settled(run)
            assert outcomes(receipt) == {kind: outcome}
            assert (receipt.by, receipt.reason) == ("ann", "from outside")
        out, err = await asyncio.to_thread(process.communicate, timeout=LIMIT)
        assert (out, err) == ("over\n", "")
    async with Runtime(db, agents=[victim]) as runs:  # ended is ended, for every process
        seq = (await runs.handle("r1").view()).seq
        await asyncio.sleep(0.1)
        assert (await runs.handle("r1").view()).seq == seq


async def test_cancel_of_a_dead_drivers_run_with_nothing_in_flight_settles_at_once(db: str) -> None:
    """RULINGS: cancelled at once if nothing is in flight or to undo, although nobody drives."""
    with driving(db, "between") as process:
        kill(process)
        async with Runtime(db, drive=False) as runs:
            run = runs.handle("r1")
            assert (await run.view()).status == "running"
            assert await run.cancel()
            assert (await run.view()).status == "cancelled"
            assert (await settled(run)).in_flight == ()


@pytest.mark.parametrize(("kind", "outcome"), [("read", "aborted"), ("write", "in_doubt"), ("undoable", "aborted")])
async def test_cancel_of_a_dead_drivers_run_waits_for_a_driver_and_says_so(db: str, kind: str, outcome: str) -> None:
    """RULINGS: accepted and `cancelling`; a process with the agent's code settles it."""
    with driving(db, kind) as process:
        kill(process)
        async with Runtime(db, drive=False) as runs:
            run = runs.handle("r1")
            answer = await run.cancel()
            assert isinstance(answer, Accepted)
            assert [ref.tool for ref in answer.in_flight] == [kind]
            view = await run.view()
            assert view.status == "cancelling"
            assert view.waiting_for == "a driver with agent victim"
            with pytest.raises(TimeoutError):
                await run.settled(timeout=0.1)
            async with Runtime(db, agents=[victim]):
                receipt = await settled(run)
        assert outcomes(receipt) == {kind: outcome}
        assert [u.outcome for u in receipt.undone] == {"read": [], "write": ["impossible"], "undoable": ["undone"]}[
            kind
        ]


async def test_a_process_with_the_agent_cancels_a_dead_drivers_run(db: str) -> None:
    """R2, R6: takeover and cancel in whatever order end in one truthful receipt."""
    with driving(db, "write") as process:
        kill(process)
        async with Runtime(db, agents=[victim]) as runs:
            run = runs.handle("r1")
            assert await run.cancel()
            receipt = await settled(run)
            assert outcomes(receipt) in ({"write": "in_doubt"}, {})  # {}: taken over, and in doubt, before the cancel
            assert "write" in left_behind(receipt)


async def test_cancel_settles_while_another_process_blocks_its_event_loop(db: str) -> None:
    """R34: accepted at once, settled with the blocked code named, and no further call passes."""
    with driving(db, "blocks") as process:
        async with Runtime(db, drive=False) as runs:
            run = runs.handle("r1")
            answer = await asyncio.wait_for(run.cancel(), 2)
            assert isinstance(answer, Accepted)
            receipt = await settled(run)
            assert process.poll() is None
            assert "victim.py:" in left_behind(receipt)
            Path(f"{db}.free").touch()
            out, err = await asyncio.to_thread(process.communicate, timeout=LIMIT)
            assert out == "over\n"
            assert "Traceback" not in err
            assert await of_kind(run, CallStarted) == []


async def test_a_program_full_of_code_that_swallows_stops_still_ends_quietly(db: str) -> None:
    """R6: asyncio.run returns, and nothing spins in a destructor at exit."""
    argv = [sys.executable, "-W", "error", str(PROGRAMS / "stubborn.py"), db]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = await asyncio.to_thread(process.communicate, timeout=LIMIT)
    finally:
        process.kill()
    assert out.splitlines() == ["['still_running', 'still_running']", "['still_running']", "ended"]
    assert err == ""
    assert process.returncode == 0
