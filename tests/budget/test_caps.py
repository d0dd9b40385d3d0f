"""Nothing runs away: a cap pauses and asks, raising it resumes, no work is lost (R17)."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from tests.budget.world import Loop, World, a_world, looper, putter, streamer, use_up
from tests.helpers import eventually, held

from standfast import Budget, Choice, Handle, Misuse, Refused, Run, RunCancelled, agent, tool
from standfast.testing import lab


@pytest.mark.parametrize(
    ("budget", "state", "calls"),
    [
        (Budget(steps=3), Loop(steps=5), 3),
        (Budget(calls=3), Loop(steps=1, calls=5), 3),
        (Budget(tokens=60), Loop(steps=5, tokens=10), 3),
        (Budget(cost=0.3), Loop(steps=5, cost=0.1), 3),
    ],
)
async def test_a_cap_pauses_and_raising_it_goes_on_without_repeating(budget: Budget, state: Loop, calls: int) -> None:
    async with a_world() as (runs, world):
        run = await runs.start(looper, state, budget=budget)
        view = await held(run, "budget")
        assert len(world.calls) == calls
        (need,) = view.needs
        assert need.kind == "budget"
        (name,) = [n for n in ("steps", "calls", "tokens", "cost") if getattr(budget, n) is not None]
        assert name in need.text
        assert getattr(view.spent, name) == pytest.approx(getattr(budget, name))
        assert getattr(view.budget, name) == getattr(budget, name)

        assert isinstance(await run.resume(), Refused)
        assert isinstance(await run.resume(budget=Budget(**{name: getattr(budget, name)})), Refused)
        assert await run.resume(budget=Budget(**{name: 1000}))
        await run.result(timeout=120)
        assert world.calls == [f"use_up {n}" for n in range(5)]


async def test_the_choice_of_a_budget_need_can_be_sent_back_as_it_is() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(looper, Loop(steps=5), budget=Budget(steps=3))
        (need,) = (await held(run, "budget")).needs
        raise_it = next(c for c in need.choices if isinstance(c, Choice) and c.verb == "resume")
        assert await run.choose(need, raise_it)
        await run.result(timeout=120)
        assert len(world.calls) == 5


async def test_a_refused_resume_offers_a_choice_that_works() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(looper, Loop(steps=5), budget=Budget(steps=3))
        view = await held(run, "budget")
        refused = await run.resume()
        assert isinstance(refused, Refused)
        raise_it = next(c for c in refused.choices if c.verb == "resume")
        assert await run.choose(view.needs[0], raise_it)
        await run.result(timeout=120)
        assert len(world.calls) == 5


async def test_seconds_are_running_time_and_pauses_do_not_count() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(looper, Loop(steps=3, calls=2, seconds=20), budget=Budget(seconds=50))
        await runs.until(run, call="sleep")
        await runs.clock.advance(10)
        await run.pause()
        await run.settled(10)
        await runs.clock.advance(3600)
        spent = (await run.view()).spent.seconds
        assert spent <= 20
        await run.resume()
        view = await _run_until_held(runs, run)
        assert len(world.calls) == 3  # 20 s each: 60 s are over the cap, a fourth call does not begin
        assert 50 <= view.spent.seconds <= 70
        await run.resume(budget=Budget(seconds=1000))
        await _run_until_held(runs, run)
        assert len(world.calls) == 6


async def test_the_time_that_led_to_the_hold_is_in_what_was_spent() -> None:
    """Also the time of the agent's own code, which no call has counted."""
    over = asyncio.Event()

    @agent("ponderer")
    async def ponderer(run: Run[Loop]) -> None:
        await run.call(use_up(0, 0, 0.0))
        await over.wait()
        await run.call(use_up(1, 0, 0.0))

    world = World()
    async with lab([ponderer], provide={World: world}) as runs:
        run = await runs.start(ponderer, Loop(), budget=Budget(seconds=50))
        await eventually(lambda: world.calls)
        await runs.clock.advance(60)
        over.set()
        view = await held(run, "budget")
        assert 60 <= view.spent.seconds <= 61
        assert world.calls == ["use_up 0"]


async def test_a_run_that_does_not_reach_its_cap_is_not_held() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(looper, Loop(steps=3, calls=2), budget=Budget(steps=3, calls=6))
        assert await run.result(timeout=120) == 2


async def test_spending_survives_a_crash() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(looper, Loop(steps=9, tokens=10, calls=2), budget=Budget(tokens=100))
        await runs.until(run, call="use_up", point="recorded")
        await runs.crash()
        view = await held(run, "budget")
        assert view.spent.tokens == 100
        assert len(world.calls) in (5, 6)  # one may have been repeated: its spending was not recorded


async def test_what_a_call_spends_is_counted_while_it_still_runs() -> None:
    """R17: the meter of a long stream moves, and a cut stream has cost what it cost."""
    async with a_world() as (runs, _):
        run = await runs.start(streamer, Loop())
        await eventually(lambda: _tokens(run, 30))
        await run.pause()
        assert (await run.settled(10)).usage.tokens == 30


async def test_a_cap_may_cancel_instead_and_undoes_like_any_cancel() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(putter, Loop(steps=1, calls=9), budget=Budget(calls=3, then="cancel"))
        with pytest.raises(RunCancelled) as info:
            await run.result(timeout=120)
        assert info.value.receipt.trigger == "budget"
        assert "calls" in info.value.receipt.reason
        assert len(world.calls) == 3
        assert world.undone == 3


async def test_a_budget_given_to_start_changes_only_what_it_names() -> None:
    """R17: an agent whose caps cancel does so too when one of them is set for this run."""

    @agent("careful", budget=Budget(steps=7, calls=9, then="cancel"))
    async def careful(run: Run[Loop]) -> None:
        await run.call(use_up(0, 0, 0.0))

    async with lab([careful], provide={World: World()}) as runs:
        run = await runs.start(careful, Loop(), budget=Budget(calls=2))
        assert (await run.view()).budget == Budget(steps=7, calls=2, then="cancel")
        with pytest.raises(RunCancelled):
            await run.result(timeout=120)
        asks = await runs.start(careful, Loop(), budget=Budget(calls=1, then="pause"))
        await held(asks, "budget")
        await asks.resume(budget=Budget(calls=3))
        await eventually(lambda: _held_after(asks, 3))
        assert (await asks.view()).budget == Budget(steps=7, calls=3, then="pause")


async def test_a_resume_that_waits_for_a_pause_changes_only_what_it_names() -> None:
    """R17: what a noted resume did not say is still not said when it is taken."""
    begun, door = asyncio.Event(), asyncio.Event()

    @tool
    async def put_down() -> None:
        begun.set()
        await door.wait()

    @agent("careful", budget=Budget(calls=9, then="cancel"), tools=[put_down])
    async def careful(run: Run[Loop]) -> None:
        await run.call(put_down())

    async with lab([careful]) as runs:
        run = await runs.start(careful, Loop())
        await begun.wait()
        await run.pause()
        assert (await run.view()).status == "pausing"
        assert await run.resume(budget=Budget(calls=2))
        door.set()
        with pytest.raises(RunCancelled):
            await run.result(timeout=120)
        assert (await run.view()).budget == Budget(calls=2, then="cancel")


async def test_a_cap_pauses_unless_it_says_otherwise() -> None:
    """R17."""
    assert Budget().then == "pause"
    assert Budget() == Budget(then="pause")
    async with a_world() as (runs, _):
        run = await runs.start(looper, Loop(steps=3))
        assert (await run.view()).budget == Budget(steps=1000, then="pause")


@pytest.mark.parametrize(
    ("cap", "allowed"),
    [
        ({"steps": -1}, "0 or more"),
        ({"steps": 2.5}, "whole"),
        ({"calls": True}, "whole"),
        ({"tokens": "1000"}, "whole"),
        ({"repeats": -2}, "0 or more"),
        ({"cost": "much"}, "number"),
        ({"cost": math.nan}, "number"),
        ({"cost": math.inf}, "number"),
        ({"seconds": -0.1}, "0 or more"),
        ({"seconds": "1"}, "number"),
        ({"then": "explode"}, '"pause" or "cancel"'),
    ],
    ids=str,
)
def test_a_budget_that_makes_no_sense_is_refused_where_it_is_written(cap: dict[str, Any], allowed: str) -> None:
    (name,) = cap
    with pytest.raises(Misuse, match=name) as caught:
        Budget(**cap)
    assert allowed in caught.value.hint


async def test_a_cap_of_nothing_lets_nothing_pass() -> None:
    async with a_world() as (runs, world):
        for caps in (Budget(steps=0), Budget(calls=0), Budget(tokens=0), Budget(cost=0), Budget(seconds=0)):
            await held(await runs.start(looper, Loop(steps=3), budget=caps), "budget")
        assert world.calls == []


async def _run_until_held(runs: object, run: object) -> object:
    for _ in range(200):
        view = await run.view()  # type: ignore[attr-defined]
        if view.status in ("paused", "done"):
            return view
        await runs.clock.advance(1)  # type: ignore[attr-defined]
    raise AssertionError(view)


async def _tokens(run: object, wanted: int) -> bool:
    return (await run.view()).spent.tokens == wanted  # type: ignore[attr-defined]


async def _held_after(run: Handle[Any], calls: int) -> bool:
    view = await run.view()
    return view.status == "paused" and view.spent.calls == calls
