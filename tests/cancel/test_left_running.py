"""What one stop leaves running is named by every stop after it, until it has ended (R9, R27, R35)."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cancel.support import (
    Nothing,
    cancelled,
    deaf_until,
    left_behind,
    one_call_of,
    under_way,
)

from standfast import Handle, Run, Runtime, agent, outliving, tool
from standfast.events import Event, LateResult, VerbNoted


async def test_a_thread_that_a_pause_left_running_is_in_the_receipt_of_the_cancel(db: str) -> None:
    begun, let_go = threading.Event(), threading.Event()

    @tool(effect="read", grace=0.1)
    def deaf() -> int:
        begun.set()
        while not let_go.is_set():  # C code that holds on: no exception lands in it
            let_go.wait(30)
        return 1

    async with under_way(db, one_call_of(deaf), begun) as run:
        await run.pause()
        assert "deaf" in left_behind(await run.settled(timeout=120))
        receipt = await cancelled(run)
        assert [(one.what, one.call and one.call.tool) for one in receipt.residue] == [
            ("deaf is still running", "deaf")
        ]
        let_go.set()
        await told(run, LateResult)


async def test_what_has_ended_meanwhile_is_no_longer_named(db: str) -> None:
    begun, let_go = threading.Event(), threading.Event()

    @tool(effect="read", grace=0.1)
    def deaf() -> int:
        begun.set()
        let_go.wait(30)
        return 1

    async with under_way(db, one_call_of(deaf), begun) as run:
        await run.pause()
        assert "deaf" in left_behind(await run.settled(timeout=120))
        let_go.set()
        await told(run, LateResult)
        assert (await cancelled(run)).residue == ()


async def test_a_step_that_a_pause_left_running_is_named_until_it_has_ended(db: str) -> None:
    """Over a resume too, which drives the run anew."""
    begun, let_go = asyncio.Event(), asyncio.Event()

    @agent("stubborn")
    async def stubborn(run: Run[Nothing]) -> None:
        begun.set()
        await deaf_until(let_go)

    async with under_way(db, stubborn, begun) as run:
        await run.pause()
        assert "deaf_until" in left_behind(await run.settled(timeout=120))
        assert "deaf_until" in left_behind(await cancelled(run))

    let_go.set()
    let_go = asyncio.Event()
    begun.clear()
    async with under_way(db, stubborn, begun) as run:
        await run.pause()
        await run.settled(timeout=120)
        let_go.set()
        await told(run, VerbNoted, "has ended")
        assert (await cancelled(run)).residue == ()


async def test_tasks_at_one_line_are_told_apart(db: str) -> None:
    """Some of them have ended: the others are still named, and so are those that a later attempt leaves there."""
    begun = asyncio.Event()
    gates = [asyncio.Event() for _ in range(6)]
    unused = iter(gates)
    tasks: list[asyncio.Task[None]] = []

    @agent("manifold")
    async def manifold(run: Run[Nothing]) -> None:
        tasks.extend(asyncio.create_task(deaf_until(next(unused))) for _ in range(3))
        await asyncio.sleep(0)
        begun.set()
        await asyncio.sleep(1000)

    async with under_way(db, manifold, begun) as run:
        await run.pause()
        assert len((await run.settled(timeout=120)).residue) == 3
        gates[1].set()
        await told(run, VerbNoted, "has ended")
        begun.clear()
        assert await run.resume()
        await begun.wait()
        residue = (await cancelled(run)).residue
        assert len({one.why for one in residue}) == len(residue) == 5
        for gate in gates:
            gate.set()


async def test_a_number_that_is_free_again_does_not_confuse_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the third of three are still there when another is left at their line."""
    monkeypatch.setattr(outliving, "place_of_task", lambda _: "here")
    what = "code of step 0 is still running"
    row = SimpleNamespace(doc=SimpleNamespace(left=[]))
    session: Any = SimpleNamespace(step=0, begun_in={}, ended_code=set(), row=row)
    session.row.doc.left += [f"{what}: here", f"{what}: here (3)"]
    task: Any = asyncio.get_running_loop().create_future()
    left = outliving.leave_code(session, [task, task])
    assert [one.why for one in left] == ["here (2)", "here (4)"]


async def told(run: Handle[Any], kind: type[Event], text: str = "") -> None:
    """Until the record of a run, which need not have ended, tells this."""
    async with asyncio.timeout(120):
        async for event in run.events():
            if isinstance(event, kind) and text in getattr(event, "text", ""):
                return


async def test_a_pause_does_not_wait_for_a_read_that_swallows_its_cancellation(db: str) -> None:
    """R35: cut again and again until its deadline, then named and left behind, as by a cancel."""
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool(effect="read", grace=0.1)
    async def deaf() -> int:
        begun.set()
        await deaf_until(let_go)
        return 1

    async with under_way(db, one_call_of(deaf), begun) as run:
        await run.pause()
        receipt = await run.settled(timeout=120)
        assert [one.outcome for one in receipt.in_flight] == ["still_running"]
        assert "deaf" in left_behind(receipt)
        assert (await run.view()).status == "paused"
        let_go.set()
        await told(run, LateResult)


async def test_a_run_in_transit_says_that_it_waits_for_the_code_of_its_step(db: str) -> None:
    """R27, R34: also when the loop that drives it is blocked, and to whoever looks from elsewhere."""
    begun = threading.Event()

    @agent("blocker")
    async def blocker(run: Run[Nothing]) -> None:
        begun.set()
        time.sleep(1.5)

    seen: list[str] = []

    def look_from_another_loop() -> None:
        async def look() -> None:
            async with Runtime(db, drive=False) as runs:
                (view,) = await runs.list()
                run = runs.handle(view.id)
                await run.pause()
                view = await run.view()
                assert view.status == "pausing"
                seen.append(view.waiting_for)

        assert begun.wait(10)
        asyncio.run(look())

    other = threading.Thread(target=look_from_another_loop)
    async with Runtime(db, agents=[blocker]) as runs:
        await runs.start(blocker, Nothing())
        other.start()
        await asyncio.to_thread(other.join)
    assert seen == ["the code of step 0 to stop"]
