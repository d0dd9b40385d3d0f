"""Which effects a stop takes back, and in which order (R8, R9)."""

from __future__ import annotations

import pytest
from tests.ledger.world import Script, a_world, doer, failer

from standfast import Accepted, RunFailed


async def test_cancel_undoes_the_step_in_flight_newest_first() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a", "put:b", "put:c", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        receipt = await run.settled(10)
        assert world.log[3:] == ["undo c", "undone c", "undo b", "undone b", "undo a", "undone a"]
        assert [u.outcome for u in receipt.undone] == ["undone"] * 3
        assert receipt.residue == ()


async def test_cancel_keeps_committed_steps_and_lists_them() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a"], ["put:b", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        receipt = await run.settled(10)
        assert world.count("undo b") == 1
        assert world.count("undo a") == 0
        assert receipt.finished_steps == 1
        assert [ref.tool for ref in receipt.kept] == ["put"]


async def test_cancel_undoes_drafts_of_earlier_steps() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["draft:d", "put:a"], ["wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel()
        receipt = await run.settled(10)
        assert world.log[2:] == ["undo d", "undone d"]
        assert [u.call.tool for u in receipt.undone] == ["draft"]


async def test_cancel_all_walks_the_whole_run_back_in_reverse_order() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a", "draft:b"], ["lock:c"], ["put:d", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel(undo="all")
        receipt = await run.settled(10)
        assert [w for w in world.log if w.startswith("undone")] == ["undone d", "undone c", "undone b", "undone a"]
        assert receipt.undo == "all"
        assert receipt.kept == ()


async def test_cancel_none_keeps_everything_but_releases_locks() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a", "draft:b", "lock:c", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel(undo="none")
        receipt = await run.settled(10)
        assert [w for w in world.log if w.startswith("undone")] == ["undone c"]
        assert sorted(ref.tool for ref in receipt.kept) == ["draft", "put"]


async def test_cancel_of_a_paused_run_undoes_too() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.pause()
        await run.settled(10)
        await run.cancel()
        receipt = await run.settled(10)
        assert world.count("undone a") == 1
        assert receipt.status == "cancelled"


async def test_locks_are_released_when_the_run_is_done() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["lock:a", "draft:b"], ["put:c"]]))
        assert await run.result(timeout=120) == "all done"
        assert [w for w in world.log if w.startswith("undone")] == ["undone a"]


async def test_a_lock_that_cannot_be_released_at_done_is_in_the_residue() -> None:
    async with a_world() as (runs, world):
        world.failing["a"] = 99
        run = await runs.start(doer, Script(steps=[["lock:a"]]))
        assert await run.result(timeout=120) == "all done"
        receipt = await run.settled(10)
        assert receipt.status == "done"
        assert [(u.outcome, u.tries) for u in receipt.undone] == [("failed", 5)]
        assert [r.call.tool for r in receipt.residue if r.call] == ["lock"]


async def test_a_run_that_fails_undoes_its_step_and_releases_locks() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(failer, Script(steps=[["lock:l", "put:a", "draft:d"], ["put:b", "raise:oops"]]))
        with pytest.raises(RunFailed, match="oops"):
            await run.result(timeout=120)
        assert [w for w in world.log if w.startswith("undone")] == ["undone b", "undone d", "undone l"]
        assert (await run.settled(10)).status == "failed"


async def test_a_failing_run_waits_for_a_write_in_flight_before_it_undoes_it() -> None:
    """R8: an undo beside a body that still runs would undo nothing."""
    async with a_world() as (runs, world):
        run = await runs.start(failer, Script(steps=[["gather:slow s+broken b"]]))
        with pytest.raises(RunFailed):
            await run.result(timeout=120)
        receipt = await run.settled(10)
        assert world.count("undone s") == 1
        assert {(f.call.tool, f.outcome) for f in receipt.in_flight} == {("slow", "aborted")}
        assert [p.status for p in world.seen if p.args["name"] == "s"] == ["in_doubt"]


async def test_second_cancel_with_another_mode_keeps_the_first_and_says_so() -> None:
    async with a_world() as (runs, world):
        world.hang.add("b")
        run = await runs.start(doer, Script(steps=[["put:a"], ["put:b", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel(undo="step")
        again = await run.cancel(undo="all")
        assert isinstance(again, Accepted)
        assert "'step'" in again.note
        world.undo_open.set()
        receipt = await run.settled(10)
        assert receipt.undo == "step"
        assert world.count("undo a") == 0


async def test_the_receipt_of_a_pause_is_not_that_of_the_end() -> None:
    """R9: what `settled()` tells is about the state the run is in."""
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["lock:a", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.pause(by="ann")
        assert (await run.settled(10)).status == "paused"
        world.open.set()
        await run.resume()
        await run.result(timeout=120)
        receipt = await run.settled(10)
        assert (receipt.status, receipt.by) == ("done", None)
        assert [u.outcome for u in receipt.undone] == ["undone"]
