"""When the disk says no: the gate is shut, the screen says so, and the run goes on later where it was (R2, R34)."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.disks import fill, small_disk
from tests.drivers.workers import Worker, at_step, attached, driven, need, outside
from tests.helpers import eventually

from standfast import Handle, StoreFailed

__all__ = ["small_disk"]  # a fixture
pytestmark = pytest.mark.more  # strace, a small disk


async def storage_trouble(worker: Worker, run: Handle[Any]) -> bool:
    view = await worker.ask(f"view {run.id}")
    return bool(view["waiting_for"].startswith("storage"))


async def the_gate_is_shut(worker: Worker, run: Handle[Any], folder: Path) -> None:
    """The driver's own view says storage, result() says RunHeld, and nothing new begins."""
    await eventually(lambda: storage_trouble(worker, run), 120)
    told = await worker.ask(f"result {run.id}")
    assert told["error"] == "RunHeld"
    assert "storage" in told["message"]
    began = outside(folder).count("began").total()
    await asyncio.sleep(0.7)
    assert outside(folder).count("began").total() == began


async def it_goes_on(run: Handle[Any], folder: Path, steps: int) -> None:
    assert await run.result(timeout=90) == [f"posted {n}" for n in range(steps)]
    began = outside(folder).count("began")
    assert len(began) == steps
    assert set(began.values()) == {1}, "something was done twice"


@pytest.fixture
def tracing() -> None:
    need("strace", shutil.which("strace") is not None, "not installed")
    tried = subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], check=False, capture_output=True)
    need("strace", tried.returncode == 0, "may not trace here")


@pytest.mark.usefixtures("tracing")
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
async def test_a_failing_disk_shuts_the_gate_until_it_works_again(tmp_path: Path, call: str) -> None:
    async with driven(tmp_path) as (worker, runs):
        run = await runs.start("walker", {"steps": 150, "seconds": 0.005})
        await eventually(lambda: at_step(run, 3), 120)
        with attached(worker, "-e", f"trace={call}", "-e", f"inject={call}:error=EIO"):
            await the_gate_is_shut(worker, run, tmp_path)
        await it_goes_on(run, tmp_path, 150)
        view = await worker.ask(f"view {run.id}")
        assert not view["waiting_for"]


@pytest.mark.usefixtures("tracing")
async def test_a_single_failed_sync_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Each seventh sync fails: closed, opened again, verified, never retried in place."""
    async with driven(tmp_path) as (worker, runs):
        run = await runs.start("walker", {"steps": 40, "seconds": 0.0})
        with attached(worker, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=3+7"):
            await it_goes_on(run, tmp_path, 40)
        row = run._row()
        assert runs.read(lambda tx: tx.verify(row)) == ""


@pytest.mark.usefixtures("tracing")
async def test_a_cancel_from_elsewhere_is_obeyed_while_the_drivers_disk_fails(tmp_path: Path) -> None:
    async with driven(tmp_path) as (worker, runs):
        run = await runs.start("walker", {"steps": 500, "seconds": 0.005})
        await eventually(lambda: at_step(run, 3), 120)
        with attached(worker, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO"):
            await eventually(lambda: storage_trouble(worker, run), 120)
            assert await run.cancel()
            began = outside(tmp_path).count("began").total()
            await asyncio.sleep(0.5)
            assert outside(tmp_path).count("began").total() == began
        receipt = await run.settled(timeout=120)
        assert receipt.status == "cancelled"
        assert outside(tmp_path).count("began").total() == began


# --- full --------------------------------------------------------------------------------------------------


async def test_a_full_disk_shuts_the_gate_until_there_is_room_again(tmp_path: Path, small_disk: Path) -> None:
    store = small_disk / "runs.db"
    async with driven(tmp_path, store) as (worker, runs):
        run = await runs.start("walker", {"steps": 60, "seconds": 0.005})
        await eventually(lambda: at_step(run, 3), 120)
        filler = fill(small_disk)
        await the_gate_is_shut(worker, run, tmp_path)
        with pytest.raises(StoreFailed) as told:
            await runs.start("walker", {"steps": 1}, labels={f"label{n}": "x" * 500 for n in range(50)})
        assert "free space" in told.value.hint
        assert (await run.view()).status == "running", "a look still works"
        filler.unlink()
        await it_goes_on(run, tmp_path, 60)


async def test_a_process_can_leave_while_its_disk_is_full_and_another_goes_on(tmp_path: Path, small_disk: Path) -> None:
    store = small_disk / "runs.db"
    async with driven(tmp_path, store) as (worker, runs):
        run = await runs.start("walker", {"steps": 60, "seconds": 0.005})
        await eventually(lambda: at_step(run, 3), 120)
        filler = fill(small_disk)
        await eventually(lambda: storage_trouble(worker, run), 120)
        await worker.leave()
        filler.unlink()
        with Worker(tmp_path, store) as other:
            await other.ready()
            await it_goes_on(run, tmp_path, 60)
