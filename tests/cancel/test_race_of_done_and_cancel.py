"""Completion and cancellation race to one ending, and the loser is told the truth (R11)."""

import asyncio
import random

import pytest
from tests.cancel.support import LIMIT, Nothing, recorded

from standfast import Accepted, Done, Run, RunCancelled, Runtime, TooLate, agent, tool
from standfast.events import CallStarted, RunDone
from standfast.events import RunCancelled as Cancelled

ROUNDS = 300


@tool(effect="read")
async def look(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "seen"


class Pace(Nothing):
    seconds: float


@agent("quick")
async def quick(run: Run[Pace]) -> Done[str] | None:
    seen = await run.call(look(run.state.seconds))
    return Done(seen) if run.step == 1 else None


async def one_round(runs: Runtime, seed: int) -> str:
    dice = random.Random(seed)
    run = await runs.start(quick, Pace(seconds=dice.choice([0, 0.001, 0.003])))
    if seed % 10 == 0:  # a busy machine may be too slow to be done in 20 ms
        await run.result(timeout=LIMIT)
    await asyncio.sleep(dice.uniform(0, 0.02))
    answer = await run.cancel(soft=dice.random() < 0.3)
    receipt = await run.settled(timeout=LIMIT)
    events = await recorded(run)
    endings = [e for e in events if isinstance(e, RunDone | Cancelled)]
    assert len(endings) == 1
    assert events[-1] is endings[0]
    status = (await run.view()).status
    if isinstance(answer, Accepted):
        assert status == receipt.status == "cancelled"
        assert receipt.calls_after_cancel == 0
        assert {ref.id for ref in answer.in_flight} == {f.call.id for f in receipt.in_flight}
        after = [e for e in events if isinstance(e, CallStarted) and e.seq > answer.seq]
        assert after == []
        with pytest.raises(RunCancelled) as error:
            await run.result()
        assert error.value.receipt == receipt
        return "cancelled"
    assert answer == TooLate("done")
    assert status == receipt.status == "done"
    assert await run.result() == "seen"
    return "done"


async def test_done_and_cancel_race_to_exactly_one_ending(db: str) -> None:
    """R11: whatever the moment, one ending, and verb, result, receipt, view and record agree on it."""
    endings: list[str] = []
    async with Runtime(db, agents=[quick]) as runs:
        for batch in range(0, ROUNDS, 10):
            endings += await asyncio.gather(*(one_round(runs, seed) for seed in range(batch, batch + 10)))
    assert {"done", "cancelled"} == set(endings)


async def test_two_cancels_at_once_are_one_cancel(db: str) -> None:
    """R11: both are accepted (or too late), the receipt names the first."""
    async with Runtime(db, agents=[quick]) as runs:
        for _ in range(20):
            run = await runs.start(quick, Pace(seconds=0.05))
            await asyncio.sleep(0.005)
            answers = await asyncio.gather(run.cancel(by="a"), run.cancel(by="b"), run.cancel(by="c"))
            receipt = await run.settled(timeout=LIMIT)
            assert any(answers)
            assert receipt.by == "a"
            events = await recorded(run)
            assert sum(isinstance(e, Cancelled) for e in events) == 1


async def test_a_repeated_request_is_one_cancel(db: str) -> None:
    """API: idempotent by request_id, also after the end."""
    async with Runtime(db, agents=[quick]) as runs:
        run = await runs.start(quick, Pace(seconds=5))
        first = await run.cancel(request_id="q1")
        await run.settled(timeout=LIMIT)
        assert await run.cancel(request_id="q1") == first
        assert await run.cancel(request_id="q2") == TooLate("cancelled")
