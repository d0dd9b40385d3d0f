"""Once a run has taken its last step and releases its locks, nothing can make it go on without them (R8, R9)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.helpers import eventually
from tests.ledger.world import Script, World, a_world, doer

from standfast import Accepted, Answer, Handle, Misuse, Refused
from standfast.testing import Lab

LOCKED = Script(steps=[["lock:a"], ["put:b"]])


@asynccontextmanager
async def _ending() -> AsyncIterator[tuple[Lab, World, Handle[str]]]:
    """A run that has taken its last step, in the midst of releasing its lock."""
    async with a_world() as (runs, world):
        world.hang.add("a")
        run = await runs.start(doer, LOCKED)
        await eventually(lambda: world.count("undo a"))
        try:
            yield runs, world, run
        finally:
            world.undo_open.set()  # who fails need not wait for it


IN_VAIN: dict[str, Callable[[Handle[str]], Awaitable[Answer]]] = {
    "redirect now": lambda run: run.redirect("no, the other one"),
    "redirect next": lambda run: run.redirect("no, the other one", when="next"),
    "redirect from a step": lambda run: run.redirect("no, the other one", from_step=0),
    "message": lambda run: run.message("by the way", when="now"),
    "resend": lambda run: run.resend("mail-0"),
    "rewind": lambda run: run.rewind(to=0),
    "take over": lambda run: run.take_over(),
    "abandon": lambda run: run.abandon("a thought", "it leads nowhere"),
    "return to": lambda run: run.return_to("a thought"),
}


@pytest.mark.parametrize("verb", IN_VAIN)
async def test_no_verb_takes_it_back_into_a_step(verb: str) -> None:
    async with _ending() as (_, world, run):
        answer = await IN_VAIN[verb](run)
        assert isinstance(answer, Refused)
        assert "last step" in str(answer)
        assert (await run.view()).step == 2
        world.undo_open.set()
        assert await run.result(timeout=120) == "all done"
        assert [world.count(done) for done in ("do a", "do b", "undone a")] == [1, 1, 1]


async def test_a_pause_does_not_keep_it_from_its_end() -> None:
    async with _ending() as (_, world, run):
        assert isinstance(await run.pause(), Accepted)
        world.undo_open.set()
        assert await run.result(timeout=120) == "all done"


async def test_after_a_crash_no_step_is_taken_again() -> None:
    async with _ending() as (runs, world, run):
        await runs.crash()
        await eventually(lambda: world.count("undo a") == 2)
        assert isinstance(await run.redirect("no, the other one"), Refused)
        world.undo_open.set()
        assert await run.result(timeout=120) == "all done"
        assert (await run.view()).step == 2
        assert world.count("do b") == 1


async def test_paused_in_a_crash_it_ends_when_it_is_resumed() -> None:
    async with _ending() as (runs, world, run):
        await run.pause()
        await runs.crash()
        await eventually(lambda: _is(run, "paused"))
        assert isinstance(await run.edit({"steps": []}), Refused)
        world.undo_open.set()
        assert isinstance(await run.resume(), Accepted)
        assert await run.result(timeout=120) == "all done"
        assert world.count("do b") == 1


async def test_paused_in_a_crash_it_takes_no_single_step() -> None:
    """There is none left to take: only a resume leads to its end."""
    async with _ending() as (runs, world, run):
        await run.pause()
        await runs.crash()
        await eventually(lambda: _is(run, "paused"))
        answer = await run.step_once()
        assert isinstance(answer, Refused)
        assert "last step" in str(answer)
        world.undo_open.set()
        await run.resume()
        assert await run.result(timeout=120) == "all done"


async def test_nobody_performs_anything_in_a_run_whose_locks_are_being_released() -> None:
    """Taken over in its last step, which ends with it; then a crash, before the locks are released."""
    async with a_world() as (runs, world):
        world.hang.add("a")
        run = await runs.start(doer, Script(steps=[["lock:a"], ["slow:b"]]))
        await eventually(lambda: world.count("do b"))
        assert isinstance(await run.take_over(by="ann"), Accepted)
        world.open.set()
        await eventually(lambda: world.count("undo a"))
        await runs.crash()
        await eventually(lambda: _is(run, "paused"))
        assert (await run.view()).taken_by == "ann"
        world.undo_open.set()
        with pytest.raises(Misuse, match="last step"):
            await run.perform("put", {"name": "c"}, by="ann", timeout=2)
        assert world.count("do c") == 0
        await run.hand_back("nothing to do")
        assert await run.result(timeout=120) == "all done"
        assert world.count("undone a") == 1


async def test_a_cancel_wins_and_its_receipt_has_the_result() -> None:
    async with _ending() as (_, world, run):
        assert isinstance(await run.cancel(undo="none"), Accepted)
        world.undo_open.set()
        receipt = await run.settled(10)
        assert receipt.status == "cancelled"
        assert receipt.result == "all done"
        assert world.count("undone a") == 1


async def _is(run: Handle[str], status: str) -> bool:
    return (await run.view()).status == status
