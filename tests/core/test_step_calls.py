"""Calls of a step (R4, R14, R38): side by side, failing, asking, sleeping, children, and waiting for mail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.core.looking import status_is
from tests.core.remembering import Mem, wait_outside, world
from tests.helpers import eventually

from standfast import (
    CallFailed,
    CallTimedOut,
    ChildCancelled,
    Done,
    Idle,
    Run,
    Runtime,
    agent,
    ask,
    child,
    idempotency_key,
    sleep,
    tool,
)
from standfast.testing import lab

pytestmark = pytest.mark.usefixtures("fresh_worlds")


# --- call_all --------------------------------------------------------------------------------------


@tool(effect="read")
async def fetch(n: int) -> int:
    world.now_running += 1
    world.most_running = max(world.most_running, world.now_running)
    await asyncio.sleep(0.01)
    world.now_running -= 1
    if n == 3:
        raise ValueError("three is bad")
    return n * 10


@pytest.mark.parametrize(("limit", "most"), [(None, 6), (2, 2), (1, 1)])
async def test_call_all_keeps_order_and_limit_and_puts_failures_in_place(limit: int | None, most: int) -> None:
    """API: parallel, all ended on return; a failure does not cost the others their results."""

    @agent("gatherer")
    async def gatherer(run: Run[Mem]) -> Done[list[Any]]:
        found = await run.call_all([fetch(n) for n in range(6)], limit=limit)
        assert world.now_running == 0
        return Done([r if isinstance(r, int) else (type(r).__name__, r.type, r.message) for r in found])

    async with lab([gatherer]) as runs:
        run = await runs.start(gatherer, Mem())
        assert await run.result() == [0, 10, 20, ["CallFailed", "ValueError", "three is bad"], 40, 50]
        assert world.most_running == most


async def test_call_all_of_nothing_and_of_equal_calls() -> None:
    """Ruling: identical parallel calls are told apart by their n-th occurrence."""

    @tool
    async def draw() -> str:
        return idempotency_key()

    @agent("equal")
    async def equal(run: Run[Mem]) -> Done[list[Any]]:
        assert await run.call_all([]) == []
        return Done(list(await run.call_all([draw(), draw(), draw()])))

    async with lab([equal]) as runs:
        keys = await (await runs.start(equal, Mem())).result()
        assert len(set(keys)) == 3


async def test_call_all_after_a_crash_repeats_only_what_had_not_ended() -> None:
    """R4: journaled siblings keep their results."""

    @tool
    async def effect(n: int) -> int:
        world.seen.append(n)
        return n

    @agent("half")
    async def half(run: Run[Mem]) -> Done[int]:
        await run.call_all([effect(1), effect(2)])
        await run.call(wait_outside())
        return Done(len(world.seen))

    async with lab([half]) as runs:
        run = await runs.start(half, Mem())
        await runs.until(run, call="wait_outside")
        await runs.crash()
        world.door.set()
        assert await run.result() == 2
        assert sorted(world.seen) == [1, 2]


# --- failures are the same twice ------------------------------------------------------------------------


async def test_a_failed_call_raises_the_same_on_the_first_try_and_on_replay() -> None:
    """Ruling: the step gets CallFailed with type, message and call, also after a crash."""

    @tool
    async def fragile() -> None:
        world.seen.append("tried")
        raise KeyError("gone")

    @agent("brave")
    async def brave(run: Run[Mem]) -> Done[list[Any]]:
        try:
            await run.call(fragile())
        except CallFailed as error:
            world.seen.append((error.type, error.message, error.call))
        await run.call(wait_outside())
        return Done([])

    async with lab([brave]) as runs:
        run = await runs.start(brave, Mem())
        await runs.until(run, call="wait_outside")
        await runs.crash()
        world.door.set()
        await run.result()
        first, second = [s for s in world.seen if isinstance(s, tuple)]
        assert first == second
        assert first[0] == "KeyError"
        assert first[2].startswith("fragile-")
        assert world.seen.count("tried") == 1


async def test_a_read_that_failed_is_issued_again_after_an_error_and_a_resume() -> None:
    """Ruling: read, idempotent, model: journaled, issued again on resume after paused(error)."""

    @tool(effect="read")
    async def flaky() -> int:
        world.seen.append("tried")
        if len(world.seen) == 1:
            raise ConnectionError("down")
        return 5

    @agent("patient")
    async def patient(run: Run[Mem]) -> Done[int]:
        return Done(await run.call(flaky()))

    async with lab([patient]) as runs:
        run = await runs.start(patient, Mem())
        view = await status_is(run, "paused")
        assert view.holds == ("error",)
        assert "down" in view.error
        await run.resume()
        assert await run.result(timeout=120) == 5


async def test_a_call_that_takes_too_long_is_cut() -> None:
    @tool(effect="read", timeout=0.05)
    async def slow() -> None:
        await asyncio.Event().wait()

    @agent("hurried")
    async def hurried(run: Run[Mem]) -> Done[str]:
        with pytest.raises(CallTimedOut):
            await run.call(slow())
        return Done("cut")

    async with Runtime(":memory:", agents=[hurried]) as runs:
        assert await (await runs.start(hurried, Mem())).result(timeout=120) == "cut"


# --- ask, sleep, child ----------------------------------------------------------------------------------


@agent("asker")
async def asker(run: Run[Mem]) -> Done[int]:
    return Done(await run.call(ask("How many?", [1, 2, 3], type=int, timeout=60, default=2)))


async def test_a_question_is_answered_by_a_choice_as_it_was_given() -> None:
    async with lab([asker]) as runs:
        run = await runs.start(asker, Mem())
        (need,) = (await status_is(run, "paused")).needs
        assert (need.kind, need.text, need.choices) == ("question", "How many?", (1, 2, 3))
        assert await run.choose(need, need.choices[2])
        assert await run.result() == 3


async def test_a_question_nobody_answers_gets_its_default_when_time_is_up() -> None:
    async with lab([asker]) as runs:
        run = await runs.start(asker, Mem())
        await status_is(run, "paused")
        await runs.clock.advance(61)
        assert await run.result(timeout=120) == 2


async def test_a_question_without_default_fails_when_time_is_up() -> None:
    @agent("strict")
    async def strict(run: Run[Mem]) -> Done[str]:
        try:
            return Done(await run.call(ask("Well?", timeout=60)))
        except CallTimedOut as error:
            return Done(error.type)

    async with lab([strict]) as runs:
        run = await runs.start(strict, Mem())
        await status_is(run, "paused")
        await runs.clock.advance(61)
        assert await run.result(timeout=120) == "CallTimedOut"


async def test_sleep_ends_when_its_time_has_come_also_over_pause_and_crash() -> None:
    """A pause or crash in between does not make it longer."""

    @agent("sleeper")
    async def sleeper(run: Run[Mem]) -> Done[float]:
        await run.call(sleep(100))
        return Done(run.now())

    async with lab([sleeper]) as runs:
        began = runs.clock.now()
        run = await runs.start(sleeper, Mem())
        await runs.until(run, call="sleep")
        await run.pause()
        await status_is(run, "paused")
        await runs.clock.advance(40)
        await run.resume()
        await status_is(run, "running")
        await runs.crash()
        await runs.clock.advance(40)
        assert (await run.view()).status in ("running", "queued")

        async def awake() -> bool:
            await runs.clock.advance(1)
            return (await run.view()).status == "done"

        await eventually(awake)
        assert 100 <= await run.result() - began <= 130


@agent("worker")
async def worker(run: Run[Mem]) -> Done[int]:
    await run.call(wait_outside())
    return Done(run.state.n * 2)


@agent("boss")
async def boss(run: Run[Mem]) -> Done[Any]:
    try:
        return Done(await run.call(child(worker, Mem(n=21))))
    except ChildCancelled:
        return Done("cancelled")


async def test_a_child_run_gives_its_result() -> None:
    async with lab([boss, worker]) as runs:
        run = await runs.start(boss, Mem())
        world.door.set()
        assert await run.result(timeout=120) == 42
        (made,) = await runs.list(agent="worker")
        assert (made.parent, made.status) == (run.id, "done")


async def test_a_child_is_paused_and_resumed_with_its_parent() -> None:
    async with lab([boss, worker]) as runs:
        run = await runs.start(boss, Mem())
        (made,) = await eventually(lambda: runs.list(agent="worker", status="running"))
        await run.pause()
        kid = runs.handle(made.id)
        await status_is(run, "paused")
        await status_is(kid, "paused")
        world.door.set()
        await run.resume()
        assert await run.result(timeout=120) == 42


async def test_a_child_cancelled_alone_raises_in_its_parent() -> None:
    async with lab([boss, worker]) as runs:
        run = await runs.start(boss, Mem())
        (made,) = await eventually(lambda: runs.list(agent="worker", status="running"))
        await runs.handle(made.id).cancel()
        assert await run.result(timeout=120) == "cancelled"


async def test_a_crash_finds_the_same_child_again() -> None:
    async with lab([boss, worker]) as runs:
        run = await runs.start(boss, Mem())
        await eventually(lambda: runs.list(agent="worker", status="running"))
        await runs.crash()
        world.door.set()
        assert await run.result(timeout=120) == 42
        assert len(await runs.list(agent="worker")) == 1


# --- Idle ----------------------------------------------------------------------------------------------


@agent("listener")
async def listener(run: Run[Mem]) -> Done[list[str]] | Idle:
    run.state.seen += [m.text for m in run.take_messages()]
    return Done(run.state.seen) if "stop" in run.state.seen else Idle()


async def test_an_idle_run_waits_for_mail_and_costs_no_driver() -> None:
    """R38: paused(waiting) has no holder; each message gives one turn; it outlives a crash."""
    async with lab([listener]) as runs:
        run = await runs.start(listener, Mem())
        view = await status_is(run, "paused")
        assert (view.holds, view.driver, view.needs) == (("waiting",), "", [])
        await run.message("hello")

        async def heard() -> bool:
            view = await run.view()
            return view.status == "paused" and view.step == 2

        await eventually(heard)
        await runs.crash()
        await run.message("stop")
        assert await run.result(timeout=120) == ["hello", "stop"]


async def test_mail_to_an_idle_run_that_a_person_paused_does_not_wake_it() -> None:
    async with lab([listener]) as runs:
        run = await runs.start(listener, Mem())
        await status_is(run, "paused")
        await run.pause()
        await run.message("stop")
        assert (await run.view()).holds == ("user",)
        await run.resume()
        assert await run.result(timeout=120) == ["stop"]
