"""Stops that the store could not take: they hold whom they mean, until they are written or came to nothing (R34)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.drivers.test_full_disk import NOT_RECORDED, files_limited
from tests.helpers import eventually

from standfast import Done, Handle, Misuse, Refused, Run, Runtime, StoreError, StoreFailed, agent, tool
from standfast.abc import Tx
from standfast.drivers import local
from standfast.errors import StoreBusy, StoreDamaged
from standfast.unwritten import Unwritten, not_recorded


@dataclass
class Nothing:
    pass


class World:
    """What the agents wait for."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()


world: World


@pytest.fixture(autouse=True)
async def a_new_world() -> None:
    global world
    world = World()


@tool(effect="read")
async def look() -> int:
    """Asked only after the wait."""
    return 1


@agent("waiter")
async def waiter(run: Run[Nothing]) -> Done[int]:
    world.begun += 1
    await world.go.wait()
    return Done(await run.call(look()))


@agent("another")
async def another(run: Run[Nothing]) -> Done[int]:
    return Done(await run.call(look()))


@asynccontextmanager
async def driving(store: Path, agents: list[Any] | None = None) -> AsyncIterator[Runtime]:
    async with Runtime(store, agents or [waiter, another], lease_seconds=4) as runs:
        yield runs


async def begun(runs: Runtime, id_: str = "one") -> Handle[int]:
    before = world.begun
    run = await runs.start(waiter, Nothing(), id=id_)
    await eventually(lambda: world.begun > before)
    return run


async def done(run: Handle[int]) -> None:
    async def is_done() -> bool:
        return (await run.view()).status == "done"

    await eventually(is_done)


async def test_a_halt_of_another_agent_lets_go_of_a_run_that_was_just_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, go = asyncio.Event(), asyncio.Event()
    plain = local.claim_and_drive

    async def slowly(*args: Any, **options: Any) -> Any:
        driver = await plain(*args, **options)
        claimed.set()
        await go.wait()
        return driver

    monkeypatch.setattr(local, "claim_and_drive", slowly)
    store = tmp_path / "runs.db"
    async with driving(store) as runs:
        run = await runs.start(another, Nothing(), id="one")
        await claimed.wait()
        with files_limited(tmp_path, store) as mend:
            with pytest.raises(StoreFailed, match=NOT_RECORDED):
                await runs.halt(agent="waiter", reason="leaking")
            go.set()
            await eventually(lambda: "one" in runs._active and runs._active["one"].s.unwritten)
            mend()
        await done(run)
        assert [halt.agent for halt in await runs.halts()] == ["waiter"]


class Fails:
    """A stop that the disk does not take at first; what becomes of it then is up to the test."""

    def __init__(self, then: Exception | None) -> None:
        self.tried = 0
        self._then = then

    def __call__(self, _: Tx) -> Any:
        self.tried += 1
        if self.tried == 1:
            raise StoreFailed("the disk takes nothing")
        if self._then is not None:
            raise self._then
        return "written"

    def asked(self, runs: Runtime, run: str) -> Any:
        stop: Unwritten[Any] = Unwritten("pause", not_recorded(), run)
        return runs.must_be_open().carry_out(self, "control", stop).result(60)


async def test_a_run_goes_on_when_its_stop_came_to_nothing_before_anybody_looked(tmp_path: Path) -> None:
    """The gate was shut for a moment in which the event loop did not turn."""
    async with driving(tmp_path / "runs.db") as runs:
        run = await begun(runs)
        assert Fails(Misuse("the run has moved on")).asked(runs, "one") == Refused(NOT_RECORDED)
        while runs.unwritten:
            time.sleep(0.01)
        world.go.set()
        await done(run)


async def test_a_stop_of_what_cannot_be_read_does_not_hold_up_those_behind_it(tmp_path: Path) -> None:
    async with driving(tmp_path / "runs.db") as runs:
        for id_ in ("damaged", "fine"):
            await begun(runs, id_)
        behind = Fails(None)
        assert Fails(StoreDamaged("its row cannot be read")).asked(runs, "damaged") == Refused(NOT_RECORDED)
        assert behind.asked(runs, "fine") == Refused(NOT_RECORDED)
        await eventually(lambda: not runs.unwritten)
        assert behind.tried == 2
        await eventually(lambda: not runs._active["damaged"].s.flights)
        await eventually(lambda: runs._active["damaged"].s.unwritten == "pause")  # not recorded, it holds all the same


async def test_who_leaves_a_stop_is_told_of_it_although_nothing_can_be_read_just_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with driving(tmp_path / "runs.db") as runs:
        run = await begun(runs)
        control = runs.must_be_open()

        def fails() -> None:
            monkeypatch.undo()
            raise StoreFailed("nothing can be read")

        assert Fails(None).asked(runs, "one") == Refused(NOT_RECORDED)
        monkeypatch.setattr(control, "read_signals", fails)
        await eventually(lambda: not runs.unwritten)
        world.go.set()
        await done(run)


async def test_a_stop_that_ends_unrecorded_with_its_process_is_named_as_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "runs.db"
    async with driving(store) as runs:
        run = await begun(runs)
        limit = files_limited(tmp_path, store)
        limit.__enter__()
        assert await run.cancel() == Refused(NOT_RECORDED)
        with pytest.raises(StoreFailed, match=NOT_RECORDED):
            await runs.halt(agent="waiter", reason="leaking")
    limit.__exit__(None, None, None)
    lost = [line.getMessage() for line in caplog.records if line.levelno == logging.CRITICAL]
    assert len(lost) == 2
    assert "cancel of run one" in lost[0]
    assert "halt (pause) of agent waiter" in lost[1]
    assert "ask for it again" in lost[0]


async def test_a_stop_is_written_by_the_last_try_of_a_process_that_leaves(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    async with driving(store) as runs:
        run = await begun(runs)
        with files_limited(tmp_path, store) as mend:
            assert await run.cancel() == Refused(NOT_RECORDED)
            mend()
    async with Runtime(store, drive=False) as looking:
        assert (await looking.handle("one").view()).status in ("cancelling", "cancelled")


@pytest.mark.parametrize("drives", [True, False])
async def test_a_disk_that_takes_nothing_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, drives: bool
) -> None:
    """The log may well be on the same disk."""
    monkeypatch.setattr("standfast.runtime.PROBE_SECONDS", 0.5)
    store = tmp_path / "runs.db"
    async with driving(store):
        pass
    async with Runtime(store, [waiter] if drives else [], drive=drives, lease_seconds=2) as runs:
        runs.keep_room()
        control = runs.must_be_open()
        ticks = failures = 0
        plain, failed = control._tick, runs._store.failed

        def tick() -> float:
            nonlocal ticks
            ticks += 1
            return plain()

        def fails(error: StoreError) -> None:
            nonlocal failures
            failures += 1
            failed(error)

        monkeypatch.setattr(control, "_tick", tick)
        monkeypatch.setattr(runs._store, "failed", fails)
        with files_limited(tmp_path, store):
            runs.storage_for_probes()
            await eventually(lambda: failures >= 4 and ticks >= 8)
        lines = [line.getMessage() for line in caplog.records if "cannot be watched" in line.getMessage()]
    assert len(lines) == len(set(lines)), lines


async def test_a_claim_that_fails_is_tried_again_by_the_next_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    async def fails(*_: Any, **__: Any) -> None:
        tried.append(runs._driving.local._scanned)  # type: ignore[union-attr]
        raise StoreBusy("locked")

    plain = local.claim_and_drive
    monkeypatch.setattr(local, "claim_and_drive", fails)
    async with driving(tmp_path / "runs.db") as runs:
        run = await runs.start(another, Nothing(), id="one")
        await eventually(lambda: len(tried) >= 4)
        assert len(set(tried)) >= len(tried) - 1, "not again and again in a loop that does nothing else"
        monkeypatch.setattr(local, "claim_and_drive", plain)
        assert await run.result(timeout=120) == 1


async def test_a_process_that_only_keeps_the_store_open_writes_when_it_is_asked_whether_it_could(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.runtime.PROBE_SECONDS", 0.0)
    store = tmp_path / "runs.db"
    async with driving(store):
        pass
    async with Runtime(store, drive=False, notary=False) as runs:
        runs.keep_room()
        ticks, wrote = 0, 0
        control = runs.must_be_open()
        plain, probe = control._tick, runs._store.probe

        def tick() -> float:
            nonlocal ticks
            ticks += 1
            return plain()

        def probed() -> None:
            nonlocal wrote
            wrote += 1
            probe()

        monkeypatch.setattr(control, "_tick", tick)
        monkeypatch.setattr(runs._store, "probe", probed)
        await eventually(lambda: ticks >= 4)
        assert not wrote
        assert not runs.storage_for_probes()
        await eventually(lambda: wrote)
        before = ticks
        await eventually(lambda: ticks >= before + 3)
        assert wrote == 1
