"""standfast.testing: a point that a test waits for next is not passed while the test still acts."""

from __future__ import annotations

import asyncio

from standfast.testing.points import CallPoints


async def test_no_call_passes_a_point_while_the_test_acts() -> None:
    points = CallPoints()
    with points.acting():
        call = asyncio.create_task(points.reached("run", "refund", "performed"))
        await asyncio.sleep(0.01)
    waiting = points.until("run", "refund", "performed")
    await asyncio.wait_for(waiting, 10)
    assert not call.done(), "it is held for the test's next act"
    points.let_go()
    await asyncio.wait_for(call, 10)


async def test_a_call_passes_a_point_that_nobody_waits_for() -> None:
    points = CallPoints()
    await asyncio.wait_for(points.reached("run", "refund", "performed"), 10)
    await asyncio.wait_for(points.until("run", "refund", "performed"), 10)
