"""Soft cancel: the call in flight finishes, nothing else begins (R12)."""

import asyncio
import threading
from typing import Any

import pytest
from tests.cancel.support import (
    LIMIT,
    Nothing,
    endless_calls_of,
    hangs,
    of_kind,
    one_call_of,
    outcomes,
    recorded,
    settled,
    under_way,
)
from tests.helpers import eventually

from standfast import Accepted, Done, Handle, Run, RunCancelled, Runtime, agent, child, stopping, tool
from standfast.events import CallFinished, CallStarted, StepFinished, VerbNoted


class Count(Nothing):
    n: int = 0


async def test_soft_cancel_lets_the_call_finish_and_keeps_the_boundary(db: str) -> None:
    """RULINGS, soft cancel: the step reaches its boundary; that is committed and kept."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow(n: int) -> int:
        begun.set()
        await may_end.wait()
        return n + 1

    @agent("counter")
    async def counter(run: Run[Count]) -> None:
        run.state.n = await run.call(slow(run.state.n))

    async with Runtime(db, agents=[counter]) as runs:
        run = await runs.start(counter, Count())
        await begun.wait()
        answer = await run.cancel(soft=True)
        assert isinstance(answer, Accepted)
        assert [ref.tool for ref in answer.in_flight] == ["slow"]
        await asyncio.sleep(0.3)  # longer than a pause lets a read go on
        view = await run.view()
        assert view.status == "cancelling"
        assert "slow" in view.waiting_for
        may_end.set()
        receipt = await settled(run)
        assert receipt.soft
        assert outcomes(receipt) == {"slow": "finished"}
        assert receipt.finished_steps == 1
        assert (await run.state()).n == 1
        assert len(await of_kind(run, CallStarted)) == 1


async def test_soft_cancel_puts_the_value_of_done_into_the_receipt(db: str) -> None:
    """RULINGS, soft cancel: status cancelled, the Done value in the receipt."""
    begun, may_end = threading.Event(), threading.Event()

    @tool(effect="write")
    def send() -> str:
        begun.set()
        may_end.wait(LIMIT)
        return "sent"

    @agent("sender")
    async def sender(run: Run[Nothing]) -> Done[dict[str, str]]:
        return Done({"letter": await run.call(send())})

    async with under_way(db, sender, begun) as run:
        await run.cancel(soft=True)
        may_end.set()
        receipt = await settled(run)
        assert receipt.result == {"letter": "sent"}
        assert outcomes(receipt) == {"send": "finished"}
        assert receipt.undone == ()
        assert [e.result for e in await of_kind(run, CallFinished)] == ["sent"]
        assert len(await of_kind(run, StepFinished)) == 1
        with pytest.raises(RunCancelled):
            await run.result()


async def test_soft_cancel_refuses_the_next_call_and_undoes_the_step(db: str) -> None:
    """RULINGS, soft cancel: a step that asks for more is suspended, then undone as `undo` says."""
    begun, may_end, undone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def take_back(_: object) -> None:
        undone.set()

    @tool(effect="write", undo=take_back)
    async def first() -> None:
        begun.set()
        await may_end.wait()

    @tool(effect="write")
    async def second() -> None: ...

    @agent("two")
    async def two(run: Run[Nothing]) -> Done[str]:
        await run.call(first())
        await run.call(second())
        return Done("both")

    async with under_way(db, two, begun) as run:
        await run.cancel(soft=True)
        may_end.set()
        receipt = await settled(run)
        assert outcomes(receipt) == {"first": "finished"}
        assert [(u.call.tool, u.outcome) for u in receipt.undone] == [("first", "undone")]
        assert undone.is_set()
        assert receipt.finished_steps == 0
        assert receipt.result is None
        assert [e.tool for e in await of_kind(run, CallStarted)] == ["first"]


async def test_soft_cancel_lets_a_step_finish_beside_a_task_that_asks_for_more(db: str) -> None:
    """R12: a background task that is refused does not take the step's boundary with it."""
    begun, may_end = asyncio.Event(), asyncio.Event()
    keep: list[asyncio.Task[None]] = []

    @tool(effect="read")
    async def slow() -> str:
        begun.set()
        await may_end.wait()
        return "value"

    @tool(effect="read")
    async def poll(n: int) -> None:
        await asyncio.sleep(0.01)

    @agent("polled")
    async def polled(run: Run[Nothing]) -> Done[str]:
        async def polls() -> None:
            n = 0
            while True:
                n += 1
                await run.call(poll(n))

        keep.append(asyncio.create_task(polls()))
        value = await run.call(slow())
        await asyncio.sleep(0.02)  # thinks a little
        return Done(value)

    async with under_way(db, polled, begun) as run:
        await run.cancel(soft=True)
        await asyncio.sleep(0.05)
        may_end.set()
        receipt = await settled(run)
        assert receipt.result == "value"


@pytest.mark.parametrize("in_a_thread", [False, True], ids=["in the loop", "in a thread"])
async def test_a_soft_cancel_in_the_time_that_a_pause_gives_a_read_lets_it_finish(
    db: str, monkeypatch: pytest.MonkeyPatch, *, in_a_thread: bool
) -> None:
    """R12, RULINGS, soft cancel: the read has not been cut yet, so it is not cut any more."""
    monkeypatch.setattr(stopping, "READ_GRACE", 3600.0)
    begun, may_end = threading.Event(), threading.Event()

    @tool(effect="read", name="slow")
    async def slow() -> str:
        begun.set()
        while not may_end.is_set():
            await asyncio.sleep(0.005)
        return "read"

    @tool(effect="read", name="slow")
    def slow_thread() -> str:
        begun.set()
        may_end.wait(LIMIT)
        return "read"

    async with under_way(db, one_call_of(slow_thread if in_a_thread else slow), begun) as run:
        assert await run.pause()

        async def waits_for_it() -> bool:
            return (await run.view()).status == "pausing"

        await eventually(waits_for_it, timeout=LIMIT)
        assert isinstance(await run.cancel(soft=True), Accepted)
        await eventually(lambda: hardened(run), timeout=LIMIT)
        may_end.set()
        receipt = await settled(run)
        assert receipt.soft
        assert outcomes(receipt) == {"slow": "finished"}
        assert receipt.result == "read"


async def hardened(run: Handle[Any]) -> bool:
    """The stop under way has heard of it, and says what it waits for."""
    view = await run.view()
    return view.status == "cancelling" and "slow" in view.waiting_for


async def test_a_hard_cancel_after_a_soft_one_cuts(db: str) -> None:
    """DESIGN, verb table: soft to hard only, and said so."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow() -> None:
        await hangs(begun, ended)

    async with under_way(db, endless_calls_of(slow), begun) as run:
        assert await run.cancel(soft=True, by="ann")
        await asyncio.sleep(0.05)
        assert not ended.is_set()
        again = await run.cancel(soft=True)
        assert isinstance(again, Accepted)
        assert not ended.is_set()
        harder = await run.cancel(by="bob")
        assert isinstance(harder, Accepted)
        assert "hard" in harder.note
        receipt = await settled(run)
        assert ended.is_set()
        assert outcomes(receipt) == {"slow": "aborted"}
        assert receipt.by == "ann"
        assert not receipt.soft


async def test_a_soft_cancel_after_a_hard_one_stays_hard(db: str) -> None:
    """DESIGN, verb table: never softer."""
    begun, may_end = threading.Event(), threading.Event()

    @tool(effect="write", grace=10)
    def send() -> None:
        begun.set()
        may_end.wait(LIMIT)

    async with under_way(db, endless_calls_of(send), begun) as run:
        await run.cancel()
        assert isinstance(await run.cancel(soft=True), Accepted)
        may_end.set()
        assert not (await settled(run)).soft


async def test_a_second_cancel_keeps_the_first_undo_mode_and_says_so(db: str) -> None:
    """RULINGS: Accepted, first mode kept, and said so."""
    begun, may_end = threading.Event(), threading.Event()
    undone: list[str] = []

    async def take_back(_: object) -> None:
        undone.append("earlier")

    @tool(effect="write", undo=take_back)
    async def earlier() -> None: ...

    @tool(effect="write", grace=10)
    def send() -> None:
        begun.set()
        may_end.wait(LIMIT)

    @agent("sender")
    async def sender(run: Run[Nothing]) -> None:
        await run.call(earlier() if run.step == 0 else send())

    async with under_way(db, sender, begun) as run:
        await run.cancel(undo="none", by="ann", reason="first")
        again = await run.cancel(undo="all", by="bob", reason="second")
        assert isinstance(again, Accepted)
        assert "none" in again.note
        may_end.set()
        receipt = await settled(run)
        assert (receipt.undo, receipt.by, receipt.reason) == ("none", "ann", "first")
        assert undone == []
        assert [e.by for e in await of_kind(run, VerbNoted) if e.verb == "cancel"] == ["bob"]


async def test_soft_cancel_reaches_children_softly(db: str) -> None:
    """R12, RULINGS on child runs: the child's call in flight finishes too."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        begun.set()
        await may_end.wait()
        return "leaf"

    leaf = one_call_of(slow, "leaf")

    @agent("root")
    async def root(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(child(leaf, Nothing())))

    async with Runtime(db, agents=[root, leaf]) as runs:
        run = await runs.start(root, Nothing())
        await begun.wait()
        await run.cancel(soft=True)
        await asyncio.sleep(0.3)
        may_end.set()
        await settled(run)
        (view,) = await runs.list(agent="leaf")
        its = await runs.handle(view.id).settled()
        assert outcomes(its) == {"slow": "finished"}
        assert its.result == "leaf"
        assert (await recorded(run))[-1].type == "run_cancelled"
