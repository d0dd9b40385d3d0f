"""The same write, in one step after the other, is held before it is made a third time (R17)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import (
    Accepted,
    Again,
    Budget,
    CallFailed,
    Done,
    Handle,
    Happened,
    Idle,
    LLMAgent,
    Misuse,
    NotHappened,
    NotPerformed,
    Performed,
    Pipeline,
    Run,
    agent,
    child,
    models,
    sleep,
    tool,
    use,
)
from standfast.control import load
from standfast.equal_writes import MOST
from standfast.models import use as use_tool
from standfast.testing import Lab, lab


class World:
    def __init__(self) -> None:
        self.made: list[str] = []
        self.numbers = count()
        self.broken = False
        self.closed: set[int] = set()  # which of the calls do nothing, and say so
        self.asked = count()


class Work(BaseModel):
    steps: int = 40
    what: str = ""


@tool
async def pay(to: str) -> int:
    """Another number each time: no budget of repeats would notice."""
    world = use(World)
    if next(world.asked) in world.closed:
        raise NotPerformed("the bank is closed")
    world.made.append(f"pay {to}")
    if world.broken:
        raise TimeoutError("the bank does not answer")
    return next(world.numbers)


@tool(effect="read")
async def look(at: str) -> int:
    return next(use(World).numbers)


@tool(effect="idempotent")
async def put(to: str) -> int:
    use(World).made.append(f"put {to}")
    return next(use(World).numbers)


async def unlock(p: Performed[int, None]) -> None:
    use(World).made.append("unlock")


@tool(undo=unlock, settles="never")
async def lock(door: str) -> int:
    use(World).made.append(f"lock {door}")
    return next(use(World).numbers)


async def step(run: Run[Work]) -> Done[int] | None:
    what = run.state.what
    try:
        if what == "keys":
            await run.call(pay("ann"), key=f"month {run.step}")
        elif what == "one key":
            await run.call(pay("ann"), key="salary")
        elif what == "idempotent":
            await run.call(put("ann"))
        elif what == "lock":
            await run.call(lock("front"))
        elif what == "alternating":
            await run.call(pay("ann" if run.step % 2 else "bob"))
        elif what == "looks between" and run.step % 2:
            await run.call(look("the account"))
        elif what == "thinks between" and run.step % 2:
            pass
        elif what == "sleeps between" and run.step % 2:
            await run.call(sleep(0.0))
        elif what == "thrice a step":
            await run.call_all([pay("ann"), pay("ann"), pay("ann")])
        elif what == "many":
            await run.call_all([pay(f"number {n}") for n in range(MOST + 10)])
        elif what == "looks too":
            await run.call(look("the account"))
            await run.call(pay("ann"))
        else:
            await run.call(pay("ann"))
    except CallFailed:
        pass
    return Done(run.step) if run.step + 1 >= run.state.steps else None


faulty = agent("faulty")(step)
patient = agent("patient", equal_writes=5)(step)
unlimited = agent("unlimited", equal_writes=None)(step)
stages = Pipeline("stages", Work)


@stages.stage("Pay")
async def pay_again(run: Run[Work]) -> Again | None:
    await run.call(pay("ann"))
    return Again() if run.step + 1 < run.state.steps else None


@agent("parent")
async def parent(run: Run[Work]) -> Done[int]:
    return Done(await run.call(child(faulty, run.state)))


@agent("payer")
async def payer(run: Run[Work]) -> Done[int]:
    return Done(await run.call(pay("ann")))


@agent("boss")
async def boss(run: Run[Work]) -> Done[int] | None:
    """Has the same done by another run, step after step; or something else each time."""
    what = f"month {run.step}" if run.state.what == "states" else ""
    key = f"month {run.step}" if run.state.what == "keys" else None
    await run.call(child(payer, Work(what=what)), key=key)
    return Done(run.step) if run.step + 1 >= run.state.steps else None


@agent("listener")
async def listener(run: Run[Work]) -> Idle | Done[str]:
    for message in run.take_messages():
        if message.text == "enough":
            return Done("enough")
        await run.call(pay("ann"))
    return Idle()


paying = LLMAgent(
    "paying",
    model=models.scripted([*([use_tool("pay", to="ann")] * 30), "paid"]),
    tools=[pay],
    budget=Budget(steps=100),
)


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[Lab, World]]:
    world = World()
    agents = [faulty, patient, unlimited, stages, parent, payer, boss, listener, paying]
    async with lab(agents, provide={World: world}) as runs:
        yield runs, world


async def started(runs: Lab, kind: str) -> Handle[Any]:
    if kind == "llm":
        return await runs.start(paying, "pay ann")
    return await runs.start({"agent": faulty, "pipeline": stages, "child": parent}[kind], Work())


@pytest.mark.parametrize("kind", ["agent", "pipeline", "llm"])
async def test_the_third_equal_write_in_consecutive_steps_is_held_and_named(kind: str) -> None:
    async with a_world() as (runs, world):
        run = await started(runs, kind)
        (need,) = (await held(run, "loop")).needs
        assert world.made == ["pay ann"] * 2
        assert need.text.startswith("pay(to='ann'): the same write was made or tried in 2 steps in a row")
        assert "Resume to let it be made, or cancel" in need.text
        otherwise = [] if kind == "pipeline" else ["redirect"]  # its stage never reads one, and so takes none
        assert [choice.verb for choice in need.choices] == ["resume", *otherwise, "cancel"]


async def test_a_child_that_goes_round_is_held_and_its_parent_waits() -> None:
    async with a_world() as (runs, world):
        run = await started(runs, "child")
        (found,) = await eventually(lambda: runs.list(agent="faulty"))
        view = await held(runs.handle(found.id), "loop")
        assert world.made == ["pay ann"] * 2
        assert "same write" in view.needs[0].text
        assert (await run.view()).status in ("running", "paused")


async def test_the_same_child_in_consecutive_steps_is_held_like_a_write() -> None:
    """R17: what it does, it does again; its parent only asks for it."""
    async with a_world() as (runs, world):
        run = await runs.start(boss, Work(steps=5))
        (need,) = (await held(run, "loop")).needs
        assert world.made == ["pay ann"] * 2
        assert len(await runs.list(agent="payer")) == 2
        assert need.text.startswith("child(agent='payer'): the same child run was begun in 2 steps in a row")
        assert await run.resume()
        await eventually(lambda: len(world.made) == 4)
        await held(run, "loop")


@pytest.mark.parametrize("what", ["states", "keys"])
async def test_children_that_are_not_the_same_go_on(what: str) -> None:
    async with a_world() as (runs, world):
        run = await runs.start(boss, Work(steps=5, what=what))
        assert await run.result(timeout=120) == 4
        assert len(world.made) == 5


async def test_a_resume_counts_anew() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(faulty, Work(steps=5))
        (need,) = (await held(run, "loop")).needs
        assert await run.choose(need, need.choices[0])
        await held(run, "loop")
        assert world.made == ["pay ann"] * 4
        await run.resume()
        assert await run.result(timeout=120) == 4
        assert world.made == ["pay ann"] * 5


async def test_a_cancel_leaves_it_at_two() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(faulty, Work())
        await held(run, "loop")
        await run.cancel()
        await run.settled()
        assert world.made == ["pay ann"] * 2


async def test_the_budget_of_repeats_has_no_part_in_it_and_its_end_neither() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(faulty, Work(), budget=Budget(repeats=100, then="cancel"))
        await held(run, "loop")
        assert world.made == ["pay ann"] * 2


@pytest.mark.parametrize("what", ["one key", "looks too", "thinks between", "thrice a step"])
async def test_what_else_is_in_the_steps_does_not_hide_it(what: str) -> None:
    async with a_world() as (runs, world):
        await held(await runs.start(faulty, Work(what=what)), "loop")
        assert len(world.made) == (6 if what == "thrice a step" else 2)


@pytest.mark.parametrize("what", ["keys", "idempotent", "lock", "alternating", "looks between", "sleeps between"])
async def test_what_is_not_the_same_write_in_consecutive_steps_goes_on(what: str) -> None:
    async with a_world() as (runs, _):
        run = await runs.start(faulty, Work(what=what, steps=8))
        if what == "sleeps between":
            for _ in range(10):
                await runs.clock.advance(1)
        assert await run.result(timeout=120) == 7


async def test_writes_that_fail_are_counted_like_others() -> None:
    async with a_world() as (runs, world):
        world.broken = True
        await held(await runs.start(faulty, Work()), "loop")
        assert world.made == ["pay ann"] * 2


async def test_what_was_not_performed_is_not_counted_and_the_hold_says_what_is_so() -> None:
    """R17: nothing happened, so it may be asked for until it does; the steps in which it did still count."""
    async with a_world() as (runs, world):
        world.closed = set(range(20)) - {3, 7}
        run = await runs.start(faulty, Work())
        (need,) = (await held(run, "loop")).needs
        assert world.made == ["pay ann"] * 2
        assert need.text.startswith("pay(to='ann'): the same write was made or tried in 2 steps in a row")
        assert next(world.asked) == 8, "held before the next call"


async def test_of_equal_writes_in_a_step_one_that_was_made_counts() -> None:
    async with a_world() as (runs, world):
        world.closed = {1, 2, 4}
        await held(await runs.start(faulty, Work(what="thrice a step")), "loop")
        assert len(world.made) == 3


async def test_a_step_that_looks_and_could_not_write_ends_the_row() -> None:
    async with a_world() as (runs, world):
        world.closed = {1, 3, 5, 7}
        run = await runs.start(faulty, Work(what="looks too", steps=8))
        assert await run.result(timeout=120) == 7
        assert world.made == ["pay ann"] * 4


async def test_what_a_person_says_did_not_happen_is_not_counted() -> None:
    """Its step is then taken with something else; two steps later the same write has been made once."""
    async with a_world() as (runs, world):
        run = await runs.start(faulty, Work())
        await runs.until(run, call="pay", point="admitted")
        await runs.crash()
        (need,) = (await held(run, "in_doubt")).needs
        assert runs.read(lambda tx: load(tx, run.id)).doc.writes.now  # type: ignore[union-attr]
        await run.pause()
        await run.resolve(str(need.call), NotHappened())
        writes = runs.read(lambda tx: load(tx, run.id)).doc.writes
        assert writes is None or not writes.now
        await run.resume()
        await held(run, "loop")
        assert world.made == ["pay ann"] * 2


async def test_another_limit_or_none_can_be_set() -> None:
    async with a_world() as (runs, world):
        await held(await runs.start(patient, Work()), "loop")
        assert len(world.made) == 5
        world.made.clear()
        run = await runs.start(unlimited, Work(steps=20))
        assert await run.result(timeout=120) == 19
        assert len(world.made) == 20


@pytest.mark.parametrize("limit", [0, -1, True, 2.5, "2"])
def test_a_limit_that_makes_no_sense_is_refused(limit: Any) -> None:
    with pytest.raises(Misuse, match="equal_writes"):
        agent("odd", equal_writes=limit)(step)


async def test_what_is_asked_for_anew_is_no_loop() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Work())
        for n in range(4):
            await run.message("once more")
            await eventually(lambda: len(world.made) > n)  # noqa: B023
        await run.message("enough")
        assert await run.result(timeout=120) == "enough"
        assert len(world.made) == 4


@pytest.mark.parametrize("point", ["admitted", "performed", "recorded"])
async def test_a_crash_neither_loses_nor_adds_a_count(point: Any) -> None:
    """At every point of the first write; a doubt is settled as it was."""
    async with a_world() as (runs, world):
        run = await runs.start(faulty, Work())
        await runs.until(run, call="pay", point=point)
        await runs.crash()
        if point != "recorded":
            (need,) = (await held(run, "in_doubt")).needs
            await run.resolve(str(need.call), Happened(0) if point == "performed" else NotHappened())
        await held(run, "loop")
        assert world.made == ["pay ann"] * 2


async def test_the_hold_is_there_after_a_restart() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(faulty, Work())
        await held(run, "loop")
        await runs.crash()
        view = await held(run, "loop")
        assert "same write" in view.needs[0].text
        assert world.made == ["pay ann"] * 2


async def test_a_rewind_begins_anew() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(faulty, Work())
        await held(run, "loop")
        await run.rewind(0)
        await run.resume()
        await held(run, "loop")
        assert world.made == ["pay ann"] * 4


async def test_a_step_of_many_writes_keeps_a_bounded_count() -> None:
    async with a_world() as (runs, world):
        await held(await runs.start(faulty, Work(what="many")), "loop")
        assert len(world.made) < 3 * (MOST + 10)


@pytest.mark.parametrize("takes", [True, False], ids=["takes redirects", "takes none"])
@pytest.mark.parametrize("kind", ["agent", "stage"])
async def test_a_held_loop_offers_only_what_would_be_taken(kind: str, takes: bool) -> None:
    """R40: each choice can be sent back as it is."""
    one = agent("firm", redirects=takes)(step)
    line: Pipeline[Work] = Pipeline("line", Work)
    line.stage("Pay", redirects=takes)(pay_again)
    async with lab([one, line], provide={World: World()}) as runs:
        run: Handle[Any] = await runs.start(one, Work()) if kind == "agent" else await runs.start(line, Work())
        [need] = (await held(run, "loop")).needs
        assert [choice.verb for choice in need.choices] == ["resume", *(["redirect"] if takes else []), "cancel"]
        for choice in need.choices[:-1]:
            assert isinstance(await run.choose(need, choice), Accepted), choice
            [need] = (await held(run, "loop")).needs
