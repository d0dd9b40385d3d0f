"""Pause reaches the call in flight by its kind; a cancel turns its drains into cuts (R3, R4)."""

import asyncio
import threading
import time

import pytest
from tests.cancel.support import (
    LIMIT,
    Nothing,
    cancelled,
    endless_calls_of,
    hangs,
    of_kind,
    one_call_of,
    outcomes,
    under_way,
)
from tests.helpers import eventually

from standfast import Done, Run, Runtime, agent, child, idempotency_key, stopping, tool
from standfast.events import CallStarted


async def test_pause_cuts_a_read_and_resume_repeats_it_with_the_same_key(db: str) -> None:
    """DESIGN, table of calls: short grace, then cut; repeated with the same key."""
    keys: list[str] = []
    begun = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        keys.append(idempotency_key())
        begun.set()
        if len(keys) == 1:
            await asyncio.sleep(60)
        return "read"

    async with under_way(db, one_call_of(slow), begun) as run:
        await run.pause(by="ann", reason="a look")
        receipt = await run.settled(timeout=LIMIT)
        assert receipt.status == "paused"
        assert outcomes(receipt) == {"slow": "aborted"}
        assert (receipt.by, receipt.reason) == ("ann", "a look")
        await run.resume()
        assert await run.result(timeout=LIMIT) == "read"
        assert len(keys) == 2
        assert keys[0] == keys[1]


@pytest.mark.parametrize("before", ["nothing", "a pause"])
@pytest.mark.parametrize("in_a_thread", [False, True], ids=["in the loop", "in a thread"])
async def test_a_cancel_cuts_a_read_at_once_also_in_the_time_that_a_pause_gives_it(
    db: str, monkeypatch: pytest.MonkeyPatch, before: str, *, in_a_thread: bool
) -> None:
    """R6, RULINGS "Clean-up after a cut": the time to end by itself is a pause's alone."""
    monkeypatch.setattr(stopping, "READ_GRACE", 3600.0)
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool(effect="read", name="slow")
    async def slow() -> str:
        begun.set()
        await asyncio.sleep(3600)
        return "read"

    @tool(effect="read", name="slow")
    def slow_thread() -> str:
        loop.call_soon_threadsafe(begun.set)
        while True:
            time.sleep(0.001)

    async with under_way(db, one_call_of(slow_thread if in_a_thread else slow), begun) as run:
        if before == "a pause":
            assert await run.pause()
            assert (await run.view()).status == "pausing", "the read may still end by itself"
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"slow": "aborted"}


async def test_a_read_that_ends_within_the_short_grace_is_not_repeated(db: str) -> None:
    """R3, R4: what was nearly there is kept."""
    begun = asyncio.Event()
    calls: list[int] = []

    @tool(effect="read")
    async def nearly() -> str:
        calls.append(1)
        begun.set()
        await asyncio.sleep(0.01)
        return "read"

    @agent("reader")
    async def reader(run: Run[Nothing]) -> Done[str]:
        first = await run.call(nearly())
        return Done(first + await run.call(nearly(), key="second"))

    async with under_way(db, reader, begun) as run:
        await run.pause()
        receipt = await run.settled(timeout=LIMIT)
        assert outcomes(receipt) == {"nearly": "finished"}
        await run.resume()
        assert await run.result(timeout=LIMIT) == "readread"
        assert len(calls) == 2


async def test_pause_cuts_a_read_in_a_thread(db: str) -> None:
    """R3: sync code that may safely be repeated is cut, too."""
    begun = threading.Event()
    tries: list[str] = []

    @tool(effect="idempotent")
    def crunch() -> str:
        tries.append(idempotency_key())
        begun.set()
        while len(tries) == 1:
            time.sleep(0.005)
        return "crunched"

    async with under_way(db, one_call_of(crunch), begun) as run:
        await run.pause()
        assert outcomes(await run.settled(timeout=LIMIT)) == {"crunch": "aborted"}
        await run.resume()
        assert await run.result(timeout=LIMIT) == "crunched"
        assert tries == [tries[0]] * 2


async def test_pause_lets_a_write_finish_and_says_what_it_waits_for(db: str) -> None:
    """DESIGN, table of calls: `pausing: waiting for send_invoice 3 s`; its result is not asked for again."""
    begun, may_end = threading.Event(), threading.Event()
    sent: list[str] = []

    @tool(effect="write", grace=0.1)
    def send_invoice() -> str:
        begun.set()
        may_end.wait(LIMIT)
        sent.append("invoice")
        return "sent"

    @tool(effect="read")
    async def after() -> str:
        return "after"

    @agent("sender")
    async def sender(run: Run[Nothing]) -> Done[str]:
        sent_ = await run.call(send_invoice())
        return Done(sent_ + await run.call(after()))

    async with under_way(db, sender, begun) as run:
        await run.pause()
        await asyncio.sleep(0.4)  # longer than its grace: a pause has no deadline for effects
        view = await run.view()
        assert view.status == "pausing"
        assert "send_invoice" in view.waiting_for
        may_end.set()
        receipt = await run.settled(timeout=LIMIT)
        assert receipt.status == "paused"
        assert outcomes(receipt) == {"send_invoice": "finished"}
        assert [e.tool for e in await so_far(run, CallStarted)] == ["send_invoice"]
        await run.resume()
        assert await run.result(timeout=LIMIT) == "sentafter"
        assert sent == ["invoice"]


async def so_far(run: object, kind: type) -> list:  # type: ignore[type-arg]
    """Events of a run that has not ended."""
    found = []
    seq = (await run.view()).seq  # type: ignore[attr-defined]
    async for event in run.events():  # type: ignore[attr-defined]
        if isinstance(event, kind):
            found.append(event)
        if getattr(event, "seq", 0) >= seq:
            return found
    return found


async def test_cancel_during_pausing_turns_drains_into_cuts(db: str) -> None:
    """DESIGN, verb table: pausing -> cancelling; drains become cuts, undoable writes at once."""
    begun, ended, undone = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def take_back(_: object) -> None:
        undone.set()

    @tool(effect="write", undo=take_back, grace=60)
    async def send() -> None:
        await hangs(begun, ended)

    async with under_way(db, endless_calls_of(send), begun) as run:
        await run.pause()
        await asyncio.sleep(0.3)
        assert not ended.is_set()
        receipt = await cancelled(run, by="ann")
        assert ended.is_set()
        assert undone.is_set()
        assert receipt.by == "ann"
        assert [u.outcome for u in receipt.undone] == ["undone"]


async def test_cancel_during_pausing_gives_a_write_without_undo_its_grace_then_cuts(db: str) -> None:
    """DESIGN, table of calls: without undo, `grace` to finish, then cut."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool(effect="write", grace=0.2)
    async def send() -> None:
        await hangs(begun, ended)

    async with under_way(db, endless_calls_of(send), begun) as run:
        await run.pause()
        await asyncio.sleep(0.1)
        receipt = await cancelled(run)
        assert ended.is_set()
        assert outcomes(receipt) == {"send": "in_doubt"}


async def test_pause_reaches_child_runs_and_resume_goes_on_with_them(db: str) -> None:
    """DESIGN, table of calls: a child is paused with its parent, and not begun twice."""
    begun = asyncio.Event()
    calls: list[int] = []

    @tool(effect="read")
    async def slow() -> str:
        calls.append(1)
        begun.set()
        if len(calls) == 1:
            await asyncio.sleep(60)
        return "leaf"

    leaf = one_call_of(slow, "leaf")

    @agent("root")
    async def root(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(child(leaf, Nothing())))

    async with Runtime(db, agents=[root, leaf]) as runs:
        run = await runs.start(root, Nothing())
        await begun.wait()
        await run.pause()
        await run.settled(timeout=LIMIT)

        async def all_paused() -> bool:
            return {v.status for v in await runs.list()} == {"paused"}

        await eventually(all_paused)
        await run.resume()
        assert await run.result(timeout=LIMIT) == "leaf"
        assert len(await runs.list(agent="leaf")) == 1
        assert len(await of_kind(run, CallStarted)) <= 2


async def test_a_step_that_swallows_the_pause_is_named_and_taken_again_on_resume(db: str) -> None:
    """R3, R7: paused all the same; the code left behind gets no call, the new attempt does."""
    begun, let_go = asyncio.Event(), asyncio.Event()
    taken: list[int] = []

    @tool(effect="read")
    async def read(n: int) -> int:
        return n

    @agent("stubborn")
    async def stubborn(run: Run[Nothing]) -> Done[int]:
        taken.append(1)
        mine = len(taken)
        while mine == 1 and not let_go.is_set():
            try:
                begun.set()
                await let_go.wait()
            except BaseException:  # noqa: BLE001 - swallowing is the point
                continue
        return Done(await run.call(read(mine)))

    async with under_way(db, stubborn, begun) as run:
        await run.pause()
        receipt = await run.settled(timeout=LIMIT)
        assert receipt.status == "paused"
        assert any("stubborn at test_pause_reaches_calls.py:" in r.why for r in receipt.residue)
        await run.resume()
        let_go.set()  # the old attempt wakes up and asks for read(1): refused
        assert await run.result(timeout=LIMIT) == 2
        assert [e.args for e in await of_kind(run, CallStarted)] == [{"n": 2}]
