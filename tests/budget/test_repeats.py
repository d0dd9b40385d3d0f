"""Repeated identical calls are noticed (R17)."""

from __future__ import annotations

import pytest
from tests.budget.world import Loop, a_world, poller, stubborn
from tests.helpers import held

from standfast import Budget, RunCancelled


async def test_the_same_call_with_the_same_result_too_often_holds_the_run() -> None:
    async with a_world() as (runs, world):
        world.answers = ["nothing"]
        run = await runs.start(poller, Loop(), budget=Budget(repeats=4))
        view = await held(run, "loop")
        assert len(world.calls) == 4
        (need,) = view.needs
        assert "poll" in need.text and "4" in need.text
        world.answers = ["ready"]
        assert await run.choose(need, need.choices[0])
        assert await run.result(timeout=120) == "ready"


async def test_another_result_in_between_begins_the_count_anew() -> None:
    async with a_world() as (runs, world):
        world.answers = ["a", "a", "a", "b", "a", "a", "a", "ready"]
        run = await runs.start(poller, Loop(), budget=Budget(repeats=4))
        assert await run.result(timeout=120) == "ready"


async def test_a_resumed_run_may_repeat_itself_so_often_again() -> None:
    async with a_world() as (runs, world):
        world.answers = ["nothing"]
        run = await runs.start(poller, Loop(), budget=Budget(repeats=3))
        await held(run, "loop")
        await run.resume()
        await held(run, "loop")
        assert len(world.calls) == 6


async def test_the_count_survives_a_crash() -> None:
    async with a_world() as (runs, world):
        world.answers = ["nothing"]
        run = await runs.start(poller, Loop(), budget=Budget(repeats=5))
        await runs.until(run, call="poll", point="recorded")
        await runs.crash()
        await held(run, "loop")
        assert 5 <= len(world.calls) <= 6


async def test_the_same_failure_again_and_again_is_a_repeat_too() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(stubborn, Loop(), budget=Budget(repeats=3))
        await held(run, "loop")
        assert len(world.calls) == 3


async def test_repeats_may_cancel_instead() -> None:
    async with a_world() as (runs, world):
        world.answers = ["nothing"]
        run = await runs.start(poller, Loop(), budget=Budget(repeats=3, then="cancel"))
        with pytest.raises(RunCancelled) as info:
            await run.result(timeout=120)
        assert info.value.receipt.trigger == "budget"
        assert len(world.calls) == 3
