"""A paused run can be looked into, changed and stepped (R29)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.helpers import held
from tests.travel.world import Trip, World, a_world, stopped_in_step, traveller

from standfast import Misuse, Refused, Runtime, StandfastError, TooLate, WrongState


async def test_an_edit_is_validated_and_the_step_is_taken_again_with_it() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["write:b", "wait"]])
        with pytest.raises(WrongState):
            await run.edit({"done": 7})
        assert (await run.state()).done == ["a!"]
        answer = await run.edit({"done": ["edited"]}, by="ann")
        assert answer and "edited" in answer.note
        assert (await run.state()).done == ["edited"]
        view = await run.view()
        assert "done" in view.changed
        world.open.set()
        await run.resume()
        assert await run.result(timeout=120) == ["edited", "b!"]
        assert world.log == ["a", "b"]  # the finished call of the step kept its result


async def test_two_editors_are_kept_apart_by_seq() -> None:
    async with a_world() as (runs, _):
        run = await stopped_in_step(runs, [["wait"]])
        seen = (await run.view()).seq
        assert await run.edit({"done": ["first"]}, if_seq=seen)
        second = await run.edit({"done": ["second"]}, if_seq=seen)
        assert isinstance(second, Refused)
        assert (await run.state()).done == ["first"]


async def test_an_edit_of_a_moving_or_ended_run_is_not_made() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(traveller, Trip(steps=[["wait"]]))
        await runs.until(run, call="wait")
        assert isinstance(await run.edit({"done": ["x"]}), Refused)
        world.open.set()
        assert await run.result(timeout=120) == []
        assert isinstance(await run.edit({"done": ["x"]}), TooLate)


async def test_a_log_may_be_cut_short_or_added_to_but_not_rewritten() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["read:a"], ["read:b"], ["wait"]])
        assert list((await run.state()).diary) == ["step 0", "step 1"]
        with pytest.raises(StandfastError):
            await run.edit({"diary": ["another past", "step 1"]})
        assert await run.edit({"diary": ["step 0"]})
        assert list((await run.state()).diary) == ["step 0"]
        assert await run.edit({"diary": ["step 0", "added"]})
        world.open.set()
        await run.resume()
        await run.result(timeout=120)
        assert list((await run.state()).diary) == ["step 0", "added", "step 2"]
        assert list((await run.state(step=2)).diary)[:1] == ["step 0"]


async def test_an_edit_needs_no_agent_code(tmp_path: Path) -> None:
    world = World()
    store = tmp_path / "runs.db"
    async with Runtime(store, agents=[traveller], provide={World: world}) as runs:
        run = await runs.start(traveller, Trip(steps=[["read:a"], ["wait"]]), id="r")
        while world.log != ["a"] or (await run.view()).step != 1:
            await _tick()
        await run.pause()
        await held(run, "user")
    async with Runtime(store, drive=False) as runs:
        run = runs.handle("r")
        with pytest.raises(WrongState):
            await run.edit({"done": 7})
        with pytest.raises(WrongState):
            await run.edit({"diary": ["another past"]})
        assert await run.edit({"done": ["by hand"], "diary": ["step 0", "by hand"]})
        assert (await run.state())["done"] == ["by hand"]
        assert await run.resume()
    world.open.set()
    async with Runtime(store, agents=[traveller], provide={World: world}) as runs:
        assert await runs.handle("r").result(timeout=120) == ["by hand"]
        assert list((await runs.handle("r").state()).diary) == ["step 0", "by hand", "step 1"]


async def test_the_state_before_every_step_can_be_seen() -> None:
    async with a_world() as (runs, _):
        run = await stopped_in_step(runs, [["read:a"], ["read:b"], ["wait"]])
        assert [(await run.state(step=k)).done for k in range(3)] == [[], ["a!"], ["a!", "b!"]]
        assert [len((await run.state(step=k)).diary) for k in range(3)] == [0, 1, 2]
        with pytest.raises(Misuse):
            await run.state(step=3)
        with pytest.raises(Misuse):
            await run.state(step=-1)


async def test_step_once_takes_one_step_and_pauses_again() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["wait"], ["read:a"], ["read:b"]])
        world.open.set()
        for step in (1, 2):
            assert await run.step_once(by="ann")
            while (await run.view()).step != step:
                await _tick()
            await held(run, "user")
        assert world.log == ["a"]
        await run.resume()
        assert await run.result(timeout=120) == ["a!", "b!"]


async def test_step_once_of_a_running_run_is_refused() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(traveller, Trip(steps=[["wait"]]))
        await runs.until(run, call="wait")
        assert isinstance(await run.step_once(), Refused)


async def _tick() -> None:
    await asyncio.sleep(0.01)
