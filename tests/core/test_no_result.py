"""A run without a result: the error says what happened, and its hint what to do (R11)."""

from __future__ import annotations

import pytest
from tests.core.mistakes import Plain, held_by, helpful, waits

from standfast import Done, Run, RunCancelled, RunFailed, RunHeld, agent
from standfast.testing import lab


@agent("breaks", on_error="fail")
async def breaks(run: Run[Plain]) -> Done[int]:
    raise ValueError("asked for")


async def test_a_cancelled_run_says_where_to_look() -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
        await held_by(run, "waiting")
        await run.cancel(reason="enough")
        with pytest.raises(RunCancelled) as caught:
            await run.result()
        helpful(caught.value, "enough", "receipt", "fork()")
        assert await run.fork(), "the hint is true"


async def test_a_failed_run_says_where_to_look() -> None:
    async with lab([breaks]) as runs:
        run = await runs.start(breaks, Plain())
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=120)
        helpful(caught.value, "asked for", "traceback", "fork()")
        assert "asked for" in caught.value.traceback
        assert await run.fork(), "the hint is true"


async def test_a_run_that_the_disk_holds_up_says_what_to_do() -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
        await held_by(run, "waiting")
        runs._storage_trouble("the disk is full")
        with pytest.raises(RunHeld) as caught:
            await run.result()
        helpful(caught.value, "free space", "writable", "by itself")


async def test_a_run_that_waits_for_somebody_says_so() -> None:
    async with lab([waits]) as runs:
        run = await runs.start(waits, Plain())
        await held_by(run, "waiting")
        with pytest.raises(RunHeld) as caught:
            await run.result(wait_held=False)
        helpful(caught.value, "waiting", "view.needs")
