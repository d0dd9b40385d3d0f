"""Several processes on one file: exactly one drives a run, any controls it, who goes is replaced (R2, R4, R34)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from tests.drivers.workers import Worker, at_step, driven, outside
from tests.helpers import eventually

from standfast import Handle, RunCancelled, Runtime


async def types_of(run: Handle[Any]) -> list[str]:
    """The record so far."""
    return [e.type for e in await recorded(run)]


async def recorded(run: Handle[Any]) -> list[Any]:
    row = run._row()
    return [e for _, batch in run._runs.read(lambda tx: tx.record(row.n, 0, 10_000)) for e in batch]


async def test_exactly_one_process_drives_a_run(tmp_path: Path) -> None:
    with Worker(tmp_path) as a, Worker(tmp_path) as b:
        await asyncio.gather(a.ready(), b.ready())
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            started = [await runs.start("walker", {"steps": 6}, id=f"r{n}") for n in range(8)]
            for run in started:
                assert await run.result(timeout=120) == [f"posted {n}" for n in range(6)]
                assert (await types_of(run)).count("run_claimed") == 1
    did = outside(tmp_path).count("did")
    assert len(did) == 48
    assert set(did.values()) == {1}


async def test_a_run_can_be_started_by_name_as_soon_as_a_driver_is_there(tmp_path: Path) -> None:
    async with driven(tmp_path) as (_, runs):
        assert await (await runs.start("walker", {"steps": 1})).result(timeout=120) == ["posted 0"]


async def test_any_process_controls_what_another_drives(tmp_path: Path) -> None:
    async with driven(tmp_path) as (_, runs):
        run = await runs.start("walker", {"steps": 400})
        await eventually(lambda: at_step(run, 2), 120)
        assert await run.pause(by="ann")
        await run.settled(timeout=120)
        held = (await run.view()).step
        count = outside(tmp_path).count("began").total()
        await asyncio.sleep(0.2)
        assert (await run.view()).step == held
        assert outside(tmp_path).count("began").total() == count
        assert await run.resume()
        await eventually(lambda: at_step(run, held + 2), 120)
        assert await run.cancel(undo="all")
        receipt = await run.settled(timeout=120)
        assert {u.outcome for u in receipt.undone} == {"undone"}
        assert receipt.calls_after_cancel == 0
    did, undid = outside(tmp_path).count("did"), outside(tmp_path).count("undid")
    assert set(did) <= set(undid)
    assert set(did.values()) == {1}


async def test_a_killed_driver_is_replaced_at_once(tmp_path: Path) -> None:
    """By pid and start time, long before its lease of an hour would have lapsed."""
    with Worker(tmp_path, lease_seconds=3600) as a, Worker(tmp_path, lease_seconds=3600) as b:
        await asyncio.gather(a.ready(), b.ready())
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            run = await runs.start("walker", {"steps": 40})
            await eventually(lambda: at_step(run, 3), 120)
            driving = {pid for _, _, _, pid in outside(tmp_path).facts()}
            (a if a.pid in driving else b).kill()
            killed = time.monotonic()
            assert await run.result(timeout=120) == [f"posted {n}" for n in range(40)]
            assert time.monotonic() - killed < 30
            claims = [e for e in await recorded(run) if e.type == "run_claimed"]
            assert len(claims) == 2
            assert claims[1].taken_from == claims[0].driver
    did = outside(tmp_path).count("did")
    assert len(did) == 40
    assert set(did.values()) == {1}
    assert {pid for kind, _, _, pid in outside(tmp_path).facts() if kind == "did"} == {a.pid, b.pid}


async def test_a_write_in_flight_at_a_kill_is_in_doubt_and_never_repeated_blindly(tmp_path: Path) -> None:
    """R15."""
    async with driven(tmp_path) as (a, runs):
        run = await runs.start("walker", {"steps": 2, "tool": "pay", "seconds": 30})
        await eventually(lambda: outside(tmp_path).count("began"))
        a.kill()
        with Worker(tmp_path) as b:
            await b.ready()
            view = await eventually(lambda: _held(run, "in_doubt"), 120)
            [need] = view.needs
            assert need.kind == "doubt"
            assert not await run.resume()
            assert outside(tmp_path).count("began").total() == 1
            assert await run.resolve(need.call, need.choices[0].__class__("paid by hand"))
            await eventually(lambda: at_step(run, 1), 120)
            await run.cancel()
            await run.settled(timeout=120)
    assert set(outside(tmp_path).count("began").values()) == {1}


async def _held(run: Handle[Any], hold: str) -> Any:
    view = await run.view()
    return view if view.status == "paused" and hold in view.holds else None


async def test_old_runs_are_taken_up_on_entry(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        with Worker(tmp_path) as a:
            await a.ready()
            slow = await runs.start("walker", {"steps": 10, "tool": "peek", "seconds": 0.05}, id="slow")
            await eventually(lambda: at_step(slow, 2), 120)
            a.kill()
        queued = await runs.start("walker", {"steps": 2}, id="queued")
        assert (await slow.view()).status == "running"
        assert "driver" in (await queued.view()).waiting_for
        with Worker(tmp_path) as b:
            await b.ready()
            assert await slow.result(timeout=120) == []
            assert await queued.result(timeout=120) == ["posted 0", "posted 1"]
            assert len((await slow.state())["notes"]) == 10


async def test_a_cancel_of_a_dead_drivers_run_is_settled_by_the_next(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        with Worker(tmp_path) as a:
            await a.ready()
            run = await runs.start("walker", {"steps": 2, "seconds": 30})
            await eventually(lambda: outside(tmp_path).count("began"))
            a.kill()
        assert await run.cancel()
        assert (await run.view()).status == "cancelling"
        assert "walker" in (await run.view()).waiting_for
        with Worker(tmp_path) as b:
            await b.ready()
            receipt = await run.settled(timeout=120)
            assert receipt.status == "cancelled"
            assert [u.outcome for u in receipt.undone] == ["undone"]
            with pytest.raises(RunCancelled):
                await run.result()
    assert outside(tmp_path).count("began").total() == 1


async def test_an_orderly_exit_queues_its_runs_for_others_and_repeats_nothing(tmp_path: Path) -> None:
    async with driven(tmp_path) as (a, runs):
        run = await runs.start("walker", {"steps": 8, "seconds": 0.2, "tool": "pay"})
        await eventually(lambda: outside(tmp_path).count("began").total() >= 2, 120)
        await a.leave()
        view = await run.view()
        assert view.status == "queued"
        assert view.driver == ""
        assert outside(tmp_path).count("began") == outside(tmp_path).count("did"), "a write in flight was cut"
        with Worker(tmp_path) as b:
            await b.ready()
            assert await run.result(timeout=120) == [f"paid {n}" for n in range(8)]
        assert "run_released" in await types_of(run)
    did = outside(tmp_path).count("began")
    assert len(did) == 8
    assert set(did.values()) == {1}
