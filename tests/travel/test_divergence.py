"""A repeated step that asks for another write than the one it had is held first (R4, R15)."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel
from tests.helpers import held
from tests.travel.world import a_world, read, wait, write

from standfast import Done, Run, RunHeld, agent


class Plain(BaseModel):
    pass


class Mind:
    """What the step's code takes from outside the run."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.together = False


mind = Mind()


@agent("fickle", tools=[write, read, wait])
async def fickle(run: Run[Plain]) -> Done[list[str]]:
    if mind.together:
        done = list(await asyncio.gather(*(run.call(write(what)) for what in mind.calls)))
    else:
        done = [await run.call(write(what)) for what in mind.calls]
    await run.call(wait())
    return Done(done)


async def test_a_changed_write_is_held_and_both_are_named() -> None:
    mind.calls, mind.together = ["send to ann"], False
    async with a_world(fickle) as (runs, world):
        run = await runs.start(fickle, Plain())
        await runs.until(run, call="wait")
        await run.pause()
        await held(run, "user")
        mind.calls = ["send to bob"]
        await run.resume()
        view = await held(run, "diverged")
        assert world.log == ["send to ann"]
        (need,) = view.needs
        assert need.kind == "diverged"
        assert "send to ann" in need.text and "send to bob" in need.text
        with pytest.raises(RunHeld):
            await run.result(timeout=120)

        world.open.set()
        assert await run.resume()  # go on: both stand
        assert await run.result(timeout=120) == ["send to bob!"]
        assert world.log == ["send to ann", "send to bob"]


async def test_a_diverged_step_can_be_undone_and_taken_anew() -> None:
    mind.calls, mind.together = ["send to ann"], False
    async with a_world(fickle) as (runs, world):
        run = await runs.start(fickle, Plain())
        await runs.until(run, call="wait")
        await runs.crash()
        mind.calls = ["send to bob"]
        await run.pause()
        await held(run, "user")
        await run.resume()
        (need,) = (await held(run, "diverged")).needs
        undo = next(c for c in need.choices if getattr(c, "verb", "") == "rewind")
        assert await run.choose(need, undo)
        await held(run, "user")
        assert world.log == ["send to ann", "undo send to ann"]
        world.open.set()
        await run.resume()
        assert await run.result(timeout=120) == ["send to bob!"]


async def test_the_same_writes_side_by_side_in_another_order_do_not_diverge() -> None:
    mind.calls, mind.together = ["a", "b", "c"], True
    async with a_world(fickle) as (runs, world):
        run = await runs.start(fickle, Plain())
        await runs.until(run, call="wait")
        await run.pause()
        await held(run, "user")
        mind.calls = ["c", "new", "b", "a"]
        world.open.set()
        await run.resume()
        assert await run.result(timeout=120) == ["c!", "new!", "b!", "a!"]
        assert sorted(world.log) == ["a", "b", "c", "new"]


async def test_a_redirected_or_edited_step_may_ask_for_something_else() -> None:
    mind.calls, mind.together = ["send to ann"], False
    async with a_world(fickle) as (runs, world):
        run = await runs.start(fickle, Plain())
        await runs.until(run, call="wait")
        mind.calls = ["send to bob"]
        world.open.set()
        await run.redirect("to bob")
        assert await run.result(timeout=120) == ["send to bob!"]
        assert world.log == ["send to ann", "send to bob"]
