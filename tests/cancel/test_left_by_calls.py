"""What a call has started and not waited for is the call's (R39): it is named with it, and not undone while it goes on.

Nor is what its `before`, `undo` and `probe` have started.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, left_behind, under_way
from tests.cancel.test_left_by_steps import Deaf, keep
from tests.cancel.test_left_running import told
from tests.cancel.test_owned_threads import Blocking, Ticking
from tests.helpers import eventually, held

from standfast import (
    Accepted,
    Agent,
    Done,
    Handle,
    Happened,
    Idle,
    NotHappened,
    Performed,
    Run,
    Runtime,
    Tool,
    agent,
    child,
    tool,
)
from standfast.events import LateResult, UndoEnded, VerbNoted


@pytest.fixture(params=["thread", "task", "executor of its own"])
def going(request: pytest.FixtureRequest) -> Iterator[Deaf]:
    it = Deaf(request.param)
    yield it
    it.let_go()
    it.pool.shutdown()


class Upload:
    """A call that leaves work going on, and its undo."""

    def __init__(self, work: Deaf) -> None:
        self.log: list[str] = []
        self.begun = asyncio.Event()

        async def delete(_: Performed[Any, Any]) -> None:
            self.log.append("deleted")

        @tool(undo=delete, settles="run")
        async def begin() -> None:
            await work.leave()
            self.begun.set()

        self.tool: Tool[[], None] = begin

    def agent(self, then: str = "next step") -> Agent[Nothing, Any]:
        @agent("uploader")
        async def uploader(run: Run[Nothing]) -> Idle | None:
            if run.step == 0:
                await run.call(self.tool())
            if run.step == 0 and then != "same step":
                return Idle() if then == "idle" else None
            await asyncio.sleep(1000)
            return None

        return uploader


async def wait_for_step(run: Handle[Any], step: int) -> None:
    async def there() -> bool:
        return (await run.view()).step >= step

    await eventually(there, LIMIT)


@pytest.mark.parametrize("then", ["same step", "next step", "idle"])
async def test_an_undo_is_in_doubt_while_what_its_call_has_left_goes_on(db: str, going: Deaf, then: str) -> None:
    """R39: undone is never said while it runs on; the receipt names the call, and the step it was begun in."""
    it = Upload(going)
    async with under_way(db, it.agent(then), it.begun) as run:
        if then == "next step":
            await wait_for_step(run, 1)
        if then == "idle":
            await held(run, "waiting")
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert it.log == ["deleted"]
        left = next(one for one in receipt.residue if "still running" in one.what)
        assert left.what == "what begin started in step 0 is still running"
        assert going.place in left.why
        assert left.call is not None and left.call.id == receipt.undone[0].call.id
        going.let_go()
        await told(run, VerbNoted, "has ended")


async def test_a_rewind_says_so_too_and_a_driver_that_came_later_knows_of_it(db: str, going: Deaf) -> None:
    it = Upload(going)
    async with under_way(db, it.agent(), it.begun) as run:
        await wait_for_step(run, 1)
        assert isinstance(await run.pause(), Accepted)
        assert "what begin started in step 0" in left_behind(await run.settled(timeout=LIMIT))
        assert await run.rewind(0)
        assert (await undo_of(run)).outcome == "in_doubt"
        going.let_go()
        await told(run, VerbNoted, "has ended")


async def undo_of(run: Handle[Any]) -> UndoEnded:
    """The first end of an undo in the record of a run that goes on."""
    async with asyncio.timeout(LIMIT):
        async for event in run.events():
            if isinstance(event, UndoEnded):
                return event
    raise AssertionError("no undo ended")


async def test_a_call_is_undone_once_what_it_has_left_has_ended(db: str, going: Deaf) -> None:
    """Whoever undoes it later knows that too."""
    it = Upload(going)
    async with under_way(db, it.agent(), it.begun) as run:
        await wait_for_step(run, 1)
        assert isinstance(await run.pause(), Accepted)
        await run.settled(timeout=LIMIT)
        going.let_go()
        await told(run, VerbNoted, "has ended")
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert receipt.residue == ()


async def test_a_task_of_a_write_that_was_cut_is_the_write_s(db: str) -> None:
    """R39: the body ends when it is cut; its task swallows that."""
    let_go, begun, log = asyncio.Event(), asyncio.Event(), list[str]()

    async def refund(_: Performed[Any, Any]) -> None:
        log.append("refunded")

    async def goes_on() -> None:
        begun.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue

    @tool(undo=refund, grace=0.1)
    async def charge() -> None:
        keep(asyncio.create_task(goes_on()))
        await asyncio.sleep(1000)

    @agent("payer")
    async def payer(run: Run[Nothing]) -> None:
        await run.call(charge())

    async with under_way(db, payer, begun) as run:
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert [f.outcome for f in receipt.in_flight] == ["in_doubt"]
        assert "what charge started in step 0 is still running" in left_behind(receipt)
        let_go.set()
        await told(run, VerbNoted, "has ended")


async def test_a_probe_that_sees_nothing_yet_settles_nothing_while_the_work_goes_on(db: str) -> None:
    """R39: it has not happened, and may still."""
    work = Blocking()

    async def look(_: Performed[Any, Any]) -> Happened | NotHappened:
        return NotHappened()

    @tool(undo=work.refund, probe=look, grace=0.1)
    async def charge() -> None:
        await asyncio.to_thread(work)

    @agent("payer")
    async def payer(run: Run[Nothing]) -> None:
        await run.call(charge())

    async with under_way(db, payer, work.begun) as run:
        receipt = await cancelled(run)
        work.let_go.set()
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]


async def test_two_calls_that_leave_work_at_one_place_are_told_apart(db: str) -> None:
    """One has ended, and is undone; the other is not."""
    works = [Deaf("executor of its own"), Deaf("executor of its own")]
    unused = iter(works)

    async def delete(_: Performed[Any, Any]) -> None: ...

    @tool(undo=delete, settles="run")
    async def begin(_name: str) -> None:
        await next(unused).leave()

    @agent("uploader")
    async def uploader(run: Run[Nothing]) -> Idle:
        await run.call(begin("a"))
        await run.call(begin("b"))
        return Idle()

    async with Runtime(db, agents=[uploader]) as runs:
        run = await runs.start(uploader, Nothing())
        await held(run, "waiting")
        works[0].let_go()
        await told(run, VerbNoted, "has ended")
        receipt = await cancelled(run)
        outcomes = {u.call.id: u.outcome for u in receipt.undone}
        assert list(outcomes.values()).count("undone") == 1
        left = [one.call.id for one in receipt.residue if one.call is not None and "still running" in one.what]
        assert [outcomes[id_] for id_ in left] == ["in_doubt"]
        works[1].let_go()
        await told(run, VerbNoted, "has ended")
    for work in works:
        work.pool.shutdown()


async def test_a_finished_child_s_call_is_not_undone_while_what_it_has_left_goes_on(db: str, going: Deaf) -> None:
    """R39: by the driver of the run above it, which performed nothing of it."""
    done = asyncio.Event()

    async def delete(_: Performed[Any, Any]) -> None: ...

    @tool(undo=delete, settles="run")
    async def begin() -> None:
        await going.leave()

    @agent("helper")
    async def helper(run: Run[Nothing]) -> Done[None]:
        await run.call(begin())
        return Done(None)

    @agent("parent")
    async def parent(run: Run[Nothing]) -> None:
        await run.call(child(helper, Nothing()))
        done.set()
        await asyncio.sleep(1000)

    async with Runtime(db, agents=[parent, helper]) as runs:
        run = await runs.start(parent, Nothing())
        await asyncio.wait_for(done.wait(), LIMIT)
        receipt = await cancelled(run, undo="all")
        assert [(u.call.tool, u.outcome) for u in receipt.undone] == [("begin", "in_doubt")]
        going.let_go()


# --- before, undo, probe ----------------------------------------------------------------------------


class Quiet:
    """Work that ends when it is told to, and notes that it has."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.log: list[str] = []
        self.begun, self.let_go = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        self.let_go.wait(LIMIT)
        self.log.append("ended")

    async def in_a_task(self) -> None:
        self.begun.set()
        while not self.let_go.is_set():
            await asyncio.sleep(0.01)
        self.log.append("ended")

    def start(self) -> None:
        """Nobody waits for it."""
        if self.kind == "task":
            keep(asyncio.create_task(self.in_a_task()))
        else:
            asyncio.get_running_loop().run_in_executor(None, self)


def sleeper(tool_: Tool[[], None]) -> Agent[Nothing, Any]:
    @agent("sleeper")
    async def it(run: Run[Nothing]) -> None:
        await run.call(tool_())
        await asyncio.sleep(1000)

    return it


@pytest.mark.parametrize("kind", ["task", "thread"])
async def test_a_call_is_undone_when_what_its_undo_has_started_has_ended(db: str, kind: str) -> None:
    work, done = Quiet(kind), asyncio.Event()

    async def delete(_: Performed[Any, Any]) -> None:
        work.start()

    @tool(undo=delete)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        assert isinstance(await run.cancel(), Accepted)
        await eventually(work.begun.is_set, LIMIT)
        settling = asyncio.create_task(run.settled(timeout=LIMIT))
        await asyncio.sleep(0.1)  # a wrong end has come by now; a right one waits however long this is
        assert not settling.done()
        work.let_go.set()
        receipt = await settling
        assert work.log == ["ended"]
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert receipt.residue == ()


async def test_an_undo_that_leaves_what_does_not_end_is_in_doubt_and_that_is_named(
    db: str, going: Deaf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.aside.PATIENCE", 0.2)
    done = asyncio.Event()

    async def delete(_: Performed[Any, Any]) -> None:
        await going.leave()

    @tool(undo=delete, grace=0.1)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        receipt = await cancelled(run)
        assert [(u.outcome, u.tries) for u in receipt.undone] == [("in_doubt", 1)]
        left = next(one for one in receipt.residue if "still running" in one.what)
        assert left.what == "what the undo or probe of put started is still running"
        assert going.place in left.why
        going.let_go()
        await told(run, VerbNoted, "has ended")


async def test_what_an_undo_leaves_and_a_cut_ends_leaves_the_undo_in_doubt(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether all of it was undone nobody knows; nothing of it goes on."""
    monkeypatch.setattr("standfast.aside.PATIENCE", 0.2)
    work, done = Quiet("task"), asyncio.Event()

    async def delete(_: Performed[Any, Any]) -> None:
        work.start()

    @tool(undo=delete)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert "still running" not in left_behind(receipt)
        work.let_go.set()
        assert work.log == []


async def keepalive() -> None:
    """As a pool of connections has one."""
    while True:
        await asyncio.sleep(1_000_000)


async def test_what_an_undo_leaves_sleeping_for_long_is_not_waited_for(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known that it will not end in time; what it was stays unknown, and where it is, is said."""
    monkeypatch.setattr("standfast.aside.PATIENCE", 10 * LIMIT)
    monkeypatch.setattr("standfast.undo.ALL_TRIES_SECONDS", 100 * LIMIT)
    done = asyncio.Event()

    async def delete(_: Performed[Any, Any]) -> None:
        keep(asyncio.create_task(keepalive()))

    @tool(undo=delete)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert "did not end, and was cut: keepalive at test_left_by_calls.py" in left_behind(receipt)


async def test_what_sleeps_and_then_acts_is_waited_for(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R39: undone is not said before; also beside something that would sleep for long, and that it ends."""
    monkeypatch.setattr("standfast.aside.NO_LONGER", 0.0)
    done, log = asyncio.Event(), list[str]()

    async def deletes(watchdog: asyncio.Task[None]) -> None:
        await asyncio.sleep(0.2)
        log.append("deleted")
        watchdog.cancel()

    async def delete(_: Performed[Any, Any]) -> None:
        watchdog = asyncio.create_task(keepalive())
        keep(watchdog)
        keep(asyncio.create_task(deletes(watchdog)))

    @tool(undo=delete)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        receipt = await cancelled(run)
        assert log == ["deleted"]
        assert [u.outcome for u in receipt.undone] == ["undone"]


async def test_what_an_undo_starts_in_a_context_of_its_own_is_nobody_s(db: str) -> None:
    """What the guide offers to a library that keeps a task for good."""
    done, kept = asyncio.Event(), list[asyncio.Task[None]]()

    async def delete(_: Performed[Any, Any]) -> None:
        kept.append(asyncio.create_task(keepalive(), context=contextvars.Context()))

    @tool(undo=delete)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert not kept[0].done()
        kept[0].cancel()


async def test_what_before_has_started_is_cut_before_the_undo(db: str) -> None:
    work, done, seen = Ticking(), asyncio.Event(), list[bool]()

    async def look() -> str:
        asyncio.get_running_loop().run_in_executor(None, work)
        return "as it was"

    async def put_back(_: Performed[Any, Any]) -> None:
        seen.append(work.ended.is_set())

    @tool(undo=put_back, before=look)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        await eventually(work.begun.is_set, LIMIT)
        receipt = await cancelled(run)
        assert seen == [True]
        assert "still running" not in left_behind(receipt)


async def test_a_call_is_not_undone_while_what_its_before_has_started_goes_on(db: str, going: Deaf) -> None:
    done = asyncio.Event()

    async def look() -> str:
        await going.leave()
        return "as it was"

    async def put_back(_: Performed[Any, Any]) -> None: ...

    @tool(undo=put_back, before=look)
    async def put() -> None:
        done.set()

    async with under_way(db, sleeper(put), done) as run:
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert "what put started in step 0 is still running" in left_behind(receipt)
        going.let_go()
        await told(run, VerbNoted, "has ended")


@pytest.mark.parametrize("kind", ["task", "thread"])
async def test_what_a_probe_has_started_has_ended_before_the_undo(db: str, kind: str) -> None:
    work, begun, log = Quiet(kind), asyncio.Event(), list[str]()

    async def look(_: Performed[Any, Any]) -> None:
        work.start()

    async def put_back(_: Performed[Any, Any]) -> None:
        log.extend([*work.log, "undone"])

    @tool(undo=put_back, probe=look, grace=LIMIT)
    async def put() -> None:
        begun.set()
        await asyncio.sleep(1000)

    async with under_way(db, sleeper(put), begun) as run:
        assert isinstance(await run.cancel(), Accepted)
        await eventually(work.begun.is_set, LIMIT)
        await asyncio.sleep(0.1)  # a wrong undo has begun by now; a right one waits however long this is
        assert log == []
        work.let_go.set()
        assert [u.outcome for u in (await run.settled(timeout=LIMIT)).undone] == ["undone"]
        assert log == ["ended", "undone"]


async def test_a_call_whose_time_is_up_and_that_goes_on_is_still_running_in_the_receipt(db: str) -> None:
    """R39: not failed, as if it had ended; the stop came while it was waited for."""
    work = Deaf("executor of its own")

    @tool(timeout=0.1, grace=4.0)
    async def charge() -> None:
        await asyncio.get_running_loop().run_in_executor(work.pool, work.work)

    async def is_cut() -> bool:
        return "cleaning up charge" in (await run.view()).waiting_for

    async with under_way(db, sleeper(charge), work.work.begun) as run:
        await eventually(is_cut, LIMIT)
        receipt = await cancelled(run)
        assert [f.outcome for f in receipt.in_flight] == ["still_running"]
        assert "charge is still running" in left_behind(receipt)
        work.let_go()
        await told(run, LateResult)
    work.pool.shutdown()


async def test_what_an_attempt_leaves_that_a_redirect_has_ended_is_known_to_a_later_cancel(
    db: str, going: Deaf
) -> None:
    """R39: no stop was asked for, so no receipt has named it before."""
    begun, again, attempts = asyncio.Event(), asyncio.Event(), list[int]()

    async def delete(_: Performed[Any, Any]) -> None: ...

    @tool(undo=delete, settles="run")
    async def begin() -> None:
        await going.leave()
        begun.set()

    @agent("redirected")
    async def redirected(run: Run[Nothing]) -> None:
        attempts.append(1)
        await run.call(begin())
        if len(attempts) > 1:
            again.set()
        await asyncio.sleep(1000)

    async with under_way(db, redirected, begun) as run:
        assert await run.redirect("otherwise")
        await asyncio.wait_for(again.wait(), LIMIT)
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert "what begin started in step 0 is still running" in left_behind(receipt)
        going.let_go()
        await told(run, VerbNoted, "has ended")
