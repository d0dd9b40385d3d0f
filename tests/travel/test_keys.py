"""A call's key stays the same over everything but rewind and fork (R15)."""

from __future__ import annotations

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held
from tests.travel.world import Trip, a_world, read, stopped_in_step, traveller, wait, write

from standfast import Done, KeyReused, NotHappened, Run, RunHeld, agent


class Plain(BaseModel):
    same: bool = True


@agent("twins", tools=[write, read])
async def twins(run: Run[Plain]) -> Done[int]:
    return Done(len(await run.call_all([read("a"), read("a"), read("b")])))


@agent("keyed", tools=[write, read])
async def keyed(run: Run[Plain]) -> Done[str]:
    await run.call(write("a"), key="k")
    await run.call(read("a"), key="k")  # another tool: another key
    return Done(await run.call(write("a" if run.state.same else "b"), key="k"))


@agent("changing", tools=[write, wait])
async def changing(run: Run[Plain]) -> Done[str]:
    result = await run.call(write("a" if run.state.same else "b"), key="order")
    await run.call(wait())
    return Done(result)


async def test_equal_calls_side_by_side_have_keys_of_their_own() -> None:
    async with a_world(twins) as (runs, world):
        run = await runs.start(twins, Plain())
        assert await run.result(timeout=120) == 3
        assert len({k for keys in world.keys.values() for k in keys}) == 3


async def test_the_same_call_in_another_step_or_run_has_another_key() -> None:
    async with a_world() as (runs, world):
        for _ in range(2):
            run = await runs.start(traveller, Trip(steps=[["write:a"], ["write:a"]]))
            await run.result(timeout=120)
        assert len(set(world.keys["a"])) == 4


async def test_pause_resume_set_back_and_takeover_keep_the_key() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(traveller, Trip(steps=[["read:a", "wait"]]))
        await runs.until(run, call="read")
        await runs.crash()  # takeover
        await eventually(lambda: len(world.keys.get("a", [])) >= 1)
        await run.redirect("again")  # set back
        await run.pause()
        await held(run, "user")
        await run.resume()
        world.open.set()
        await run.result(timeout=120)
        assert len(set(world.keys["a"])) == 1


async def test_not_happened_keeps_the_key() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(traveller, Trip(steps=[["write:a"]]))
        await runs.until(run, call="write", point="performed")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        await run.resolve(need.call, NotHappened())
        await run.result(timeout=120)
        assert world.keys["a"] == [need.call, need.call]


async def test_rewind_and_fork_change_the_key() -> None:
    async with a_world() as (runs, world):
        run = await stopped_in_step(runs, [["write:a"], ["wait"]])
        await run.rewind(0)
        await held(run, "user")
        world.open.set()
        await run.resume()
        await run.result(timeout=120)
        fork = await run.fork(at=0)
        await fork.result(timeout=120)
        assert len(world.keys["a"]) == 3
        assert len(set(world.keys["a"])) == 3


async def test_an_explicit_key_twice_in_one_attempt_is_an_error_with_a_hint() -> None:
    for same in (True, False):
        async with a_world(keyed) as (runs, world):
            run = await runs.start(keyed, Plain(same=same))
            with pytest.raises(RunHeld) as info:
                await run.result(timeout=120)
            assert KeyReused.__name__ in str(info.value)
            assert world.log == ["a", "a"]


async def test_an_explicit_key_stands_for_the_arguments_it_had() -> None:
    """Edited meanwhile, the step asks for another call under the same key: refused, not sent again."""
    async with a_world(changing) as (runs, world):
        run = await runs.start(changing, Plain())
        await runs.until(run, call="wait")
        await run.pause()
        await held(run, "user")
        await run.edit({"same": False})
        await run.resume()
        view = await held(run, "error")
        assert "KeyReused" in view.error
        assert world.log == ["a"]
        await run.edit({"same": True})
        await run.resume()
        world.open.set()
        assert await run.result(timeout=120) == "a!"
        assert world.log == ["a"]
