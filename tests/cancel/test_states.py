"""Cancelling runs that are not running, and cancels that nobody typed: deadlines and budgets (R6, R11, R17)."""

import asyncio
import time

import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, endless_calls_of, of_kind, outcomes, settled, under_way
from tests.helpers import eventually

from standfast import Accepted, Budget, Done, Run, RunCancelled, Runtime, TooLate, agent, ask, sleep, spend, tool
from standfast.events import CallStarted, MailReturned
from standfast.testing import lab


@tool(effect="read")
async def hang() -> None:
    await asyncio.sleep(60)


@agent("hanger")
async def hanger(run: Run[Nothing]) -> Done[str]:
    await run.call(hang())
    return Done("never")


async def in_flight(run: object, name: str) -> None:
    async def look() -> bool:
        return name in [ref.tool for ref in (await run.view()).in_flight]  # type: ignore[attr-defined]

    await eventually(look)


async def test_cancel_of_a_run_that_has_not_started_is_settled_at_once(db: str) -> None:
    """DESIGN, verb table: queued -> cancelled; nothing of it ever runs."""
    async with Runtime(db, agents=[hanger], concurrency=1) as runs:
        first = await runs.start(hanger, Nothing())
        await in_flight(first, "hang")
        second = await runs.start(hanger, Nothing())
        assert (await second.view()).status == "queued"
        answer = await second.cancel(by="ann", reason="not needed")
        assert isinstance(answer, Accepted)
        assert answer.in_flight == ()
        assert (await second.view()).status == "cancelled"
        receipt = await settled(second)
        assert (receipt.finished_steps, receipt.in_flight, receipt.usage.calls) == (0, (), 0)
        await cancelled(first)
        await asyncio.sleep(0.05)
        assert await of_kind(second, CallStarted) == []


async def test_a_run_without_a_driver_is_cancelled_by_a_process_without_its_code(db: str) -> None:
    """RULINGS: cancelled at once if nothing is in flight or to undo."""
    async with Runtime(db, agents=[hanger], concurrency=1) as runs:
        run = await runs.start(hanger, Nothing(), id="r1")
        await in_flight(run, "hang")
        await run.pause()
        await run.settled()
    async with Runtime(db, drive=False) as control:
        run = control.handle("r1")
        assert await run.cancel(undo="all")
        assert (await settled(run)).status == "cancelled"


async def test_cancel_of_a_paused_run_undoes_the_step_it_was_held_in(db: str) -> None:
    """DESIGN, verb table: paused -> cancelling -> cancelled; the step in flight is undone."""
    undone: list[str] = []

    async def take_back(_: object) -> None:
        undone.append("draft")

    @tool(effect="write", undo=take_back)
    async def draft() -> None: ...

    @agent("drafter")
    async def drafter(run: Run[Nothing]) -> None:
        await run.call(draft())
        await run.call(hang())

    async with Runtime(db, agents=[drafter]) as runs:
        run = await runs.start(drafter, Nothing())
        await in_flight(run, "hang")
        await run.pause()
        assert (await run.settled(timeout=LIMIT)).status == "paused"
        await run.message("never read")
        receipt = await cancelled(run)
        assert undone == ["draft"]
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert [m.reason for m in await of_kind(run, MailReturned)] == ["cancelled"]


async def test_cancel_withdraws_what_the_run_asks(db: str) -> None:
    """R11: a question of a cancelled run is nobody's need any more; its answer is too late."""

    @agent("asker")
    async def asker(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(ask("really?")))

    async with Runtime(db, agents=[asker]) as runs:
        run = await runs.start(asker, Nothing())

        async def asked() -> object:
            view = await run.view()
            return view.needs if view.status == "paused" else ()

        (need,) = await eventually(asked)
        await cancelled(run)
        assert (await run.view()).needs == []
        answer = await run.answer(need.id, "yes")
        assert isinstance(answer, TooLate) or not answer


async def test_a_deadline_cancels_with_its_own_trigger(db: str) -> None:
    """R31: who, when, why: a deadline is not a person."""
    async with Runtime(db, agents=[hanger]) as runs:
        run = await runs.start(hanger, Nothing(), deadline=time.time() + 0.3)
        receipt = await settled(run)
        assert receipt.trigger == "deadline"
        assert receipt.by is None
        assert "deadline" in receipt.reason
        assert outcomes(receipt) == {"hang": "aborted"}


async def test_a_deadline_cancels_a_queued_run_before_it_begins(db: str) -> None:
    """The same for a run that still waits for a place."""
    async with Runtime(db, agents=[hanger], concurrency=1) as runs:
        blocker = await runs.start(hanger, Nothing())
        await in_flight(blocker, "hang")
        queued = await runs.start(hanger, Nothing(), deadline=time.time() + 0.1)
        receipt = await settled(queued)
        assert receipt.trigger == "deadline"
        assert receipt.usage.calls == 0
        await cancelled(blocker)


async def test_a_deadline_cancels_a_paused_run(db: str) -> None:
    """The same for a run that is held: a pause does not stop the clock on the wall."""
    async with Runtime(db, agents=[hanger]) as runs:
        run = await runs.start(hanger, Nothing(), deadline=time.time() + 0.5)
        await run.pause()
        assert (await run.settled(timeout=LIMIT)).status == "paused"

        async def is_cancelled() -> bool:
            return (await run.view()).status == "cancelled"

        await eventually(is_cancelled)
        assert (await settled(run)).trigger == "deadline"


async def test_a_budget_that_cancels_says_so(db: str) -> None:
    """R17: Budget(then="cancel"): the trigger is the budget, the finished work is kept."""

    @tool(effect="read")
    async def costly() -> None:
        spend(input_tokens=60)

    @agent("spender", budget=Budget(tokens=100, then="cancel"))
    async def spender(run: Run[Nothing]) -> None:
        await run.call(costly())

    async with Runtime(db, agents=[spender]) as runs:
        run = await runs.start(spender, Nothing())
        with pytest.raises(RunCancelled) as error:
            await run.result(timeout=LIMIT)
        receipt = error.value.receipt
        assert receipt.trigger == "budget"
        assert "tokens" in receipt.reason
        assert receipt.finished_steps == 2
        assert receipt.usage.tokens == 120
        assert receipt.asked_at <= receipt.accepted_at <= receipt.settled_at
        assert receipt.calls_after_cancel == 0


@pytest.mark.parametrize("ends", [True, False], ids=["done", "asks"])
async def test_the_receipt_of_a_run_that_nobody_stopped_has_the_times_of_its_own_end(ends: bool) -> None:
    """R9: read again later, it says the same, and nothing has settled before it was accepted."""

    @agent("stops by itself")
    async def by_itself(run: Run[Nothing]) -> Done[str]:
        return Done("by itself" if ends else await run.call(ask("Go on?")))

    async with lab([by_itself]) as runs:
        run = await runs.start(by_itself, Nothing())
        first = await run.settled(timeout=LIMIT)
        await runs.clock.advance(60)
        again = await run.settled()
        assert first.asked_at == first.accepted_at == first.settled_at
        assert (again.asked_at, again.settled_at) == (first.asked_at, first.settled_at)


async def test_a_sleeping_run_is_cancelled_at_once() -> None:
    """R6: sleep() is a call like any other: cut, not waited for."""

    @agent("sleeper")
    async def sleeper(run: Run[Nothing]) -> None:
        await run.call(sleep(3600))

    async with lab([sleeper]) as runs:
        run = await runs.start(sleeper, Nothing())
        await runs.until(run, call="sleep")
        receipt = await cancelled(run)
        assert set(outcomes(receipt).values()) == {"aborted"}


async def test_verbs_on_a_cancelling_run_are_too_late(db: str) -> None:
    """DESIGN, verb table: from cancelling only cancelled."""
    begun, may_end = asyncio.Event(), asyncio.Event()

    @tool(effect="write", grace=10)
    async def send() -> None:
        begun.set()
        await may_end.wait()

    async with under_way(db, endless_calls_of(send), begun) as run:
        await run.cancel()
        assert await run.pause() == TooLate("cancelling")
        assert await run.resume() == TooLate("cancelling")
        assert await run.redirect("other") == TooLate("cancelling")
        assert await run.message("other") == TooLate("cancelling")
        assert await run.rewind(0) == TooLate("cancelling")
        assert isinstance(await run.cancel(), Accepted)
        may_end.set()
        await settled(run)
