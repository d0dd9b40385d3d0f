"""A cut reaches code once; then it may clean up undisturbed, within its grace (R39, R6, R7)."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
from tests.cancel.support import (
    LIMIT,
    Nothing,
    cancelled,
    deaf_until,
    left_behind,
    of_kind,
    one_call_of,
    outcomes,
    settled,
    under_way,
)
from tests.helpers import eventually, held

from standfast import Accepted, CallTimedOut, Done, Performed, Run, Runtime, agent, tool
from standfast.events import CallCut, CallFailed, CallStarted, LeftBehind

CLEANING = 0.2  # seconds a clean-up takes here: longer than the first repeats would leave it
Effect = Literal["read", "idempotent", "write", "irreversible"]


@pytest.fixture(autouse=True)
def nobody_settles_without_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy the loop may stand still for a while, as if code blocked it; that is no matter here."""
    monkeypatch.setattr("standfast.drivers.local.WEDGED_SECONDS", 10 * LIMIT)


class Session:
    """Something that must be closed, and the exceptions that its user saw meanwhile."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.closing = asyncio.Event()
        self.closed = False
        self.seen: list[str] = []

    async def __aenter__(self) -> None:
        self.opened.set()

    async def __aexit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        self.seen.append(kind.__name__ if kind is not None else "nothing")
        self.closing.set()
        try:
            await asyncio.sleep(CLEANING)
        except BaseException as error:
            self.seen.append(type(error).__name__)
            raise
        self.closed = True

    async def use(self) -> None:
        """Open it, and keep it open until somebody ends that."""
        async with self:
            await asyncio.sleep(60)

    @property
    def was_closed(self) -> bool:
        """Closed after one cancellation, undisturbed."""
        return self.closed and self.seen == ["CancelledError"]


async def nothing_to_take_back(_: Performed[None, None]) -> None: ...


CASES: list[dict[str, Any]] = [
    {"effect": "read"},
    {"effect": "read", "timeout": 60.0},  # in a task of its own
    {"effect": "idempotent"},
    {"effect": "read", "kind": "model"},
    {"effect": "write", "undo": nothing_to_take_back},
    {"effect": "write", "grace": 2.0},  # it has its grace to finish, and again to clean up
    {"effect": "irreversible", "confirm": False, "grace": 2.0},
]


def named(case: dict[str, Any]) -> str:
    return "-".join(str(getattr(v, "__name__", v)) for v in case.values())


@pytest.mark.parametrize("case", CASES, ids=named)
async def test_a_cancelled_tool_closes_what_it_has_opened(db: str, case: dict[str, Any]) -> None:
    """R39: one cancellation, and time for the tool's own `async with`."""
    session = Session()

    @tool(**case)
    async def opens() -> None:
        await session.use()

    async with under_way(db, one_call_of(opens), session.opened) as run:
        receipt = await cancelled(run)
        assert session.was_closed, session.seen
        if case["effect"] in ("read", "idempotent") or "undo" in case:
            assert outcomes(receipt) == {"opens": "aborted"}
            assert receipt.residue == ()
        else:
            assert outcomes(receipt) == {"opens": "in_doubt"}
            assert left_behind(receipt) == "opens could not be undone: it declares no undo"


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_paused_read_closes_what_it_has_opened(db: str, effect: Effect) -> None:
    """R39, R3"""
    session = Session()

    @tool(effect=effect)
    async def opens() -> None:
        await session.use()

    async with under_way(db, one_call_of(opens), session.opened) as run:
        assert await run.pause()
        await held(run, "user")
        assert session.was_closed, session.seen


async def test_a_redirect_right_now_lets_the_read_close_what_it_has_opened(db: str) -> None:
    """R39, R5: and the step is taken again only after that."""
    session = Session()
    closed_before: list[bool] = []

    @tool(effect="read")
    async def opens() -> None:
        await session.use()

    @agent("opener")
    async def opener(run: Run[Nothing]) -> Done[list[str]]:
        redirects = run.take_redirects()
        if redirects:
            closed_before.append(session.closed)
            return Done(redirects)
        await run.call(opens())
        raise AssertionError

    async with under_way(db, opener, session.opened) as run:
        assert await run.redirect("instead")
        assert await run.result(timeout=LIMIT) == ["instead"]
        assert session.was_closed, session.seen
        assert closed_before == [True]


async def test_a_soft_cancel_that_turns_hard_sends_one_cancellation(db: str) -> None:
    """R39, R12"""
    session = Session()

    @tool(effect="write", undo=nothing_to_take_back)
    async def opens() -> None:
        await session.use()

    async with under_way(db, one_call_of(opens), session.opened) as run:
        assert await run.cancel(soft=True)
        await eventually(lambda: _waits_for(run, "opens"))
        assert isinstance(await run.cancel(), Accepted)
        receipt = await settled(run)
        assert session.was_closed, session.seen
        assert [u.outcome for u in receipt.undone] == ["undone"]


async def _waits_for(run: Any, text: str) -> bool:
    return text in (await run.view()).waiting_for


async def test_a_call_that_is_cleaning_up_has_not_ended(db: str) -> None:
    """R39: the view says what is waited for, and nothing is settled or undone before that."""
    done = asyncio.Event()
    session = Session()
    undone_after: list[bool] = []

    async def undo(_: Performed[None, None]) -> None:
        undone_after.append(done.is_set())

    @tool(effect="write", undo=undo, grace=LIMIT)
    async def opens() -> None:
        session.opened.set()
        try:
            await asyncio.sleep(60)
        finally:
            await done.wait()

    async with under_way(db, one_call_of(opens), session.opened) as run:
        assert await run.cancel()
        await eventually(lambda: _waits_for(run, "cleaning up opens"))
        view = await run.view()
        assert view.status == "cancelling"
        done.set()
        receipt = await settled(run)
        assert undone_after == [True]
        assert outcomes(receipt) == {"opens": "aborted"}  # and undone
        assert receipt.residue == ()


async def test_a_call_whose_time_is_up_closes_what_it_has_opened(db: str) -> None:
    """R39: the same on a timeout; the step hears of it afterwards."""
    session = Session()
    closed_before: list[bool] = []

    @tool(effect="read", timeout=0.2)
    async def opens() -> None:
        await session.use()

    @agent("opener")
    async def opener(run: Run[Nothing]) -> Done[str]:
        try:
            await run.call(opens())
        except CallTimedOut:
            closed_before.append(session.closed)
        return Done("went on")

    async with Runtime(db, agents=[opener]) as runs:
        run = await runs.start(opener, Nothing())
        assert await run.result(timeout=LIMIT) == "went on"
        assert session.was_closed, session.seen
        assert closed_before == [True]
        assert len(await of_kind(run, CallFailed)) == 1


async def test_a_stop_during_the_clean_up_of_a_timeout_sends_no_second_cancellation(db: str) -> None:
    """R39"""
    session = Session()

    @tool(effect="read", timeout=0.2)
    async def opens() -> None:
        await session.use()

    async with under_way(db, one_call_of(opens), session.closing) as run:
        await cancelled(run)
        assert session.was_closed, session.seen


async def test_a_read_that_outlives_its_step_closes_what_it_has_opened(db: str) -> None:
    """R39: Done while a read is in flight cuts it, and waits for its clean-up."""
    session = Session()
    keep: list[Any] = []

    @tool(effect="read")
    async def opens() -> None:
        await session.use()

    @agent("leaver")
    async def leaver(run: Run[Nothing]) -> Done[str]:
        keep.append(asyncio.create_task(run.call(opens())))
        await session.opened.wait()
        return Done("left")

    async with Runtime(db, agents=[leaver]) as runs:
        run = await runs.start(leaver, Nothing())
        assert await run.result(timeout=LIMIT) == "left"
        assert session.was_closed, session.seen
        assert "opens was in flight when step 0 ended" in [e.what for e in await of_kind(run, LeftBehind)]
        assert [e.outcome for e in await of_kind(run, CallCut)] == ["aborted"]


async def in_the_step(session: Session) -> None:
    await session.use()


async def in_a_task(session: Session) -> None:
    await asyncio.gather(asyncio.create_task(session.use()), asyncio.sleep(60))


async def in_a_task_group(session: Session) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(session.use())
        group.create_task(asyncio.sleep(60))


async def in_a_group_of_groups(session: Session) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(in_a_task_group(session))


async def in_a_task_nobody_waits_for(session: Session) -> None:
    task = asyncio.create_task(session.use())
    await asyncio.wait([task], timeout=60)
    await asyncio.sleep(60)


async def under_a_timeout(session: Session) -> None:
    await asyncio.wait_for(session.use(), 60)


STEPS = [in_the_step, in_a_task, in_a_task_group, in_a_group_of_groups, in_a_task_nobody_waits_for, under_a_timeout]


@pytest.mark.parametrize("verb", ["pause", "cancel"])
@pytest.mark.parametrize("code", STEPS)
async def test_the_code_of_a_step_closes_what_it_has_opened(db: str, code: Callable[..., Any], verb: str) -> None:
    """R39: also in tasks that it has started, however they are waited for."""
    session = Session()

    @agent("opener")
    async def opener(run: Run[Nothing]) -> None:
        await code(session)

    async with under_way(db, opener, session.opened) as run:
        if verb == "cancel":
            receipt = await cancelled(run)
            assert receipt.residue == ()
        else:
            assert await run.pause()
            await held(run, "user")
        assert session.was_closed, session.seen


@pytest.mark.parametrize("code", STEPS)
async def test_tasks_of_a_tool_close_what_they_have_opened(db: str, code: Callable[..., Any]) -> None:
    """R39"""
    session = Session()

    @tool(effect="write", undo=nothing_to_take_back)
    async def opens() -> None:
        await code(session)

    async with under_way(db, one_call_of(opens), session.opened) as run:
        receipt = await cancelled(run)
        assert session.was_closed, session.seen
        assert receipt.residue == ()


async def test_a_step_closes_what_it_has_opened_after_its_tool_has(db: str) -> None:
    """R39: each has a time of its own, one after the other."""
    inner, outer = Session(), Session()

    @tool(effect="read")
    async def opens() -> None:
        await inner.use()

    @agent("opener")
    async def opener(run: Run[Nothing]) -> None:
        async with outer:
            await run.call(opens())

    async with under_way(db, opener, inner.opened) as run:
        receipt = await cancelled(run)
        assert inner.was_closed, inner.seen
        assert outer.was_closed, outer.seen
        assert receipt.residue == ()


async def test_clean_up_that_asks_the_gate_is_cancelled_again_at_once(db: str) -> None:
    """R39, R7: a refused call is not clean-up; what comes after it still is."""
    outer, begun = Session(), asyncio.Event()
    asked: list[str] = []

    @tool(effect="write")
    async def release() -> None:
        raise AssertionError

    @agent("asker")
    async def asker(run: Run[Nothing]) -> None:
        async with outer:
            try:
                begun.set()
                await asyncio.sleep(60)
            finally:
                try:
                    await run.call(release())
                except asyncio.CancelledError:
                    asked.append("cancelled")
                    raise

    async with under_way(db, asker, begun) as run:
        await cancelled(run)
        assert asked == ["cancelled"]
        assert outer.was_closed, outer.seen  # it would be disturbed if the call had used up the time
        assert await of_kind(run, CallStarted) == []


async def test_a_body_that_goes_on_after_its_cancellation_is_ended_after_its_grace(db: str) -> None:
    """R39, R7: swallowing one cancellation buys time, but no call and no result."""
    begun = asyncio.Event()
    seen: list[str] = []

    @tool(effect="read", grace=0.3)
    async def swallows() -> str:
        begun.set()
        for _ in range(2):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("swallowed")
        await asyncio.sleep(60)
        return "never"

    async with under_way(db, one_call_of(swallows), begun) as run:
        receipt = await cancelled(run)
        assert seen == ["swallowed", "swallowed"]
        assert outcomes(receipt) == {"swallows": "aborted"}
        assert receipt.residue == ()


async def test_clean_up_that_outlives_its_grace_is_still_running(db: str) -> None:
    """R39, R35: named, and never called aborted."""
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool(effect="read", grace=0.2)
    async def opens() -> None:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await deaf_until(let_go)

    async with under_way(db, one_call_of(opens), begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"opens": "still_running"}
        assert "opens is still running" in left_behind(receipt)
        let_go.set()


async def test_code_without_clean_up_settles_at_the_first_cancellation(db: str) -> None:
    """R39: no grace is waited out for nothing."""
    begun = asyncio.Event()

    @tool(effect="read", grace=LIMIT)
    async def hangs() -> None:
        begun.set()
        await asyncio.sleep(60)

    async with under_way(db, one_call_of(hangs), begun) as run:
        receipt = await cancelled(run)
        assert receipt.settled_at - receipt.accepted_at < LIMIT / 2


@pytest.mark.parametrize("where", ["tool", "step", "task"])
async def test_a_loop_that_stands_still_takes_no_time_from_clean_up(db: str, where: str) -> None:
    """R39: while other code blocks the loop, nobody can close anything; so that is no part of the grace."""
    session = Session()

    @tool(effect="read")
    async def opens() -> None:
        await session.use()

    @agent("opener")
    async def opener(run: Run[Nothing]) -> None:
        if where == "tool":
            await run.call(opens())
        elif where == "step":
            await session.use()
        else:
            await in_a_task(session)

    async with under_way(db, opener, session.opened) as run:
        assert isinstance(await run.cancel(), Accepted)
        await session.closing.wait()
        time.sleep(2.2)  # longer than the grace of tools and steps
        receipt = await settled(run)
        assert session.was_closed, session.seen
        assert receipt.residue == ()


# --- in threads --------------------------------------------------------------------------------------


class Closing:
    """A `finally` in a thread: what it saw, and whether it came to its end."""

    def __init__(self) -> None:
        self.begun, self.cleaning = threading.Event(), threading.Event()
        self.seen: list[str] = []
        self.closed = False

    def use(self) -> None:
        try:
            self.begun.set()
            while True:
                time.sleep(0.001)
        except BaseException as error:
            self.seen.append(type(error).__name__)
            raise
        finally:
            self._close()

    def _close(self) -> None:
        self.cleaning.set()
        try:
            end = time.monotonic() + CLEANING
            while time.monotonic() < end:
                time.sleep(0.001)
            self.closed = True
        except BaseException as error:
            self.seen.append(type(error).__name__)
            raise

    @property
    def was_closed(self) -> bool:
        return self.closed and self.seen == ["Stopped"]


@pytest.mark.parametrize("options", [{"effect": "read"}, {"effect": "write", "undo": nothing_to_take_back}], ids=named)
async def test_a_sync_tool_that_is_cut_runs_its_own_finally(db: str, options: dict[str, Any]) -> None:
    """R39: one exception is thrown into its thread, then it has its grace."""
    closing = Closing()

    @tool(**options)
    def opens() -> None:
        closing.use()

    async with under_way(db, one_call_of(opens), closing.begun) as run:
        receipt = await cancelled(run)
        assert closing.was_closed, closing.seen
        assert receipt.residue == ()


async def test_a_sync_tool_whose_time_is_up_runs_its_own_finally(db: str) -> None:
    """R39: and a stop that comes meanwhile throws nothing into it again."""
    closing = Closing()

    @tool(effect="read", timeout=0.2)
    def opens() -> None:
        closing.use()

    async with under_way(db, one_call_of(opens), closing.cleaning) as run:
        await cancelled(run)
        assert closing.was_closed, closing.seen
