"""Loops longer than one call are noticed, and it is said what repeats (R17)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import Budget, Done, Handle, Idle, LLMAgent, Run, RunCancelled, agent, ask, models, sleep, tool, use
from standfast.loops import LONGEST, Rounds, before_call, called
from standfast.models import use as use_tool
from standfast.testing import Lab, lab


class World:
    def __init__(self) -> None:
        self.looks: list[str] = []
        self.find = ""  # what looking finds; nothing: the same as ever


class Search(BaseModel):
    places: list[str] = []
    rounds: int = 1000
    at: int = 0
    side: bool = False
    pause: float = 0.0


@tool(effect="read")
async def look(place: str) -> str:
    world = use(World)
    world.looks.append(place)
    return world.find or f"nothing in {place}"


@tool(effect="read")
async def open_door(door: str) -> str:
    use(World).looks.append(door)
    return "closed"


@agent("searcher")
async def searcher(run: Run[Search]) -> Done[str] | None:
    """Looks at one place a step, round and round."""
    state = run.state
    found = await run.call(look(state.places[state.at % len(state.places)]))
    state.at += 1
    if state.pause:
        await run.call(sleep(state.pause))
    return Done(found) if found == "it" or state.at >= state.rounds * len(state.places) else None


@agent("visitor")
async def visitor(run: Run[Search]) -> None:
    """Two different tools in every step."""
    await run.call(look("hall"))
    await run.call(open_door("front"))


@agent("wobbler")
async def wobbler(run: Run[Search]) -> Done[int] | None:
    """Thinks this, then that, and does nothing."""
    run.state.side = not run.state.side
    return Done(run.step) if run.step > 40 else None


@agent("stander")
async def stander(run: Run[Search]) -> None:
    """Does nothing at all, again and again."""


@agent("asker")
async def asker(run: Run[Search]) -> Done[str] | None:
    return Done("yes") if await run.call(ask("Now?")) == "yes" else None


@agent("listener")
async def listener(run: Run[Search]) -> Idle | Done[int]:
    """Its state is the same after every message but the last."""
    return Done(run.step) if any(m.text == "enough" for m in run.take_messages()) else Idle()


@asynccontextmanager
async def a_world(*more: Any) -> AsyncIterator[tuple[Lab, World]]:
    world = World()
    agents = [searcher, visitor, wobbler, stander, asker, listener, *more]
    async with lab(agents, provide={World: world}) as runs:
        yield runs, world


async def test_two_calls_that_alternate_hold_the_run_and_are_named() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["attic", "cellar"]), budget=Budget(repeats=5))
        view = await held(run, "loop")
        (need,) = view.needs
        assert need.text == "look(place='attic') and look(place='cellar') alternate with the same results, 5 times"
        assert len(world.looks) == 10


async def test_two_tools_that_alternate_are_a_loop_too() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(visitor, Search(), budget=Budget(repeats=3))
        (need,) = (await held(run, "loop")).needs
        assert need.text == "look(place='hall') and open_door(door='front') alternate with the same results, 3 times"
        assert len(world.looks) == 6


async def test_a_longer_round_is_a_loop_too() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["a", "b", "c"]), budget=Budget(repeats=4))
        (need,) = (await held(run, "loop")).needs
        assert need.text == (
            "look(place='a'), look(place='b') and look(place='c') go round with the same results, 4 times"
        )
        assert len(world.looks) == 12


async def test_so_many_rounds_and_no_more_are_no_loop() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["a", "b"], rounds=5), budget=Budget(repeats=5))
        assert await run.result(timeout=120) == "nothing in b"
        assert len(world.looks) == 10


async def test_a_round_that_finds_something_else_begins_the_count_anew() -> None:
    async with a_world() as (runs, world):
        places = ["a", "b", "a", "b", "a", "c"]
        run = await runs.start(searcher, Search(places=places, rounds=1), budget=Budget(repeats=3))
        assert await run.result(timeout=120)
        assert world.looks == places


async def test_the_choice_that_is_offered_lets_the_run_go_on() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["a", "b"]), budget=Budget(repeats=3))
        (need,) = (await held(run, "loop")).needs
        assert await run.choose(need, need.choices[0])
        view = await held(run, "loop")
        assert view.budget.repeats == 6
        assert len(world.looks) == 6 + 12
        world.find = "it"
        await run.resume()
        assert await run.result(timeout=120) == "it"


async def test_a_loop_is_remembered_over_a_crash() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["a", "b"]), budget=Budget(repeats=6))
        for _ in range(3):
            await runs.until(run, call="look", point="recorded")
        await runs.crash()
        await held(run, "loop")
        assert 12 <= len(world.looks) <= 13  # a read that the crash caught is repeated


async def test_a_loop_may_cancel_instead() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["a", "b"]), budget=Budget(repeats=3, then="cancel"))
        with pytest.raises(RunCancelled) as info:
            await run.result(timeout=120)
        assert info.value.receipt.trigger == "budget"
        assert "alternate" in info.value.receipt.reason
        assert len(world.looks) == 6


async def test_without_a_cap_nothing_is_a_loop() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["a", "b"], rounds=30))
        assert await run.result(timeout=120)
        assert len(world.looks) == 60


async def test_looking_again_after_a_while_is_polling_not_a_loop() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(searcher, Search(places=["a"], rounds=12, pause=1.0), budget=Budget(repeats=3))

        async def over() -> bool:
            await runs.clock.advance(1)
            return (await run.view()).status in ("done", "paused")

        await eventually(over)
        assert await run.result(timeout=120)
        assert len(world.looks) == 12


# --- steps that do nothing ---------------------------------------------------------------------------


async def test_two_states_that_alternate_without_a_call_hold_the_run() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(wobbler, Search(), budget=Budget(repeats=5))
        (need,) = (await held(run, "loop")).needs
        assert need.text == "the state goes round 2 values, 5 times, in steps that call nothing"
        assert (await run.view()).step == 10
        await run.resume()
        await eventually(lambda: _moved(run, 19))
        assert (await held(run, "loop")).step == 20


async def test_steps_that_change_nothing_hold_the_run() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(stander, Search(), budget=Budget(repeats=4))
        (need,) = (await held(run, "loop")).needs
        assert "4 steps in a row" in need.text
        assert (await run.view()).step == 4


async def test_a_person_who_gives_the_same_answer_again_is_no_loop() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(asker, Search(), budget=Budget(repeats=2))
        for word in ("no", "no", "no", "no", "yes"):
            (need,) = (await held(run, "asks")).needs
            assert await run.answer(need.id, word)
        assert await run.result(timeout=120) == "yes"


async def test_a_run_that_reads_its_mail_is_no_loop() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(listener, Search(), budget=Budget(repeats=2))
        for _ in range(9):
            step = (await held(run, "waiting")).step
            assert await run.message("hello")
            await eventually(lambda step=step: _moved(run, step))
        assert await run.message("enough")
        assert await run.result(timeout=120) >= 9


async def _moved(run: Handle[Any], step: int) -> bool:
    return (await run.view()).step > step


# --- with a model in it --------------------------------------------------------------------------


async def test_a_model_that_asks_for_the_same_again_and_again_is_held() -> None:
    """An LLMAgent has a cap without being told; its model's calls all differ, for the chat grows."""
    model = models.scripted(use_tool("look", place="attic"), again=True)
    talker = LLMAgent("talker", model=model, tools=[look])
    async with a_world(talker) as (runs, world):
        run = await runs.start(talker, "Find it")
        (need,) = (await held(run, "loop")).needs
        assert need.text == "look(place='attic'): the same call gave the same result 10 times in a row"
        assert len(world.looks) == 10


async def test_a_model_that_goes_to_and_fro_is_held() -> None:
    model = models.scripted(use_tool("look", place="attic"), use_tool("open_door", door="back"), again=True)
    talker = LLMAgent("talker", model=model, tools=[look, open_door])
    async with a_world(talker) as (runs, world):
        run = await runs.start(talker, "Find it", budget=Budget(repeats=4))
        (need,) = (await held(run, "loop")).needs
        assert need.text == "look(place='attic') and open_door(door='back') alternate with the same results, 4 times"
        assert len(world.looks) == 8


# --- the counting itself -------------------------------------------------------------------------


def _naive(history: list[str], following: str, repeats: int) -> bool:
    """Does a cycle of some length fill the end of the history so often, and would it go on?"""
    for p in range(1, LONGEST + 1):
        need = p * max(repeats, min(p, 2))
        tail = history[-need:]
        if len(tail) == need and all(tail[i] == tail[i - p] for i in range(p, need)) and tail[-p] == following:
            return True
    return False


@given(st.lists(st.sampled_from("abc"), max_size=60), st.sampled_from("abc"), st.integers(1, 5))
def test_counting_by_the_way_sees_what_looking_back_would_see(history: list[str], following: str, repeats: int) -> None:
    rounds = Rounds()
    for what in history:
        rounds = called(rounds, "tool", what, b"same", what)
    assert bool(before_call(rounds, "tool", following, repeats)) == _naive(history, following, repeats)


def test_what_is_kept_stays_small() -> None:
    rounds = Rounds()
    for n in range(1000):
        rounds = called(rounds, "tool", f"t{n % 7}", b"x" * 10_000, "y" * 10_000)
    assert len(rounds.tools.seen) == LONGEST
    assert sum(len(part) for entry in rounds.tools.seen for part in entry) < 100 * LONGEST
