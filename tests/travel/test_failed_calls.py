"""Failed calls: the same on replay; reads are issued again after an error, effects never unasked (R4, R15)."""

from __future__ import annotations

from tests.helpers import eventually, held
from tests.travel.world import Trip, a_world, traveller


async def test_a_failed_read_is_issued_again_on_resume_after_the_error() -> None:
    async with a_world() as (runs, world):
        world.broken.add("b")
        run = await runs.start(traveller, Trip(steps=[["read:a", "read:b"]]))
        view = await held(run, "error")
        assert "b broke" in view.error
        world.broken.clear()
        await run.resume()
        assert await run.result(timeout=120) == ["a!", "b!"]
        assert world.log == ["a", "b", "b"]  # a had finished
        assert len(set(world.keys["b"])) == 1


async def test_a_failed_write_is_never_issued_again() -> None:
    async with a_world() as (runs, world):
        world.broken.add("b")
        run = await runs.start(traveller, Trip(steps=[["write:b"]]))
        view = await held(run, "error")
        world.broken.clear()
        await run.resume()
        view = await eventually(lambda: _failed_again(run, view.attempt))
        assert "b broke" in view.error
        assert world.log == ["b"]
        assert await run.rewind(0)  # asked to: undone, and then taken anew
        await held(run, "user")
        await run.resume()
        assert await run.result(timeout=120) == ["b!"]
        assert world.log == ["b", "undo b", "b"]


async def test_a_caught_failure_is_the_same_on_replay() -> None:
    async with a_world() as (runs, world):
        world.broken.add("b")
        run = await runs.start(traveller, Trip(steps=[["try:b", "wait"]]))
        await runs.until(run, call="wait")
        await runs.crash()
        world.broken.clear()
        world.open.set()
        assert await run.result(timeout=120) == ["OSError: b broke"]
        assert world.log == ["b"]


async def test_not_performed_says_that_nothing_happened() -> None:
    async with a_world() as (runs, world):
        world.nothing.add("b")
        run = await runs.start(traveller, Trip(steps=[["write:b"]]))
        view = await held(run, "error")
        assert "b was refused" in view.error
        world.nothing.clear()
        await run.resume()  # nothing happened, so it may be tried again
        assert await run.result(timeout=120) == ["b!"]
        assert len(set(world.keys["b"])) == 1


async def test_what_was_not_performed_is_not_undone() -> None:
    async with a_world() as (runs, world):
        world.nothing.add("b")
        run = await runs.start(traveller, Trip(steps=[["write:b"]]))
        await held(run, "error")
        await run.cancel()
        receipt = await run.settled(10)
        assert receipt.undone == ()
        assert receipt.residue == ()
        assert world.log == ["b"]


async def _failed_again(run: object, attempt: int) -> object:
    view = await run.view()  # type: ignore[attr-defined]
    return view if view.status == "paused" and view.attempt > attempt else None
