"""Each undo ends in an outcome of its own; none is silent (R8, R9)."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel
from tests.helpers import eventually
from tests.ledger.world import Script, a_world, doer

from standfast import Happened, NotHappened, Performed, Run, Runtime, agent, tool, undo


async def test_an_effect_without_undo_is_impossible_and_left_behind() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(doer, Script(steps=[["bare:a", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        receipt = await run.settled(10)
        assert [(u.call.tool, u.outcome) for u in receipt.undone] == [("bare", "impossible")]
        assert [r.call.tool for r in receipt.residue if r.call] == ["bare"]


async def test_cannot_undo_is_impossible_with_its_reason_and_is_not_tried_again() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(doer, Script(steps=[["post:a", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        receipt = await run.settled(10)
        (undone,) = receipt.undone
        assert (undone.outcome, undone.tries) == ("impossible", 1)
        assert "in the post" in undone.reason
        assert "in the post" in receipt.residue[0].why


async def test_an_undo_that_fails_is_tried_five_times_then_left_behind() -> None:
    async with a_world() as (runs, world):
        world.failing["b"] = 99
        run = await runs.start(doer, Script(steps=[["put:a", "put:b", "wait:x"]]))
        await runs.until(run, call="wait")
        began = runs.clock.now()
        await run.cancel()
        receipt = await run.settled(10)
        assert world.count("undo b") == 5
        assert {u.call.id: (u.outcome, u.tries) for u in receipt.undone} == {
            world.keys[0]: ("undone", 1),
            world.keys[1]: ("failed", 5),
        }
        assert [r.call.id for r in receipt.residue if r.call] == [world.keys[1]]
        assert "out of reach" in receipt.residue[0].why
        assert runs.clock.now() - began <= 90  # five tries within about a minute


async def test_an_undo_that_fails_twice_and_then_works_is_undone() -> None:
    async with a_world() as (runs, world):
        world.failing["a"] = 2
        run = await runs.start(doer, Script(steps=[["put:a", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        (undone,) = (await run.settled(10)).undone
        assert (undone.outcome, undone.tries) == ("undone", 3)


async def test_what_before_read_is_given_to_the_undo() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["noted:a", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        await run.settled(10)
        assert world.log[:2] == ["before a", "do a"]
        (seen,) = world.seen
        assert seen.before == {"was": 1}
        assert (seen.result, seen.status) == ("done a", "finished")
        assert seen.key == world.keys[0]


async def test_undo_of_a_cut_call_has_no_result() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["slow:a"]]))
        await eventually(lambda: world.count("do a"))
        accepted = await run.cancel()
        assert accepted
        assert [ref.tool for ref in accepted.in_flight] == ["slow"]
        receipt = await run.settled(10)
        (seen,) = world.seen
        assert (seen.result, seen.status) == (None, "in_doubt")
        assert [u.outcome for u in receipt.undone] == ["undone"]


async def test_an_effect_that_raised_is_undone_like_a_cut_one() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["broken:a"]]))
        await eventually(lambda: _status(run, "paused"))
        await run.cancel()
        receipt = await run.settled(10)
        assert world.count("undone a") == 1
        assert [u.outcome for u in receipt.undone] == ["undone"]


async def test_a_probe_that_says_not_happened_leaves_nothing_to_undo() -> None:
    async with a_world() as (runs, world):
        world.probe = NotHappened()
        run = await runs.start(doer, Script(steps=[["probed:a"]]))
        await eventually(lambda: world.count("do a"))
        await run.cancel()
        receipt = await run.settled(10)
        assert world.log == ["do a", "probe a"]
        assert [(u.outcome, u.reason) for u in receipt.undone] == [("undone", "it had not happened")]


async def test_a_probe_that_knows_the_result_gives_it_to_the_undo() -> None:
    async with a_world() as (runs, world):
        world.probe = Happened("found a")
        run = await runs.start(doer, Script(steps=[["probed:a"]]))
        await eventually(lambda: world.count("do a"))
        await run.cancel()
        await run.settled(10)
        assert world.log == ["do a", "probe a", "undo a", "undone a"]
        assert world.seen[0].result == "found a"


async def test_a_probe_that_does_not_know_lets_the_undo_run() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["probed:a"]]))
        await eventually(lambda: world.count("do a"))
        await run.cancel()
        await run.settled(10)
        assert world.log == ["do a", "probe a", "undo a", "undone a"]


async def _status(run: object, status: str) -> bool:
    return (await run.view()).status == status  # type: ignore[attr-defined]


async def test_an_undo_that_never_returns_is_given_up_after_five_tries_in_the_time_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RULINGS: five tries within about a minute, however long each of them would take."""
    monkeypatch.setattr(undo, "ALL_TRIES_SECONDS", 2.0)
    monkeypatch.setattr(undo, "LEAST_SECONDS", 0.05)
    tries: list[int] = []

    async def hangs(_: Performed[int, None]) -> None:
        tries.append(len(tries))
        await asyncio.sleep(1000)

    @tool(undo=hangs)
    async def put() -> int:
        return 1

    class Nothing(BaseModel):
        pass

    @agent("putter")
    async def putter(run: Run[Nothing]) -> None:
        await run.call(put())
        await asyncio.sleep(1000)

    async with Runtime(":memory:", agents=[putter]) as runs:
        run = await runs.start(putter, Nothing())
        async for event in run.events():
            if event.type == "call_finished":
                break
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
    assert len(tries) == undo.TRIES
    assert [(one.outcome, one.tries) for one in receipt.undone] == [("failed", undo.TRIES)]
    assert "could not be undone" in receipt.residue[0].what
