"""The world is compared by a new process too, which has never run the run (R2, R16)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.core.looking import status_is
from tests.core.processes import Worker

from standfast import Runtime

# --- a new process -----------------------------------------------------------------------------------


@pytest.fixture
async def worker(tmp_path: Path) -> AsyncIterator[Worker]:
    worker = Worker(tmp_path)
    (tmp_path / "setting.txt").write_text("given")
    (tmp_path / "notes.txt").write_text("read me")
    yield worker
    worker.kill()


async def test_a_new_process_goes_on_after_the_runs_own_write(worker: Worker) -> None:
    """R2, R16: the run wrote "mine" over "given" itself: that is no difference, in a new process either."""
    await worker.until_waiting()
    worker.kill()
    (worker.folder / "door").touch()
    assert (await worker.drive())["status"] == "done"
    assert worker.world() == ["write mine", "waiting", "waiting", "through"]


async def test_a_new_process_sees_that_the_world_has_changed(worker: Worker) -> None:
    """R16: tool readings and files are compared by a process that has never run this run."""
    await worker.until_waiting()
    async with Runtime(worker.store, drive=False) as runs:
        assert await runs.handle("r1").pause(by="ann")
        await status_is(runs.handle("r1"), "paused")
        worker.kill()
        (worker.folder / "setting.txt").write_text("theirs")
        (worker.folder / "notes.txt").write_text("other notes")
        assert await runs.handle("r1").resume()
        held = await worker.drive()
        assert (held["status"], held["holds"]) == ("paused", ["stale"])
        assert "theirs" in held["waiting_for"]
        assert "the notes" in held["waiting_for"]
        (worker.folder / "door").touch()
        assert await runs.handle("r1").resume(accept_stale=True)
        assert (await worker.drive())["status"] == "done"
