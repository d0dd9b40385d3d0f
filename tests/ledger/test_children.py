"""What a stop of a parent does to its children's effects (R6, R8)."""

from __future__ import annotations

import pytest
from tests.helpers import eventually
from tests.ledger.world import Script, a_world, doer, failer

from standfast import RunFailed


async def test_cancel_all_undoes_the_effects_of_finished_children() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a"], ["child:put b+put c"], ["put:d", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel(undo="all")
        receipt = await run.settled(10)
        undone = [w.removeprefix("undone ") for w in world.log if w.startswith("undone")]
        assert undone == ["d", "c", "b", "a"]
        (child,) = {view.id for view in await runs.list()} - {run.id}
        whose = {one.call.id: one.call.run for one in receipt.undone}
        assert [whose[key] for key in world.keys] == [run.id, child, child, run.id], "each names whose call it was"
        assert [(one.call.tool, one.call.run) for one in receipt.in_flight] == [("wait", run.id)]


async def test_cancel_keeps_a_child_that_finished_in_the_step_and_lists_it() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["child:put b+put c", "put:d", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        receipt = await run.settled(10)
        assert [w for w in world.log if w.startswith("undone")] == ["undone d"]
        assert {ref.id for ref in receipt.kept} == set(world.keys[:2])
        assert not {ref.run for ref in receipt.kept} & {run.id, ""}, "they are the child's"


async def test_cancel_undoes_the_step_in_flight_of_a_live_child() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a", "child:put b+slow c"]]))
        await eventually(lambda: world.count("do c"))
        await run.cancel()
        receipt = await run.settled(10)
        assert [w for w in world.log if w.startswith("undone")] == ["undone c", "undone a"]
        assert world.keys[1] in {ref.id for ref in receipt.kept}


async def test_cancel_all_reaches_a_live_child_once() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a", "child:put b+slow c"]]))
        await eventually(lambda: world.count("do c"))
        await run.cancel(undo="all")
        receipt = await run.settled(10)
        assert [w for w in world.log if w.startswith("undo ")] == ["undo c", "undo b", "undo a"]
        assert {u.outcome for u in receipt.undone} == {"undone"}
        assert all(flight.call.run for flight in receipt.in_flight)
        assert {f.call.run for f in receipt.in_flight if f.call.tool == "slow"} != {run.id}


async def test_a_failed_run_leaves_no_child_running() -> None:
    async with a_world() as (runs, world):
        world.failing.clear()
        run = await runs.start(failer, Script(steps=[["with_child:slow c"]]))
        with pytest.raises(RunFailed):
            await run.result(timeout=120)
        assert world.count("undone c") == 1
        assert {v.status for v in await runs.list()} == {"failed", "cancelled"}
