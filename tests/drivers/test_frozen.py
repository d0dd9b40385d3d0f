"""Frozen processes: replaced, fenced when they wake, and never able to keep a stop from working (R7, R15, R34, R35)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.drivers.test_two_processes import recorded, types_of
from tests.drivers.workers import Worker, at_step, driven, outside
from tests.helpers import eventually
from tests.programs.driven import UNTIL_TOLD

from standfast import Handle, StoreBusy
from standfast.stores.sqlite import BUSY_SECONDS

T = TypeVar("T")

LEASE = 1.0


async def held(run: Handle[Any], hold: str) -> Any:
    view = await run.view()
    return view if view.status == "paused" and hold in view.holds else None


async def test_a_frozen_driver_is_replaced_after_its_lease_and_says_so_when_it_wakes(tmp_path: Path) -> None:
    async with driven(tmp_path, lease_seconds=LEASE) as (old, runs):
        run = await runs.start("walker", {"steps": 30, "tool": "peek", "seconds": 0.05})
        await eventually(lambda: at_step(run, 2), 120)
        old.freeze()
        with Worker(tmp_path, lease_seconds=LEASE) as new:
            await new.ready()
            frozen_at = (await run.view()).step
            await eventually(lambda: at_step(run, frozen_at + 2), 120)
            old.wake()
            await eventually(lambda: "was taken from this driver" in old.said, 120)
            assert await run.result(timeout=120) == []
            fenced = [e for e in await recorded(run) if e.type == "driver_fenced"]
            claims = [e for e in await recorded(run) if e.type == "run_claimed"]
            assert [e.driver for e in fenced] == [claims[0].driver]
            assert [e.fence for e in claims] == [1, 2]
            notes = (await run.state())["notes"]
            assert [n.rstrip(".") for n in notes] == [f"step {k}" for k in range(30)], "a late result came in"


async def test_a_late_write_of_a_fenced_driver_settles_the_doubt_and_is_not_repeated(tmp_path: Path) -> None:
    async with driven(tmp_path, lease_seconds=LEASE) as (old, runs):
        run = await runs.start("walker", {"steps": 1, "tool": "pay", "seconds": UNTIL_TOLD})
        await eventually(lambda: outside(tmp_path).count("began"))
        old.freeze()
        with Worker(tmp_path, lease_seconds=LEASE) as new:
            await new.ready()
            await eventually(lambda: held(run, "in_doubt"), 120)
            old.wake()
            await eventually(lambda: "was taken from this driver" in old.said, 120)
            assert not outside(tmp_path).count("did"), "it is fenced while its write is still under way"
            outside(tmp_path).happen("told", run.id, "now")
            assert await run.result(timeout=120) == ["paid 0"]
            types = await types_of(run)
            assert types.index("driver_fenced") < types.index("late_result")
    assert set(outside(tmp_path).count("began").values()) == {1}
    assert set(outside(tmp_path).count("did").values()) == {1}


async def test_a_probe_that_says_no_settles_nothing_while_the_old_driver_may_live(tmp_path: Path) -> None:
    """The frozen process may still perform the write when it wakes."""
    async with driven(tmp_path, lease_seconds=LEASE) as (old, runs):
        run = await runs.start("walker", {"steps": 1, "tool": "post", "seconds": 30})
        await eventually(lambda: outside(tmp_path).count("began"))
        old.freeze()
        with Worker(tmp_path, lease_seconds=LEASE) as new:
            await new.ready()
            await eventually(lambda: held(run, "in_doubt"), 120)
            assert outside(tmp_path).count("began").total() == 1
            old.kill()
            [need] = (await run.view()).needs
            assert await run.resolve(need.call, need.choices[2])  # check again: now it is known to be dead
            await eventually(lambda: outside(tmp_path).count("began").total() == 2, 120)
            assert len(outside(tmp_path).count("began")) == 1, "the same key"


async def test_a_cancel_settles_while_the_driver_is_frozen(tmp_path: Path) -> None:
    async with driven(tmp_path, lease_seconds=LEASE) as (old, runs):
        run = await runs.start("walker", {"steps": 2, "tool": "post", "seconds": 1.0})
        await eventually(lambda: outside(tmp_path).count("began"))
        old.freeze()
        with Worker(tmp_path, lease_seconds=LEASE) as new:
            await new.ready()
            answer = await run.cancel()
            assert answer
            assert [c.tool for c in answer.in_flight] == ["post"]
            receipt = await run.settled(timeout=120)
            assert receipt.status == "cancelled"
            assert [u.call.tool for u in receipt.undone] == ["post"]
            old.wake()
            await eventually(lambda: "was taken from this driver" in old.said, 120)
            await asyncio.sleep(0.3)
            assert outside(tmp_path).count("began").total() == 1
            assert (await run.view()).status == "cancelled"


# --- frozen inside a commit: SQLite's lock is held by somebody who does not move ------------------------------


async def freeze_in_a_commit(worker: Worker, run: Handle[Any]) -> None:
    await eventually(lambda: at_step(run, 2), 120)
    await worker.ask("freeze")
    await eventually(lambda: worker.frozen, 120)


async def test_a_verb_on_a_locked_store_says_by_whom_without_waiting_for_it_and_works_later(tmp_path: Path) -> None:
    async with driven(tmp_path, lease_seconds=LEASE) as (worker, runs):
        run = await runs.start("walker", {"steps": 300})
        await freeze_in_a_commit(worker, run)
        assert (await run.view()).status == "running", "a look does not wait"
        with pytest.raises(StoreBusy) as told:
            await answered(run.pause())
        assert worker.frozen
        assert told.value.pid == worker.pid
        assert str(worker.pid) in str(told.value)
        assert "tests.programs.driving_worker" in str(told.value), "what it is"
        assert f"kill -CONT {worker.pid}" in told.value.hint
        worker.wake()
        assert await eventually(lambda: _paused(run), 120)
        step = (await run.settled(timeout=120)).finished_steps
        assert (await run.view()).step == step
        await run.cancel()
    assert set(outside(tmp_path).count("did").values()) == {1}


async def _paused(run: Handle[Any]) -> Any:
    try:
        return await run.pause()
    except StoreBusy:
        return None


async def answered(verb: Awaitable[T]) -> T:
    """The answer, which comes while the store is locked: whoever waits for the lock hangs here, and fails."""
    assert BUSY_SECONDS < 2, "nobody is to wait longer than two seconds on a machine that is not busy itself"
    return await asyncio.wait_for(verb, 120)


async def test_many_verbs_at_once_on_a_locked_store_share_one_wait(tmp_path: Path) -> None:
    async with driven(tmp_path, lease_seconds=LEASE) as (worker, runs):
        run = await runs.start("walker", {"steps": 300})
        await freeze_in_a_commit(worker, run)
        for _ in range(2):
            verbs = [run.pause(), run.cancel(), run.redirect("x"), run.message("y"), run.resume(), run.pause()]
            answers = await answered(asyncio.gather(*verbs, return_exceptions=True))
            assert worker.frozen
            assert [type(a) for a in answers] == [StoreBusy] * 6
            # One waits for the lock; those that were asked meanwhile get its answer, and do not wait in turn.
            assert len({id(a) for a in answers}) < len(answers)
        worker.wake()
        assert await eventually(lambda: _paused(run), 120)
        view = await run.view()
        assert view.mail == (), "a verb that was not accepted has done nothing"


async def test_a_driver_frozen_in_a_commit_is_replaced_as_soon_as_it_is_killed(tmp_path: Path) -> None:
    async with driven(tmp_path, lease_seconds=3600) as (old, runs):
        run = await runs.start("walker", {"steps": 60})
        await freeze_in_a_commit(old, run)
        old.kill()
        with Worker(tmp_path, lease_seconds=3600) as new:
            await new.ready()
            assert await run.result(timeout=120) == [f"posted {n}" for n in range(60)]
    did = outside(tmp_path).count("did")
    assert len(did) == 60
    assert set(did.values()) == {1}


async def test_a_driver_that_wakes_in_its_commit_repeats_nothing_whoever_goes_on(tmp_path: Path) -> None:
    async with driven(tmp_path, lease_seconds=LEASE) as (old, runs):
        run = await runs.start("walker", {"steps": 900})  # it is not at its end before the other has started
        await eventually(lambda: at_step(run, 2), 120)
        with Worker(tmp_path, lease_seconds=LEASE) as new:
            await new.ready()
            await old.ask("freeze")
            await eventually(lambda: old.frozen, 120)
            await asyncio.sleep(2 * LEASE)
            old.wake()
            step = (await run.view()).step
            await eventually(lambda: at_step(run, step + 20))
            await eventually(lambda: _cancelled(run), 120)
            receipt = await run.settled(timeout=120)
    did = outside(tmp_path).count("did")
    assert len(did) >= receipt.finished_steps > step
    assert set(did.values()) == {1}


async def _cancelled(run: Handle[Any]) -> Any:
    try:
        return await run.cancel(undo="none")
    except StoreBusy:
        return None


async def test_a_program_that_keeps_the_store_locked_is_named_with_its_work_and_lives_on(tmp_path: Path) -> None:
    """R34: it is at work, so nobody is told to kill it, and nobody does."""
    store = tmp_path / "runs.db"
    async with driven(tmp_path) as (_, runs):
        run = await runs.start("walker", {"steps": 3000, "tool": "peek", "seconds": 0.05})
        await eventually(lambda: at_step(run, 1))
        code = (
            "import sqlite3, sys\n"
            "c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n"
            "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.readline()\n"
        )
        program = tmp_path / "export_all.py"
        program.write_text(code)
        keeper = subprocess.Popen(
            [sys.executable, program, store, "--password=hunter2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert keeper.stdout is not None
            assert await asyncio.to_thread(keeper.stdout.readline) == "locked\n"
            with pytest.raises(StoreBusy) as told:
                await run.cancel()
            assert told.value.pid == keeper.pid
            assert f"process {keeper.pid} (export_all.py)" in told.value.message
            assert "hunter2" not in str(told.value)
            assert "kill" not in told.value.hint
            assert keeper.poll() is None
            keeper.communicate("\n")
            assert await eventually(lambda: _cancelled(run))
        finally:
            keeper.kill()
            keeper.communicate()


@pytest.mark.parametrize("verb", ["cancel", "pause", "halt"])
async def test_a_stop_waits_for_a_program_that_is_at_work_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    """R34: who halts 10,000 runs holds the lock for seconds; nobody's stop is refused for that."""
    store, enough = tmp_path / "runs.db", tmp_path / "enough"
    async with driven(tmp_path) as (_, runs):
        run = await runs.start("walker", {"steps": 3000, "tool": "peek", "seconds": 0.05})
        await eventually(lambda: at_step(run, 1))
        code = (
            "import os, sqlite3, sys\n"
            "c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)\n"
            "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True)\n"
            "while not os.path.exists(sys.argv[2]): pass\n"
        )
        keeper = subprocess.Popen([sys.executable, "-c", code, store, enough], stdout=subprocess.PIPE, text=True)
        try:
            assert keeper.stdout is not None
            assert await asyncio.to_thread(keeper.stdout.readline) == "locked\n"
            stop = runs.halt(all=True, reason="leaking") if verb == "halt" else getattr(run, verb)()
            asked = asyncio.ensure_future(stop)
            await eventually(lambda: asked.done() or "waiting for the store" in caplog.text)
            assert not asked.done(), asked.exception()
            assert f"which process {keeper.pid} ({Path(sys.executable).name}) is writing to" in caplog.text
            enough.touch()
            assert await asked
        finally:
            keeper.kill()
            keeper.communicate()
