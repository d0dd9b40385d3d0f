"""A pipeline whose list of stages has changed under a paused run (R16): stages are known by name.

What was finished stays finished, what was queued is taken once, and the hold says which.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from tests.helpers import eventually
from tests.trials import trials

from standfast import Again, Handle, Pipeline, Run, Runtime, tool, use
from standfast.errors import Misuse
from standfast.records import RunView


class Taken(BaseModel):
    stages: list[str] = []


@dataclass
class World:
    """What has happened outside, and the place where a stage waits."""

    stop: str = ""  # "before Fetch", "after Fetch"
    effects: list[str] = field(default_factory=list[str])
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    door: asyncio.Event = field(default_factory=asyncio.Event)


@tool
async def do(stage: str) -> None:
    use(World).effects.append(stage)


@tool(effect="read")
async def pass_by(place: str) -> None:
    world = use(World)
    if place == world.stop:
        world.reached.set()
        await world.door.wait()


def pipeline(titles: Sequence[str], **options: Any) -> Pipeline[Taken]:
    """One effect a stage, with a place to be paused before and after it."""
    made: Pipeline[Taken] = Pipeline("changing", Taken, **options)
    for title in titles:
        made.stage(title)(_stage(title))
    return made


def _stage(title: str) -> Callable[[Run[Taken]], Any]:
    async def stage(run: Run[Taken]) -> Again | None:
        await run.call(pass_by(f"before {title}"))
        await run.call(do(title))
        await run.call(pass_by(f"after {title}"))
        run.state.stages.append(title)
        return None

    return stage


async def at_rest(run: Handle[Any]) -> RunView:
    async def look() -> RunView | None:
        view = await run.view()
        return view if view.status not in ("queued", "running", "pausing") else None

    view: RunView = await eventually(look)
    return view


Where = Literal["before", "after", "between"]


async def left(
    path: Path,
    titles: Sequence[str],
    stage: int,
    where: Where,
    old: Callable[[Pipeline[Taken]], Pipeline[Taken]] = lambda made: made,
) -> list[str]:
    """Leave run r1 paused in a stage, before or after its effect, or between it and the one before; its effects."""
    world = World(stop=f"{'before' if where != 'after' else 'after'} {titles[stage if where != 'between' else 0]}")
    made = old(pipeline(titles))
    async with Runtime(path, agents=[made], provide={World: world}) as runs:
        run = await runs.start(made, Taken(), id="r1")
        await asyncio.wait_for(world.reached.wait(), 10)
        assert await run.pause()
        assert (await at_rest(run)).status == "paused"
        if where == "between":
            world.stop = ""
            for _ in range(stage):
                assert await run.step_once()
                await at_rest(run)
    return world.effects


async def went_on(path: Path, made: Pipeline[Taken], effects: list[str]) -> tuple[RunView, list[str]]:
    """Resume r1 with another list of stages, accepting that it has changed; how it ended, and what has happened."""
    world = World(effects=effects)
    async with Runtime(path, agents=[made], provide={World: world}) as runs:
        run = runs.handle("r1")
        assert await run.resume()
        view = await at_rest(run)
        if view.holds == ("stale",):
            assert await run.resume(accept_stale=True)
        await run.result(timeout=120)
        return await run.view(), world.effects


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


NAMES = ("Fetch", "Join", "Score", "Write", "Send")
lists = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)


@pytest.mark.soak
@settings(max_examples=trials(25, 60, 60), deadline=None)
@given(old=lists, new=lists, place=st.integers(0, 4), where=st.sampled_from(["before", "after", "between"]))
def test_no_stage_is_taken_twice_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str], place: int, where: Where
) -> None:
    path = tmp_path_factory.mktemp("stages") / "runs.db"
    at = place % len(old)

    async def story() -> None:
        before = await left(path, old, at, where)
        begun = where != "between" or not at  # there is nothing before the first: paused inside it
        finished = old[:at]
        view, effects = await went_on(path, pipeline(new), list(before))
        counted = Counter(effects)
        told = f"{old} paused {where} {old[at]}, then {new}: {effects}"
        assert view.status == "done", told
        for stage in new:
            assert counted[stage] == 1, told
        for stage in set(old) - set(new):
            allowed = 1 if stage in finished or (begun and stage == old[at] and where == "after") else 0
            assert counted[stage] == allowed, told
        todo = [stage for stage in new if stage not in finished]
        if begun and old[at] in todo:  # what was in progress is ended first
            todo = [old[at], *(stage for stage in todo if stage != old[at])]
        assert [stage for stage in effects if stage in todo] == todo, told
        assert {item.title for item in view.plan if item.status == "done"} >= set(new)

    asyncio.run(story())


async def test_the_hold_says_what_is_new_removed_finished_and_to_be_taken(path: Path) -> None:
    await left(path, ["Fetch", "Join", "Score", "Write"], 1, "after")
    world = World()
    async with Runtime(path, agents=[pipeline(["Fetch", "Check", "Join", "Write"])], provide={World: world}) as runs:
        run = runs.handle("r1")
        await run.resume()
        view = await at_rest(run)
        assert view.holds == ("stale",)
        assert view.waiting_for == (
            "stale: the stages have changed: new: “Check”; removed, will not be taken: “Score”; "
            "finished, stays so: “Fetch”; will be taken, in this order: “Join” (in progress), “Check”, “Write”"
        )


@pytest.mark.parametrize("second", [("A", "B", "Y", "C"), ("A", "B", "C")], ids=["another change", "back again"])
async def test_a_second_deploy_is_shown_before_anything_of_it_is_taken(path: Path, second: tuple[str, ...]) -> None:
    """Only what the hold has shown is accepted: a later deploy holds the run anew, with what differs now (R16)."""
    effects = await left(path, ("A", "B", "C"), 1, "before")
    async with Runtime(path, agents=[pipeline(("A", "X", "B", "C"))], provide={World: World()}) as runs:
        assert await runs.handle("r1").resume()
        shown = (await at_rest(runs.handle("r1"))).needs[0].text
        assert "new: “X”" in shown
    world = World(effects=effects)
    async with Runtime(path, agents=[pipeline(second)], provide={World: world}) as runs:
        run = runs.handle("r1")
        assert await run.resume(accept_stale=True)
        view = await at_rest(run)
        if "Y" in second:
            assert view.holds == ("stale",) and world.effects == ["A"]
            text = view.needs[0].text
            assert "changed again since" in text and "new: “Y”" in text and "X" not in text
            assert await run.resume(accept_stale=True)
        result = await run.result(timeout=120)
        assert result.stages == list(second)


async def test_a_stage_in_progress_that_was_removed_is_given_up_and_what_it_did_stays(path: Path) -> None:
    effects = await left(path, ["Fetch", "Join", "Write"], 1, "after")
    assert effects == ["Fetch", "Join"]
    world = World(effects=effects)
    async with Runtime(path, agents=[pipeline(["Fetch", "Write"])], provide={World: world}) as runs:
        run = runs.handle("r1")
        await run.resume()
        assert "in progress, is given up, what it did stays: “Join”" in (await at_rest(run)).waiting_for
        await run.resume(accept_stale=True)
        assert (await run.result(timeout=120)).stages == ["Fetch", "Write"]
        view = await run.view()
        assert [(item.title, item.status) for item in view.plan] == [
            ("Fetch", "done"),
            ("Join", "dropped"),
            ("Write", "done"),
        ]
    assert world.effects == ["Fetch", "Join", "Write"]


async def test_equal_calls_of_a_removed_stage_do_not_stand_for_those_of_the_next(path: Path) -> None:
    """The key of a call holds its step: a stage that takes the removed one's step would get its results."""

    def with_payment(titles: Sequence[str]) -> Pipeline[Taken]:
        made: Pipeline[Taken] = Pipeline("changing", Taken)
        for title in titles:

            async def stage(run: Run[Taken], title: str = title) -> None:
                await run.call(do("pay 5"))
                await run.call(pass_by(f"after {title}"))

            made.stage(title)(stage)
        return made

    world = World(stop="after Deposit")
    old = with_payment(["Deposit", "Rent"])
    async with Runtime(path, agents=[old], provide={World: world}) as runs:
        run = await runs.start(old, Taken(), id="r1")
        await asyncio.wait_for(world.reached.wait(), 10)
        await run.pause()
        await at_rest(run)
    _, effects = await went_on(path, with_payment(["Rent"]), world.effects)
    assert effects == ["pay 5", "pay 5"]


async def test_a_renamed_stage_is_a_new_one_and_a_removed_one_unless_it_has_a_name(path: Path) -> None:
    await left(path, ["Fetch", "Join", "Write"], 1, "before")
    view, effects = await went_on(path, pipeline(["Fetch", "Join", "Write it up"]), ["Fetch"])
    assert effects == ["Fetch", "Join", "Write it up"]
    assert [item.title for item in view.plan] == ["Fetch", "Join", "Write it up"]


async def test_a_stage_with_a_name_keeps_it_under_another_title(path: Path) -> None:
    def titled(title: str) -> Pipeline[Taken]:
        made: Pipeline[Taken] = Pipeline("changing", Taken)
        made.stage(title, name="fetch")(_stage("Fetch"))
        made.stage("Write")(_stage("Write"))
        return made

    world = World(stop="before Write")
    old = titled("Fetch the list")
    async with Runtime(path, agents=[old], provide={World: world}) as runs:
        run = await runs.start(old, Taken(), id="r1")
        await asyncio.wait_for(world.reached.wait(), 10)
        await run.pause()
        await at_rest(run)
    view, effects = await went_on(path, titled("Fetch all lists"), world.effects)
    assert effects == ["Fetch", "Write"]
    assert [item.title for item in view.plan] == ["Fetch the list", "Write"]  # as it was done


async def test_a_pinned_version_goes_on_with_the_changed_stages_known_by_name(path: Path) -> None:
    """version= replaces the comparison: nothing holds the run, and still no stage is taken twice."""
    world = World(stop="after Join")
    old = pipeline(["Fetch", "Join", "Write"], version="1")
    async with Runtime(path, agents=[old], provide={World: world}) as runs:
        run = await runs.start(old, Taken(), id="r1")
        await asyncio.wait_for(world.reached.wait(), 10)
        await run.pause()
        await at_rest(run)
    new = pipeline(["Check", "Fetch", "Join", "Write"], version="1")
    _, effects = await went_on(path, new, world.effects)
    assert effects == ["Fetch", "Join", "Check", "Write"]


async def test_a_rewind_to_before_the_change_takes_the_stages_there_are_now(path: Path) -> None:
    effects = await left(path, ["Fetch", "Join", "Write"], 2, "before")
    world = World(effects=effects)
    new = pipeline(["Fetch", "Check", "Write"])
    async with Runtime(path, agents=[new], provide={World: world}) as runs:
        run = runs.handle("r1")
        await run.resume()
        await at_rest(run)
        assert await run.rewind(1)
        await at_rest(run)
        await run.resume()
        if (await at_rest(run)).holds == ("stale",):
            await run.resume(accept_stale=True)
        await run.result(timeout=120)
    assert world.effects == ["Fetch", "Join", "Check", "Write"]


@pytest.mark.parametrize("again", ["Fetch", "fetch!"])
def test_two_stages_of_one_name_are_refused_where_they_are_declared(again: str) -> None:
    made = pipeline(["Fetch", "Join"])
    with pytest.raises(Misuse, match="two stages"):
        made.stage(again)(_stage("x"))


def by_position(made: Pipeline[Taken]) -> Pipeline[Taken]:
    """As the code before this one knew stages: by their place in the list."""
    made._stages = [replace(stage, id=f"stage-{n}") for n, stage in enumerate(made._stages)]
    return made


@pytest.mark.parametrize("new", [["Fetch", "Join", "Write"], ["Check", "Fetch", "Join", "Write"], ["Join", "Write"]])
@pytest.mark.parametrize("where", ["before", "after", "between"])
async def test_a_store_that_knew_stages_by_position_goes_on(path: Path, new: list[str], where: Where) -> None:
    effects = await left(path, ["Fetch", "Join", "Write"], 1, where, by_position)
    view, effects = await went_on(path, pipeline(new), effects)
    assert Counter(effects) == Counter({*new, "Fetch"}), effects
    assert {item.title for item in view.plan if item.status == "done"} == {*new, "Fetch"}
    assert not any(item.id.startswith("stage-") for item in view.plan)


async def test_a_rewind_in_a_store_that_knew_stages_by_position(path: Path) -> None:
    """The old snapshots still name stages by position after the new code has taken the run up."""
    effects = await left(path, ["Fetch", "Join", "Write"], 2, "before", by_position)
    world = World(effects=effects)
    async with Runtime(path, agents=[pipeline(["Check", "Fetch", "Join", "Write"])], provide={World: world}) as runs:
        run = runs.handle("r1")
        await run.resume(accept_stale=True)
        await run.result(timeout=120)
        fork = await run.fork(at=1)
        assert await fork.resume(accept_stale=True)
        await fork.result(timeout=120)
    assert world.effects == ["Fetch", "Join", "Write", "Check", "Check", "Join", "Write"]
