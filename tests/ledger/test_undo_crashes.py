"""The ledger goes on where a crash left it (R2, R8)."""

from __future__ import annotations

from tests.helpers import eventually
from tests.ledger.world import Script, a_world, doer


async def test_a_crash_half_way_repeats_only_the_undo_it_was_in() -> None:
    async with a_world() as (runs, world):
        world.hang.add("b")
        run = await runs.start(doer, Script(steps=[["put:a", "put:b", "put:c", "wait:x"]]))
        await runs.until(run, call="wait")
        await run.cancel(by="ann", reason="enough")
        await eventually(lambda: world.count("undo b"))
        assert (await run.view()).waiting_for.startswith("undo of put")
        await runs.crash()
        await eventually(lambda: world.count("undo b") == 2)
        world.undo_open.set()
        receipt = await run.settled(10)
        assert world.count("undo c") == 1
        assert world.count("undone b") == 1
        assert world.count("undo a") == 1
        assert [u.outcome for u in receipt.undone] == ["undone"] * 3
        assert (receipt.by, receipt.reason) == ("ann", "enough")


async def test_the_count_of_tries_survives_a_crash() -> None:
    async with a_world() as (runs, world):
        world.failing["a"] = 99
        run = await runs.start(doer, Script(steps=[["put:a", "wait:x"]]))
        await runs.until(run, call="wait")
        world.hang.add("a")
        await run.cancel()
        await eventually(lambda: world.count("undo a"))
        await runs.crash()
        await eventually(lambda: world.count("undo a") == 2)
        await runs.crash()
        await eventually(lambda: world.count("undo a") == 3)
        world.undo_open.set()
        (undone,) = (await run.settled(10)).undone
        assert (undone.outcome, undone.tries) == ("failed", 5)
        assert world.count("undo a") == 5


async def test_a_crash_right_after_the_cancel_was_accepted_still_undoes() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["put:a", "slow:b"]]))
        await eventually(lambda: world.count("do b"))
        assert await run.cancel()
        await runs.crash()
        receipt = await run.settled(10)
        assert [w for w in world.log if w.startswith("undone")] == ["undone b", "undone a"]
        assert {(f.call.tool, f.outcome) for f in receipt.in_flight} <= {("slow", "aborted"), ("slow", "in_doubt")}


async def test_what_before_read_survives_a_crash() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(doer, Script(steps=[["noted:a", "wait:x"]]))
        await runs.until(run, call="noted", point="admitted")
        await runs.crash()
        await eventually(lambda: _in_doubt(run))
        await run.cancel()
        await run.settled(10)
        assert [p.before for p in world.seen] == [{"was": 1}]


async def test_locks_are_released_at_done_also_across_a_crash() -> None:
    async with a_world() as (runs, world):
        world.hang.add("a")
        run = await runs.start(doer, Script(steps=[["lock:a"], ["put:b"]]))
        await eventually(lambda: world.count("undo a"))
        await runs.crash()
        await eventually(lambda: world.count("undo a") == 2)
        world.undo_open.set()
        assert await run.result(timeout=120) == "all done"
        assert world.count("do b") == 1
        assert world.count("undone a") == 1


async def _in_doubt(run: object) -> bool:
    return "in_doubt" in (await run.view()).holds  # type: ignore[attr-defined]
