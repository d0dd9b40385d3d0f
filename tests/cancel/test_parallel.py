"""Cancelling parallel calls and child runs; callers that are cancelled by their own code (R6, R7)."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest
from tests.cancel.support import (
    Nothing,
    cancelled,
    deaf_until,
    endless_calls_of,
    hangs,
    late_result,
    left_behind,
    of_kind,
    outcomes,
    recorded,
)
from tests.helpers import eventually

from standfast import Accepted, CallFailed, ChildCancelled, Done, Run, RunHeld, Runtime, agent, child, tool
from standfast.events import CallFinished, LeftBehind, StepFinished


async def by_call_all(run: Run[Nothing], make: Callable[[int], object]) -> None:
    await run.call_all([make(n) for n in range(3)])  # type: ignore[misc]


async def by_gather(run: Run[Nothing], make: Callable[[int], object]) -> None:
    await asyncio.gather(*(run.call(make(n)) for n in range(3)))  # type: ignore[arg-type]


async def by_task_group(run: Run[Nothing], make: Callable[[int], object]) -> None:
    async with asyncio.TaskGroup() as group:
        for n in range(3):
            group.create_task(run.call(make(n)))  # type: ignore[arg-type]


@pytest.mark.parametrize("side_by_side", [by_call_all, by_gather, by_task_group])
async def test_cancel_names_and_ends_every_parallel_call(
    db: str, side_by_side: Callable[[Run[Nothing], Callable[[int], object]], Awaitable[None]]
) -> None:
    """R6: all of them, each named in accepted and in the receipt."""
    begun: list[int] = []
    ended: list[int] = []

    @tool(effect="read")
    async def slow(n: int) -> None:
        begun.append(n)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(n)

    @agent("many")
    async def many(run: Run[Nothing]) -> None:
        await side_by_side(run, slow)

    async with Runtime(db, agents=[many]) as runs:
        run = await runs.start(many, Nothing())
        await eventually(lambda: len(begun) == 3)
        answer = await run.cancel()
        assert isinstance(answer, Accepted)
        assert len(answer.in_flight) == 3
        receipt = await run.settled(timeout=120)
        assert sorted(ended) == [0, 1, 2]
        assert [f.outcome for f in receipt.in_flight] == ["aborted"] * 3
        assert {f.call.id for f in receipt.in_flight} == {ref.id for ref in answer.in_flight}
        assert receipt.calls_after_cancel == 0
        assert receipt.residue == ()


async def test_calls_waiting_for_a_slot_never_begin_after_the_cancel(db: str) -> None:
    """R7: what call_all(limit=) still holds back is refused."""
    begun: list[int] = []

    @tool(effect="read")
    async def slow(n: int) -> None:
        begun.append(n)
        await asyncio.sleep(60)

    @agent("many")
    async def many(run: Run[Nothing]) -> None:
        await run.call_all([slow(n) for n in range(20)], limit=2)

    async with Runtime(db, agents=[many]) as runs:
        run = await runs.start(many, Nothing())
        await eventually(lambda: len(begun) == 2)
        receipt = await cancelled(run)
        assert len(begun) == 2
        assert len(receipt.in_flight) == 2


async def test_cancel_reaches_child_runs_of_child_runs(db: str) -> None:
    """R6: one transaction closes the gates of all; the parent settles last."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow() -> None:
        await hangs(begun, ended)

    leaf = endless_calls_of(slow, "leaf")

    @agent("middle")
    async def middle(run: Run[Nothing]) -> None:
        await run.call(child(leaf, Nothing()))

    @agent("root")
    async def root(run: Run[Nothing]) -> None:
        await run.call(child(middle, Nothing()))

    async with Runtime(db, agents=[root, middle, leaf]) as runs:
        run = await runs.start(root, Nothing())
        await begun.wait()
        answer = await run.cancel(by="ann", reason="all of it")
        assert isinstance(answer, Accepted)
        assert "slow" in {ref.tool for ref in answer.in_flight}
        assert {v.status for v in await runs.list()} <= {"cancelling", "cancelled"}
        receipt = await run.settled(timeout=120)
        assert ended.is_set()
        assert receipt.status == "cancelled"
        assert receipt.calls_after_cancel == 0
        views = {v.agent: v for v in await runs.list()}
        assert {v.status for v in views.values()} == {"cancelled"}
        ends = {}
        for name, view in views.items():
            its = await runs.handle(view.id).settled()
            ends[name] = its.settled_at
            assert (its.by, its.reason) == ("ann", "all of it")
        assert ends["leaf"] <= ends["middle"] <= ends["root"]
        assert outcomes(await runs.handle(views["leaf"].id).settled()) == {"slow": "aborted"}
        assert {ref.id for ref in answer.in_flight} == {f.call.id for f in receipt.in_flight}
        assert outcomes(receipt)["slow"] == "aborted"


async def test_what_a_child_leaves_behind_is_in_the_receipt_of_its_parent(db: str) -> None:
    """R9: settled means that nothing runs but what the receipt names, children included."""
    begun, let_go = threading.Event(), threading.Lock()
    let_go.acquire()

    @tool(effect="read", grace=0.1)
    def blocks() -> None:
        begun.set()
        let_go.acquire()

    leaf = endless_calls_of(blocks, "leaf")

    @agent("root")
    async def root(run: Run[Nothing]) -> None:
        await run.call(child(leaf, Nothing()))

    async with Runtime(db, agents=[root, leaf]) as runs:
        run = await runs.start(root, Nothing())
        await eventually(begun.is_set)
        receipt = await cancelled(run)
        assert outcomes(receipt)["blocks"] == "still_running"
        assert "let_go.acquire" in left_behind(receipt)
        let_go.release()


async def test_a_child_cancelled_alone_raises_in_its_parent(db: str) -> None:
    """RULINGS, child runs."""
    begun = asyncio.Event()

    @tool(effect="read")
    async def slow() -> None:
        begun.set()
        await asyncio.sleep(60)

    leaf = endless_calls_of(slow, "leaf")

    @agent("root")
    async def root(run: Run[Nothing]) -> Done[str]:
        try:
            await run.call(child(leaf, Nothing()))
        except ChildCancelled as error:
            return Done(error.type)
        return Done("not told")

    async with Runtime(db, agents=[root, leaf]) as runs:
        run = await runs.start(root, Nothing())
        await begun.wait()
        (view,) = await runs.list(agent="leaf")
        await cancelled(runs.handle(view.id))
        assert await run.result(timeout=120) == "ChildCancelled"


async def test_a_write_whose_caller_is_cancelled_by_a_failing_sibling_still_finishes(db: str) -> None:
    """DESIGN, the gate: it finishes, is journaled, and the boundary waits for it."""
    writing, may_end = asyncio.Event(), asyncio.Event()
    sent: list[str] = []

    @tool(effect="write")
    async def send() -> str:
        writing.set()
        await may_end.wait()
        sent.append("letter")
        return "sent"

    @tool(effect="read")
    async def fails() -> None:
        await writing.wait()
        raise ValueError("no")

    @agent("sender")
    async def sender(run: Run[Nothing]) -> Done[str]:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(run.call(send()))
                group.create_task(run.call(fails()))
        except* CallFailed:
            asyncio.get_running_loop().call_later(0.1, may_end.set)
        return Done("caught")

    async with Runtime(db, agents=[sender]) as runs:
        run = await runs.start(sender, Nothing())
        assert await run.result(timeout=120) == "caught"
        assert sent == ["letter"]
        events = await recorded(run)
        written = next(e for e in events if isinstance(e, CallFinished) and e.result == "sent")
        boundary = next(e for e in events if isinstance(e, StepFinished))
        assert written.seq <= boundary.seq


async def test_a_write_outlives_an_error_of_its_step_and_is_not_repeated(db: str) -> None:
    """DESIGN, the gate: the error holds the run only when the write has ended; resume does not send again."""
    writing = asyncio.Event()
    sent: list[str] = []
    failing = True

    @tool(effect="write")
    async def send() -> str:
        writing.set()
        await asyncio.sleep(0.2)
        sent.append("letter")
        return "sent"

    @tool(effect="read")
    async def fails() -> str:
        await writing.wait()
        if failing:
            raise ValueError("no")
        return "well"

    @agent("sender")
    async def sender(run: Run[Nothing]) -> Done[list[str]]:
        async with asyncio.TaskGroup() as group:
            one, two = group.create_task(run.call(send())), group.create_task(run.call(fails()))
        return Done([one.result(), two.result()])

    async with Runtime(db, agents=[sender]) as runs:
        run = await runs.start(sender, Nothing())
        with pytest.raises(RunHeld):
            await run.result(timeout=120)
        assert sent == ["letter"]
        failing = False
        assert await run.resume()
        assert await run.result(timeout=120) == ["sent", "well"]
        assert sent == ["letter"]


async def test_done_while_calls_are_in_flight_drains_writes_and_cuts_reads(db: str) -> None:
    """RULINGS, Done while a call is in flight."""
    keep: list[asyncio.Task[object]] = []
    reading, writing, read_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
    sent: list[str] = []

    @tool(effect="read")
    async def read() -> None:
        reading.set()
        try:
            await asyncio.sleep(60)
        finally:
            read_ended.set()

    @tool(effect="write")
    async def send() -> str:
        writing.set()
        await asyncio.sleep(0.2)
        sent.append("letter")
        return "sent"

    @agent("hasty")
    async def hasty(run: Run[Nothing]) -> Done[str]:
        keep.append(asyncio.create_task(run.call(read())))
        keep.append(asyncio.create_task(run.call(send())))
        await reading.wait()
        await writing.wait()
        return Done("done")

    async with Runtime(db, agents=[hasty]) as runs:
        run = await runs.start(hasty, Nothing())
        assert await run.result(timeout=120) == "done"
        assert sent == ["letter"]
        assert read_ended.is_set()
        assert "sent" in [e.result for e in await of_kind(run, CallFinished)]
        named = " ".join(e.what for e in await of_kind(run, LeftBehind))
        assert "read" in named
        assert "send" in named


async def test_a_task_of_a_step_that_has_returned_gets_no_further_call(db: str) -> None:
    """R7: not even while the boundary waits for the calls it left in flight."""
    writing, may_end = asyncio.Event(), asyncio.Event()
    polled: list[int] = []
    keep: list[asyncio.Task[object]] = []

    @tool(effect="write")
    async def send() -> None:
        writing.set()
        await may_end.wait()

    @tool(effect="read")
    async def poll(n: int) -> None:
        polled.append(n)

    @agent("hasty")
    async def hasty(run: Run[Nothing]) -> Done[str]:
        async def polls() -> None:
            await may_end.wait()
            await run.call(poll(1))

        keep.append(asyncio.create_task(polls()))
        keep.append(asyncio.create_task(run.call(send())))
        await writing.wait()
        asyncio.get_running_loop().call_later(0.05, may_end.set)
        return Done("done")

    async with Runtime(db, agents=[hasty]) as runs:
        run = await runs.start(hasty, Nothing())
        assert await run.result(timeout=120) == "done"
        assert polled == []


async def test_a_read_that_swallows_its_cut_does_not_keep_a_run_from_being_done(db: str) -> None:
    """R35: left behind and named; the run ends, and the late result stays out of it."""
    let_go, reading = asyncio.Event(), asyncio.Event()
    keep: list[asyncio.Task[object]] = []

    @tool(effect="read", grace=0.1)
    async def deaf() -> str:
        reading.set()
        await deaf_until(let_go)
        return "late"

    @agent("hasty")
    async def hasty(run: Run[Nothing]) -> Done[str]:
        keep.append(asyncio.create_task(run.call(deaf())))
        await reading.wait()
        return Done("done")

    async with Runtime(db, agents=[hasty]) as runs:
        run = await runs.start(hasty, Nothing())
        assert await run.result(timeout=120) == "done"
        let_go.set()
        assert (await late_result(run)).result == "late"
