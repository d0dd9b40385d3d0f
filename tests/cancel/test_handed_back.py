"""A coroutine that a thread of a call hands back to the event loop belongs to the call (R39).

It is cut with the call, has its grace, has ended before the call is undone and the stop is settled, or is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio.from_thread
import anyio.to_thread
import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, left_behind, of_kind, one_call_of, outcomes, under_way
from tests.helpers import eventually, held

from standfast import CallTimedOut, Done, Idle, Performed, Run, Runtime, Tool, agent, tool
from standfast.events import LateResult, LeftBehind

Work = Callable[[], Coroutine[Any, Any, None]]
Hand = Callable[[asyncio.AbstractEventLoop, Work], None]


def and_waits(loop: asyncio.AbstractEventLoop, work: Work) -> None:
    asyncio.run_coroutine_threadsafe(work(), loop).result()


def and_gives_up(loop: asyncio.AbstractEventLoop, work: Work) -> None:
    """Waits in Python code, so it is unwound while the coroutine cleans up."""
    waiting = asyncio.run_coroutine_threadsafe(work(), loop)
    try:
        while not waiting.done():
            time.sleep(0.002)
    finally:
        time.sleep(0.03)  # by now it cleans up
        waiting.cancel()


def by_a_callback(loop: asyncio.AbstractEventLoop, work: Work) -> None:
    loop.call_soon_threadsafe(loop.create_task, work())
    while True:
        time.sleep(0.002)


def by_anyio(_: asyncio.AbstractEventLoop, work: Work) -> None:
    anyio.from_thread.run(work)


PAIRS: list[tuple[str, Hand]] = [
    *(
        (body, hand)
        for body in ("sync tool", "to_thread", "anyio")
        for hand in (and_waits, and_gives_up, by_a_callback)
    ),
    ("anyio", by_anyio),  # hands over from its own threads only
]
of_every_kind = pytest.mark.parametrize(
    ("body", "hand"), PAIRS, ids=lambda it: it if isinstance(it, str) else it.__name__
)


def tool_of(body: str, hand: Hand, work: Work, **declared: Any) -> Tool[[], None]:
    """A tool whose thread hands this over."""
    loop = asyncio.get_running_loop()

    def sync() -> None:
        hand(loop, work)

    async def by_to_thread() -> None:
        await asyncio.to_thread(sync)

    async def by_anyio_s_thread() -> None:
        await anyio.to_thread.run_sync(sync)

    bodies: dict[str, Callable[[], Any]] = {"sync tool": sync, "to_thread": by_to_thread, "anyio": by_anyio_s_thread}
    made: Tool[[], None] = tool(name="charge", **declared)(bodies[body])
    return made


class Charge:
    """What is handed over, and the undo of its call."""

    def __init__(self) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.log: list[str] = []

    async def ends(self) -> None:
        """At the first cancellation."""
        self.begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            self.log.append("ended")

    async def cleans_up(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(0.3)  # a thread that gives up does so meanwhile
            self.log.append("cleaned up")

    async def is_deaf(self) -> None:
        self.begun.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.log.append("asked")

    async def acts_when_it_is_cut(self) -> None:
        """And says that it goes on all the same."""
        self.begun.set()
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            self.log.append("charged")

    async def returns_when_it_is_cut(self) -> None:
        """A tidy clean-up: nobody can know whether the rest was done."""
        self.begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1000)
            self.log.append("charged")
        self.log.append("ended")

    async def refund(self, _: Performed[Any, Any]) -> None:
        self.log.append("refunded")


@of_every_kind
async def test_it_is_cut_with_a_write_and_ends_before_the_undo(db: str, body: str, hand: Hand) -> None:
    """R39: not once the call has been given up, which it then is at once because its thread waits for nothing."""
    it = Charge()
    async with under_way(db, one_call_of(tool_of(body, hand, it.ends, undo=it.refund)), it.begun) as run:
        receipt = await cancelled(run)
        assert it.log == ["ended", "refunded"]
        assert outcomes(receipt) == {"charge": "aborted"}
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert receipt.residue == ()


@of_every_kind
async def test_it_is_cut_with_a_read(db: str, body: str, hand: Hand) -> None:
    it = Charge()
    async with under_way(db, one_call_of(tool_of(body, hand, it.ends, effect="read")), it.begun) as run:
        receipt = await cancelled(run)
        assert it.log == ["ended"]
        assert outcomes(receipt) == {"charge": "aborted"}
        assert receipt.residue == ()


@of_every_kind
async def test_it_may_clean_up_undisturbed(db: str, body: str, hand: Hand) -> None:
    """One cancellation: not another one by a thread that is cut as well, and gives up what it waited for."""
    it = Charge()
    charge = tool_of(body, hand, it.cleans_up, undo=it.refund, grace=LIMIT)
    async with under_way(db, one_call_of(charge), it.begun) as run:
        receipt = await cancelled(run)
        assert it.log == ["cleaned up", "refunded"]
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert receipt.residue == ()


@of_every_kind
async def test_one_that_does_not_end_is_named(db: str, body: str, hand: Hand) -> None:
    """R39: nothing is called undone while it runs on."""
    it = Charge()
    charge = tool_of(body, hand, it.is_deaf, undo=it.refund, grace=0.1)
    async with under_way(db, one_call_of(charge), it.begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"charge": "still_running"}
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert [r.what for r in receipt.residue] == ["charge is still running", "charge could not be undone"]
        assert "Charge.is_deaf at test_handed_back.py" in left_behind(receipt)
        assert it.log[0] == "asked"
        it.let_go.set()
        await eventually(lambda: of_kind(run, LateResult), LIMIT)


@of_every_kind
async def test_what_it_still_did_is_not_called_aborted(db: str, body: str, hand: Hand) -> None:
    """R9: what happened, happened; that it was taken back stands beside it."""
    it = Charge()
    charge = tool_of(body, hand, it.acts_when_it_is_cut, undo=it.refund)
    async with under_way(db, one_call_of(charge), it.begun) as run:
        receipt = await cancelled(run)
        assert it.log == ["charged", "refunded"]
        assert outcomes(receipt) == {"charge": "finished"}
        assert [u.outcome for u in receipt.undone] == ["undone"]


@of_every_kind
async def test_one_that_catches_its_cut_and_returns_is_not_called_finished(db: str, body: str, hand: Hand) -> None:
    """R9: what was cut is finished only if that is sure."""
    it = Charge()
    charge = tool_of(body, hand, it.returns_when_it_is_cut, undo=it.refund)
    async with under_way(db, one_call_of(charge), it.begun) as run:
        receipt = await cancelled(run)
        assert it.log == ["ended", "refunded"]
        assert outcomes(receipt) == {"charge": "aborted"}
        assert [u.outcome for u in receipt.undone] == ["undone"]


async def test_what_a_portal_has_begun_is_not_called_finished(db: str) -> None:
    """The task that a portal of anyio starts catches the cancellation of what it runs."""
    it = Charge()

    @tool(undo=it.refund)
    async def charge() -> None:
        async with anyio.from_thread.BlockingPortal() as portal:
            await asyncio.to_thread(portal.call, it.ends)

    async with under_way(db, one_call_of(charge), it.begun) as run:
        receipt = await cancelled(run)
        assert it.log == ["ended", "refunded"]
        assert outcomes(receipt) == {"charge": "aborted"}
        assert [u.outcome for u in receipt.undone] == ["undone"]


@pytest.mark.parametrize("work", [Charge.returns_when_it_is_cut, Charge.acts_when_it_is_cut], ids=lambda w: w.__name__)
async def test_a_thread_that_was_cut_counts_beside_one_that_waits(
    db: str, work: Callable[[Charge], Coroutine[Any, Any, None]]
) -> None:
    """Only the thread that waits for what it has handed over is left out: the other one was cut half-way."""
    it, loop = Charge(), asyncio.get_running_loop()
    debited = threading.Event()

    def pays() -> None:
        debited.set()
        while True:
            time.sleep(0.002)

    @tool(undo=it.refund)
    async def charge() -> None:
        waits = asyncio.to_thread(and_waits, loop, lambda: work(it))
        await asyncio.gather(asyncio.to_thread(pays), waits)

    async with under_way(db, one_call_of(charge), debited) as run:
        await it.begun.wait()
        receipt = await cancelled(run)
        assert it.log[-1] == "refunded"
        assert outcomes(receipt) == {"charge": "aborted"}
        assert [u.outcome for u in receipt.undone] == ["undone"]


class Nudged:
    """A task that a thread once cancels by itself, which it catches; and one beside it that nobody has nudged."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.nudged = asyncio.Event()
        self.log: list[str] = []

    async def acts(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self.loop.create_future()
        self.nudged.set()
        try:
            await self.loop.create_future()
        finally:
            self.log.append("cut")

    async def cleans_up(self) -> None:
        try:
            await self.loop.create_future()
        finally:
            await asyncio.sleep(0.3)
            self.log.append("the other one has cleaned up")

    async def play(self) -> None:
        task, other = self.loop.create_task(self.acts()), self.loop.create_task(self.cleans_up())
        await asyncio.sleep(0)  # both have begun
        await asyncio.to_thread(self.loop.call_soon_threadsafe, task.cancel)
        await self.loop.create_future()
        del other


@pytest.mark.parametrize("owner", ["call", "step"])
async def test_a_task_that_a_thread_has_nudged_is_cut_at_once(db: str, owner: str) -> None:
    """A cancellation of the code's own, that it caught, is no part of the stop that comes after it."""
    it = Nudged()
    charge = tool(name="charge", effect="read")(it.play)

    @agent("nudging")
    async def nudging(run: Run[Nothing]) -> Done[None]:
        await (run.call(charge()) if owner == "call" else it.play())
        return Done(None)

    async with under_way(db, nudging, it.nudged) as run:
        assert (await cancelled(run)).residue == ()
        assert it.log == ["cut", "the other one has cleaned up"]


@of_every_kind
async def test_it_is_cut_when_the_time_of_its_call_is_up(db: str, body: str, hand: Hand) -> None:
    it = Charge()
    cut: list[list[str]] = []
    charge = tool_of(body, hand, it.ends, effect="read", timeout=0.2)

    @agent("impatient")
    async def impatient(run: Run[Nothing]) -> Done[str]:
        try:
            await run.call(charge())
        except CallTimedOut:
            cut.append([*it.log])
        return Done("went on")

    async with Runtime(db, agents=[impatient]) as runs:
        run = await runs.start(impatient, Nothing())
        assert await run.result() == "went on"
        assert cut == [["ended"]]


async def test_a_thread_that_was_left_behind_hands_over_nothing_more(db: str) -> None:
    """R7, R39: the stop has settled; what it says of the call stays true."""
    it, loop = Charge(), asyncio.get_running_loop()
    begun, let_go = threading.Event(), threading.Event()
    refused: list[bool] = []

    @tool(effect="read", grace=0.1)
    def look() -> None:
        begun.set()
        while not let_go.is_set():
            with contextlib.suppress(BaseException):
                let_go.wait(0.01)
        waiting = asyncio.run_coroutine_threadsafe(it.acts_when_it_is_cut(), loop)
        while not waiting.done():
            with contextlib.suppress(BaseException):
                time.sleep(0.01)
        refused.append(waiting.cancelled())

    async with under_way(db, one_call_of(look), begun) as run:
        assert outcomes(await cancelled(run)) == {"look": "still_running"}
        let_go.set()
        await eventually(lambda: of_kind(run, LateResult), LIMIT)
        assert refused == [True]
        assert not it.begun.is_set()


async def test_what_a_finished_call_has_left_is_the_run_s(db: str) -> None:
    """It goes on beside the next step, is cut when the run comes to rest, and the record says so."""
    it, loop = Charge(), asyncio.get_running_loop()
    seen: list[list[str]] = []

    @tool(undo=it.refund)
    def charge() -> None:
        asyncio.run_coroutine_threadsafe(it.ends(), loop)
        while not it.begun.is_set():
            time.sleep(0.002)

    @agent("leaving")
    async def leaving(run: Run[Nothing]) -> Idle | None:
        if run.step == 0:
            await run.call(charge())
            return None
        seen.append([*it.log])
        return Idle()

    async with Runtime(db, agents=[leaving]) as runs:
        run = await runs.start(leaving, Nothing())
        await held(run, "waiting")
        assert seen == [[]]
        assert it.log == ["ended"]
        assert (await cancelled(run)).residue == ()
        (left,) = await of_kind(run, LeftBehind)
        assert left.what == "tasks that went on when the run came to rest after step 1 were cut: 1"
        assert left.where.startswith("Charge.ends at test_handed_back.py")
