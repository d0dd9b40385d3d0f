"""Control of runs does not end by an error in it, and readers that come and go do not disturb it (R34)."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from standfast import Done, Run, Runtime, StoreError, agent
from standfast.hub import Hub


@agent("nothing")
async def nothing(run: Run[dict[str, int]]) -> Done[int]:
    return Done(1)


async def test_an_error_while_others_are_told_neither_fails_the_verb_nor_ends_control(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        async with Runtime(tmp_path / "runs.db", [nothing]):
            pass

        def fails(_: object) -> None:
            raise RuntimeError("dictionary changed size during iteration")

        monkeypatch.setattr(runs._thread, "_touched", fails)
        with caplog.at_level(logging.ERROR, "standfast"):
            run = await asyncio.wait_for(runs.start("nothing", {}, id="one"), 30)
        assert any("dictionary changed size" in record.getMessage() for record in caplog.records)
        monkeypatch.undo()
        assert await asyncio.wait_for(run.pause(), 30), "control goes on"


async def test_work_that_fails_does_not_end_control(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [nothing]) as runs:
        thread = runs._thread
        assert thread is not None

        def fails() -> None:
            raise RuntimeError("boom")

        thread._work.put(fails)
        run = await asyncio.wait_for(runs.start(nothing, {}), 30)
        assert await run.result(timeout=120) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_control_that_has_ended_is_said_to_be_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Runtime(tmp_path / "runs.db", [nothing]) as runs:
        thread = runs._thread
        assert thread is not None

        def ends() -> None:
            raise SystemExit("the end")

        thread._work.put(ends)
        await asyncio.to_thread(thread._thread.join, 30)
        with pytest.raises(StoreError, match="control of runs has ended in this process"):
            await asyncio.wait_for(runs.start(nothing, {}), 30)
        with pytest.raises(StoreError, match="control of runs has ended in this process"):
            await asyncio.wait_for(asyncio.wrap_future(thread.call(lambda: 1)), 30)
        assert any("control of runs has ended" in record.getMessage() for record in caplog.records)


async def test_readers_do_not_come_and_go_while_all_are_woken() -> None:
    """Copying a dict walks it: one that changes meanwhile raises, once in a great many times."""
    hub = Hub()
    woken: list[bool] = []
    with hub.waiting("one"):
        for look in (hub.poke_all, lambda: hub.watches_others(())):
            with hub._lock:
                thread = threading.Thread(target=lambda: woken.append(look() is not None))  # noqa: B023 - joined below
                thread.start()
                thread.join(0.2)
                assert not woken, "it looked while a reader was coming or going"
            thread.join(30)
            assert woken.pop() is not None
