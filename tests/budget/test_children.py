"""What children spend counts into every ancestor (R17)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.budget.world import Loop, World, a_world, grandparent, looper, parent
from tests.helpers import eventually, held

from standfast import Agent, Budget, Done, Run, RunCancelled, agent, child
from standfast.testing import lab


async def test_spending_of_children_counts_into_every_ancestor() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(grandparent, Loop(steps=2, calls=3, tokens=10, cost=0.5, children=2))
        await run.result(timeout=120)
        views = {v.agent: v.spent for v in await runs.list()}
        assert views["looper"].tokens == 120
        assert views["parent"].tokens == views["grandparent"].tokens == 240
        assert views["grandparent"].cost == pytest.approx(6.0)
        assert views["looper"].calls == 6
        assert views["parent"].calls == 2 + 12
        assert views["grandparent"].calls == 1 + 2 + 12


async def test_a_child_stops_at_its_ancestors_cap_and_raising_it_there_goes_on() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(grandparent, Loop(steps=20, tokens=5, children=1), budget=Budget(tokens=50))
        view = await held(run, "budget")
        assert view.spent.tokens == 50
        assert len(world.calls) == 5
        (need,) = view.needs
        assert "tokens" in need.text
        assert {v.status for v in await runs.list()} == {"paused"}
        assert await run.resume(budget=Budget(tokens=10_000))
        assert await run.result(timeout=120) == [19]
        assert len(world.calls) == 20


async def test_parallel_children_share_their_parents_cap() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(parent, Loop(steps=100, tokens=5, children=2), budget=Budget(tokens=100))
        await held(run, "budget")
        assert 10 <= len(world.calls) <= 12  # a call in flight may overshoot


async def test_a_parents_cap_may_cancel_the_whole_family() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(parent, Loop(steps=100, tokens=5, children=1), budget=Budget(tokens=50, then="cancel"))
        with pytest.raises(RunCancelled) as info:
            await run.result(timeout=120)
        assert info.value.receipt.trigger == "budget"
        assert {v.status for v in await runs.list()} == {"cancelled"}
        assert len(world.calls) == 5


async def test_a_child_resumed_alone_stops_again_at_the_cap_of_its_paused_parent() -> None:
    """R17: the cap holds whatever holds the run it belongs to."""
    async with a_world() as (runs, world):
        run = await runs.start(parent, Loop(steps=20, tokens=5, children=1), budget=Budget(tokens=50))
        await held(run, "budget")
        (kid,) = [runs.handle(v.id) for v in await runs.list() if v.agent == "looper"]
        await held(kid, "user")
        before = (await kid.view()).seq
        assert await kid.resume()

        async def held_again() -> bool:
            view = await kid.view()
            return view.status == "paused" and view.seq > before + 2

        await eventually(held_again)
        assert len(world.calls) == 5
        await held(run, "budget")
        assert await run.resume(budget=Budget(tokens=10_000))
        assert await run.result(timeout=120) == [19]


@pytest.mark.parametrize("kind", [parent, grandparent])
async def test_what_cancelled_children_have_spent_is_in_view_and_receipt(kind: Agent[Loop, list[Any]]) -> None:
    """R17: money that is gone does not come back by a cancel."""
    async with a_world() as (runs, world):
        run = await runs.start(kind, Loop(steps=100, tokens=5, cost=0.5, children=2), budget=Budget(tokens=50))
        await held(run, "budget")
        before = (await run.view()).spent
        assert before.tokens == 10 * len(world.calls)
        await run.cancel()
        receipt = await run.settled(10)
        after = (await run.view()).spent
        for spent in (after, receipt.usage):
            assert (spent.tokens, spent.calls, spent.cost) == (before.tokens, before.calls, pytest.approx(before.cost))


async def test_what_a_child_that_was_given_up_has_spent_is_still_counted() -> None:
    """R17: a redirect does not turn the meter back."""

    @agent("giver")
    async def giver(run: Run[Loop]) -> Done[None] | None:
        if run.step == 0 and not run.take_redirects():
            await run.call(child(looper, Loop(steps=3, tokens=5, seconds=3600)))
        if run.step == 1:
            await run.call(child(looper, Loop(steps=1, tokens=5)))
        return Done(None) if run.step == 1 else None

    world = World()
    async with lab([giver, looper], provide={World: world}) as runs:
        run = await runs.start(giver, Loop())
        await eventually(lambda: world.calls)
        await run.redirect("not so", when="now")
        await run.result(timeout=120)
        view = await run.view()
        assert (view.spent.tokens, len(world.calls)) == (20, 2)
