"""Rewind: undo a step and everything later, then take it anew (R5, R29)."""

from __future__ import annotations

import pytest
from tests.helpers import eventually, held
from tests.travel.world import Trip, World, a_world, stopped_in_step, traveller

from standfast import Done, Performed, Refused, Run, TooLate, agent, tool, use
from standfast.records import Undo


async def test_rewind_undoes_newest_first_and_holds_before_the_step() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b", "write:c"], ["write:d", "wait"]])
        assert await run.rewind(1, by="ann", reason="wrong")
        view = await held(run, "user")
        assert (view.step, view.epoch) == (1, 1)
        assert world.log[4:] == ["undo d", "undo c", "undo b"]
        state = await run.state()
        assert state.done == ["a!"]
        assert list(state.diary) == ["step 0"]
        world.open.set()
        await run.resume()
        assert await run.result(timeout=120) == ["a!", "b!", "c!", "d!"]
        assert world.log[7:] == ["b", "c", "d"]
        assert list((await run.state()).diary) == ["step 0", "step 1", "step 2"]


async def test_an_undo_that_fails_holds_the_run_and_names_the_effect() -> None:
    async with a_world() as (runs, world):
        world.no_undo.add("b")
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["wait"]])
        await run.rewind(0)
        view = await held(run, "error", "user")
        assert "b is for ever" in view.waiting_for
        assert world.log[2:] == ["undo a"]
        world.open.set()
        await run.resume()  # a person has seen it
        assert await run.result(timeout=120) == ["a!", "b!"]


async def test_a_failed_undo_of_an_older_epoch_holds_too() -> None:
    async with a_world() as (runs, world):
        world.no_undo.add("a")
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["wait"]])
        await run.rewind(1)
        await held(run, "user")
        await run.rewind(0)  # step 0 was taken in epoch 0, and this is the second rewind
        view = await held(run, "error", "user")
        assert "a is for ever" in view.waiting_for


async def test_what_an_earlier_rewind_could_not_undo_does_not_hold_the_next() -> None:
    async with a_world() as (runs, world):
        world.no_undo.add("b")
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["wait"]])
        await run.rewind(1)
        await held(run, "error", "user")
        await run.resume()
        await run.pause()
        await held(run, "user")
        world.no_undo.clear()
        await run.rewind(0)
        view = await held(run, "user")
        assert view.step == 0


async def test_a_crash_during_the_undo_of_a_rewind_goes_on_with_it() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["wait"]])
        await run.rewind(0)
        await runs.crash()
        view = await held(run, "user")
        assert view.step == 0
        assert set(world.log[2:]) == {"undo a", "undo b"}


async def test_rewind_with_nothing_to_undo_needs_no_driver() -> None:
    async with a_world() as (runs, _):
        run = await stopped_in_step(runs, [["read:a"], ["read:b"], ["wait"]])
        assert await run.rewind(1)
        assert (await run.view()).step == 1


async def test_rewind_to_where_no_step_is_is_refused_and_an_ended_run_is_too_late() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["wait"]])
        for wrong in (2, -1, "nowhere"):
            assert isinstance(await run.rewind(wrong), Refused)
        world.open.set()
        await run.resume()
        await run.result(timeout=120)
        assert isinstance(await run.rewind(0), TooLate)


async def test_rewind_while_running_undoes_and_pauses() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(traveller, Trip(steps=[["write:a"], ["write:b", "wait"]]))
        await runs.until(run, call="wait")
        assert await run.rewind(1)
        view = await held(run, "user")
        assert view.step == 1
        assert world.log == ["a", "b", "undo b"]


@pytest.mark.parametrize(("undo", "undone"), [("none", ["d"]), ("step", ["d", "c"]), ("all", ["d", "c", "b", "a"])])
async def test_cancel_during_a_rewind_decides_what_is_left_to_undo(undo: Undo, undone: list[str]) -> None:
    """What the rewind has undone, or is undoing, stays so."""
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["write:c", "write:d", "wait"]])
        world.slow_undo.add("d")
        await run.rewind(0)
        await eventually(lambda: "undo d" in world.log)
        assert await run.cancel(undo=undo)
        world.open.set()
        receipt = await run.settled(10)
        assert receipt.status == "cancelled"
        assert [line.removeprefix("undo ") for line in world.log if line.startswith("undo")] == undone
        assert {u.call.id for u in receipt.undone} == {world.keys[what][0] for what in undone}


async def test_a_resume_during_a_rewind_is_taken_when_it_has_settled() -> None:
    """R4: the verb table says noted, taken at settle."""
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["wait"]])
        world.slow_undo.add("b")
        assert await run.rewind(1)
        await eventually(lambda: "undo b" in world.log)
        assert await run.resume(by="ann", note="go on")
        world.open.set()
        assert await run.result(timeout=120) == ["a!", "b!"]
        assert world.log == ["a", "b", "undo b", "b"]


async def open_again(p: Performed[None, None]) -> None:
    use(World).log.append("opened again")


@tool(undo=open_again)
async def close_up() -> None:
    use(World).log.append("close_up")
    await use(World).open.wait()


@agent("closer", tools=[close_up])
async def closer(run: Run[Trip]) -> Done[str] | None:
    if run.step == 0:
        return None
    await run.call(close_up())
    return Done("closed")


async def test_a_rewind_that_was_noted_is_not_lost_to_a_step_that_ends_the_run() -> None:
    """R5: the pause lets the last write finish, and with it the run would be done."""
    async with a_world(closer) as (runs, world):
        run = await runs.start(closer, Trip(steps=[]))
        await eventually(lambda: "close_up" in world.log)
        assert await run.pause()
        assert await run.rewind(0, by="ann")
        world.open.set()
        view = await held(run, "user")
        assert (view.step, view.epoch) == (0, 1)
        assert await run.resume()
        assert await run.result(timeout=120) == "closed"
        assert world.log == ["close_up", "opened again", "close_up"]


async def test_a_resume_during_a_rewind_does_not_pass_over_what_could_not_be_undone() -> None:
    """R27: whoever asked for it could not know."""
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["wait"]])
        world.slow_undo.add("b")
        world.no_undo.add("a")
        assert await run.rewind(0)
        await eventually(lambda: "undo b" in world.log)
        assert await run.resume()
        world.open.set()
        view = await held(run, "error", "user")
        assert "a is for ever" in view.waiting_for
        assert await run.resume()
        assert await run.result(timeout=120) == ["a!", "b!"]


async def test_a_rewind_after_a_resume_that_waits_holds_the_run() -> None:
    """R3: the last word counts."""
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["wait"]])
        world.slow_undo.add("b")
        assert await run.rewind(1)
        await eventually(lambda: "undo b" in world.log)
        assert await run.resume()
        assert await run.rewind(0)
        world.open.set()
        await eventually(lambda: "undo a" in world.log)
        assert (await held(run, "user")).step == 0


@pytest.mark.parametrize("steps", [[1, 0, 2], [2, 1, 0], [0, 2, 1]])
async def test_of_several_rewinds_the_one_that_goes_back_furthest_is_taken(steps: list[int]) -> None:
    """R5: also of those asked for while an earlier one undoes; none is left over for a later pause."""
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["write:c"], ["wait"]])
        world.slow_undo.add("c")
        assert await run.rewind(steps[0])
        await eventually(lambda: "undo c" in world.log)
        for step in steps[1:]:
            assert await run.rewind(step)
        world.open.set()
        await eventually(lambda: "undo a" in world.log)
        view = await held(run, "user")
        assert (view.step, view.epoch) == (0, 1)
        assert world.log[3:] == ["undo c", "undo b", "undo a"]
        assert (await run.state()).done == []
        world.open.clear()
        await run.resume()

        async def waits() -> bool:
            return [ref.tool for ref in (await run.view()).in_flight] == ["wait"]

        await eventually(waits)
        await run.pause()
        assert (await held(run, "user")).step == 3
        world.open.set()
        await run.resume()
        assert await run.result(timeout=120) == ["a!", "b!", "c!"]


async def test_what_the_first_of_two_rewinds_could_not_undo_holds_the_run() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b"], ["write:c"], ["wait"]])
        world.slow_undo.add("c")
        world.no_undo.add("b")
        assert await run.rewind(1)
        await eventually(lambda: "undo c" in world.log)
        assert await run.rewind(0)
        world.open.set()
        view = await held(run, "error", "user")
        assert view.step == 0
        assert "b is for ever" in view.waiting_for
