"""A long queue does not keep a process from its runs (R34, R38, R42)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from standfast import Done, Run, Runtime, agent, tool
from standfast.abc import Tx
from standfast.drivers import local
from standfast.drivers.local import CLAIMS_AT_ONCE

MANY = 600


@tool(effect="read")
async def look(n: int) -> int:
    """Look."""
    await asyncio.sleep(0.01)
    return n


@agent("looker")
async def looker(run: Run[dict[str, int]]) -> Done[int]:
    return Done(await run.call(look(run.state["n"])))


@pytest.fixture
async def long_queue(tmp_path: Path) -> Path:
    store = tmp_path / "runs.db"
    async with Runtime(store, [looker]):
        pass  # its name is known now
    async with Runtime(store, drive=False) as runs:
        await asyncio.gather(*(runs.start("looker", {"n": n}, id=f"run{n}") for n in range(MANY)))
    return store


async def test_the_event_loop_turns_while_a_long_queue_is_taken_up(long_queue: Path) -> None:
    async with Runtime(long_queue, [looker]) as runs:
        most, before = 0, 0
        while before < MANY:
            here = runs._driving.local.active if runs._driving is not None else {}
            ended = len(await runs.list(status="done", limit=MANY))
            now = max(before, len(here) + ended)
            most, before = max(most, now - before), now
            await asyncio.sleep(0)
        assert most <= 4 * CLAIMS_AT_ONCE
        for n in range(MANY):
            assert await runs.handle(f"run{n}").result(timeout=120) == n


@pytest.mark.parametrize("concurrency", [1, 7])
async def test_a_long_queue_is_taken_up_within_limits_and_in_order(long_queue: Path, concurrency: int) -> None:
    async with Runtime(long_queue, [looker], concurrency=concurrency) as runs:
        most = 0
        while len(await runs.list(status="done", limit=100)) < 60:
            assert runs._driving is not None
            most = max(most, len(runs._driving.local.active))
            await asyncio.sleep(0.005)
        assert most <= concurrency
        done = {view.id for view in await runs.list(status="done", limit=MANY)}
        assert {f"run{n}" for n in range(50)} <= done


async def test_the_event_loop_does_not_read_every_run_that_a_halt_has_touched(
    long_queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R34: those of others would wait for it."""
    read: list[int] = []
    plain, looks = local._readable, local.LocalDriver._candidates

    def counted(*args: Any) -> Any:
        read[-1:] = [read[-1] + 1] if read else [1]
        return plain(*args)

    def look_at(driver: local.LocalDriver, tx: Tx) -> Any:
        read.append(0)
        return looks(driver, tx)

    monkeypatch.setattr(local, "_readable", counted)
    monkeypatch.setattr(local.LocalDriver, "_candidates", look_at)
    async with Runtime(long_queue, [looker], concurrency=1) as runs:
        halt = await runs.halt(agent="looker", reason="leaking")
        await runs.lift(halt.id)
        assert await runs.handle(f"run{MANY - 1}").cancel()
        assert await runs.handle("run1").result(timeout=120) == 1
    assert max(read) <= 200
