"""Fork: cancelled work picked up again from any step (R10)."""

from __future__ import annotations

import pytest
from tests.helpers import held
from tests.travel.world import Trip, a_world, stopped_in_step, traveller

from standfast import Misuse, Refused, WrongState


async def test_a_cancelled_run_is_picked_up_from_its_last_step() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b", "wait"]])
        await run.cancel()
        await run.settled(10)
        world.open.set()
        fork = await run.fork(by="ann")
        assert await fork.result(timeout=120) == ["a!", "b!"]
        assert world.log == ["a", "b", "undo b", "b"]
        assert (await run.view()).status == "cancelled"
        assert list((await fork.state()).diary) == ["step 0", "step 1"]


async def test_a_fork_from_an_earlier_step_with_another_state_leaves_the_source_alone() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(traveller, Trip(steps=[["read:a"], ["read:b"]]))
        assert await run.result(timeout=120) == ["a!", "b!"]
        fork = await run.fork(at=1, state=Trip(steps=[["read:a"], ["read:c"]], done=["mine"]))
        assert await fork.result(timeout=120) == ["mine", "c!"]
        assert (await run.state()).done == ["a!", "b!"]
        assert list((await run.state()).diary) == ["step 0", "step 1"]
        assert world.log == ["a", "b", "c"]


async def test_a_fork_takes_no_mail_and_no_journal_with_it() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["read:a", "wait"]])
        await run.redirect("for the source")
        world.open.set()
        fork = await run.fork()
        assert (await fork.view()).mail == ()
        await fork.result(timeout=120)
        assert world.log == ["a", "a"]
        assert [m.status for m in (await run.view()).mail] == ["pending"]


async def test_a_fork_of_effects_that_were_undone_is_held_as_stale() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["wait"]])
        await run.cancel(undo="all")
        await run.settled(10)
        fork = await run.fork()
        view = await held(fork, "stale")
        assert "write" in view.needs[0].text
        world.open.set()
        assert not await fork.resume()
        assert await fork.resume(accept_stale=True)
        assert await fork.result(timeout=120) == ["a!"]


async def test_a_fork_of_a_live_run_with_effects_is_held_as_stale() -> None:
    async with a_world() as (runs, _):
        run = await stopped_in_step(runs, [["write:a"], ["wait"]])
        fork = await run.fork()
        view = await held(fork, "stale")
        assert run.id in view.needs[0].text
        early = await run.fork(at=0)
        assert (await early.view()).status != "paused"


async def test_effects_undone_by_a_rewind_and_done_again_do_not_hold_a_fork() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["wait"]])
        await run.rewind(0)
        await held(run, "user")
        world.open.set()
        await run.resume()
        await run.result(timeout=120)
        fork = await run.fork(at=1)
        assert await fork.result(timeout=120) == ["a!"]


async def test_a_fork_that_makes_no_sense_is_refused_and_nothing_is_written() -> None:
    async with a_world() as (runs, world):
        world.open.set()
        run = await runs.start(traveller, Trip(steps=[["read:a"]]))
        await run.result(timeout=120)
        with pytest.raises(Misuse):
            await run.fork(at=7)
        with pytest.raises(WrongState):
            await run.fork(at=0, state={"steps": 5})
        with pytest.raises(Misuse):
            await run.fork(at=0, id=run.id)
        assert len(await runs.list()) == 1


async def test_a_fork_cannot_go_back_to_before_it_was_forked() -> None:
    """R10: it has no steps from before; the refusal names the first one there is."""
    async with a_world() as (runs, world):
        source = await runs.start(traveller, Trip(steps=[["read:a"], ["read:b"], ["read:c"], ["wait"]]))
        await runs.until(source, call="wait")
        fork = await source.fork(at=2)
        await runs.until(fork, call="wait")
        for refused in (await fork.rewind(0), await fork.redirect("anew", from_step=1)):
            assert isinstance(refused, Refused)
            assert "step 2" in refused.why
        assert await fork.rewind(2)
        assert (await held(fork, "user")).step == 2
        world.open.set()
        await fork.resume()
        assert await fork.result(timeout=120) == ["a!", "b!", "c!"]
