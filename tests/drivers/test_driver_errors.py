"""A fault in driving itself: seen, held, and not repeated as fast as the disk allows (R34, R38)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Done, Run, RunHeld, Runtime, agent, tool
from standfast.endings import Endings
from standfast.supervising import Supervisor


class N(BaseModel):
    n: int = 0


@tool
async def act(n: int) -> int:
    await asyncio.sleep(0.01)
    return n


@agent("plain")
async def plain(run: Run[N]) -> Done[int] | None:
    run.state.n = await run.call(act(run.step)) + 1
    return Done(run.state.n) if run.state.n == 50 else None


async def faulty(*_: object) -> None:
    raise RuntimeError("a fault of the driver")


async def test_a_fault_of_the_driver_holds_the_run_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[plain]) as runs:
        with monkeypatch.context() as broken:
            broken.setattr(Supervisor, "_supervise", faulty)
            run = await runs.start(plain, N())
            with pytest.raises(RunHeld, match="a fault of the driver") as held:
                await run.result(timeout=120)
            assert "faulty" in held.value.traceback
            assert "driving run" in caplog.text
        assert await run.resume()
        assert await run.result(timeout=120) == 50
        assert [e.type async for e in run.events()].count("run_claimed") == 2


async def test_a_run_that_cannot_even_be_held_is_left_alone_until_somebody_touches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[plain]) as runs:
        run = await runs.start(plain, N())
        await eventually(lambda: _begun(run))
        with monkeypatch.context() as broken:
            broken.setattr(Endings, "cancel", faulty)
            assert await run.cancel()
            await eventually(lambda: "is left alone" in caplog.text)
            before = (await run.view()).seq
            await asyncio.sleep(1.5)  # longer than the time between two looks for work
            assert (await run.view()).seq == before
        assert await run.cancel(reason="again")
        assert (await run.settled(timeout=120)).status == "cancelled"


async def _begun(run: object) -> bool:
    return (await run.view()).step > 1  # type: ignore[attr-defined]
