"""Children are paused and resumed with their parent, which settles after them (R3, R4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import Agent, Done, Handle, Need, Run, agent, ask, child, tool
from standfast.testing import Lab, lab


class Part(BaseModel):
    name: str


class Slow:
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()


slow = Slow()


@tool
async def write(name: str) -> str:
    slow.begun.set()
    await slow.may_end.wait()
    return name.upper()


@agent("worker")
async def worker(run: Run[Part]) -> Done[str]:
    return Done(await run.call(write(run.state.name)))


@agent("boss")
async def boss(run: Run[Part]) -> Done[str]:
    return Done(await run.call(child(worker, run.state)))


@pytest.fixture(autouse=True)
def _afresh() -> None:
    global slow
    slow = Slow()


async def _statuses(runs: Lab) -> dict[str, str]:
    return {view.agent: view.status for view in await runs.list()}


async def _writing(runs: Lab, family: Agent[Part, str]) -> Handle[Any]:
    """A run with a write in flight, its own or a descendant's."""
    run = await runs.start(family, Part(name="a"))
    await slow.begun.wait()
    return run


async def test_a_parent_is_paused_only_when_its_child_is() -> None:
    """R3: the child's write may finish, and the parent says what it waits for."""
    async with lab([boss, worker]) as runs:
        run = await _writing(runs, boss)
        assert await run.pause()
        with pytest.raises(TimeoutError):
            await run.settled(timeout=0.5)
        assert await _statuses(runs) == {"boss": "pausing", "worker": "pausing"}
        slow.may_end.set()
        await run.settled()
        assert await _statuses(runs) == {"boss": "paused", "worker": "done"}
        assert await run.resume()
        assert await run.result() == "A"


async def test_a_resume_during_the_pause_reaches_the_child_too() -> None:
    """R4: taken at settle, by the parent and by the child that was paused with it."""
    async with lab([boss, worker]) as runs:
        run = await _writing(runs, boss)
        assert await run.pause()
        assert await run.resume()
        slow.may_end.set()
        assert await run.result(timeout=120) == "A"


@agent("two_steps")
async def two_steps(run: Run[Part]) -> Done[str] | None:
    if run.step == 0:
        run.state.name = await run.call(write(run.state.name))
        return None
    return Done(run.state.name + await run.call(write("b")))


@agent("chief")
async def chief(run: Run[Part]) -> Done[str]:
    return Done(await run.call(child(two_steps, run.state)))


async def test_a_child_that_is_held_in_between_goes_on_with_its_parent() -> None:
    """R4: also when the child had more to do."""
    async with lab([chief, two_steps]) as runs:
        run = await _writing(runs, chief)
        assert await run.pause()
        slow.may_end.set()
        await run.settled()
        assert await _statuses(runs) == {"chief": "paused", "two_steps": "paused"}
        assert await run.resume()
        assert await run.result(timeout=120) == "AB"


@agent("asker")
async def asker(run: Run[Part]) -> Done[str]:
    return Done(await run.call(ask("Which?", ["x", "y"])))


@agent("head")
async def head(run: Run[Part]) -> Done[str]:
    return Done(await run.call(child(asker, run.state)))


@agent("top")
async def top(run: Run[Part]) -> Done[str]:
    return Done(await run.call(child(boss, run.state)))


async def _run_of(runs: Lab, name: str) -> Handle[Any]:
    async def look() -> Handle[Any] | None:
        return next((runs.handle(view.id) for view in await runs.list() if view.agent == name), None)

    found: Handle[Any] = await eventually(look)
    return found


async def _paused_while_its_child_asks(runs: Lab) -> tuple[Handle[Any], Handle[Any], Need]:
    run = await runs.start(head, Part(name="a"))
    kid = await _run_of(runs, "asker")
    (question,) = (await held(kid, "asks")).needs
    assert await run.pause()
    await held(run, "user")
    return run, kid, question


async def test_a_child_that_asks_is_paused_with_its_parent_too() -> None:
    """R3: an answer does not let it go on under a paused parent; the resume of the parent does."""
    async with lab([head, asker]) as runs:
        run, kid, question = await _paused_while_its_child_asks(runs)
        await held(kid, "asks", "user")
        assert await kid.answer(question.call, "x")
        await held(kid, "user")
        assert await run.resume()
        assert await run.result(timeout=120) == "x"


async def test_the_resume_of_a_parent_leaves_the_question_of_its_child() -> None:
    """R4: only what the parent's pause held is lifted."""
    async with lab([head, asker]) as runs:
        run, kid, question = await _paused_while_its_child_asks(runs)
        assert await run.resume()
        await held(kid, "asks")
        assert await kid.answer(question.call, "y")
        assert await run.result(timeout=120) == "y"


async def test_a_pause_reaches_what_goes_on_below_a_paused_child() -> None:
    """R3: every live descendant, whatever holds those between."""
    async with lab([top, boss, worker]) as runs:
        run = await _writing(runs, top)
        middle, low = await _run_of(runs, "boss"), await _run_of(runs, "worker")
        assert await middle.pause()
        assert await low.resume()
        assert await run.pause()
        slow.may_end.set()
        await run.settled()
        assert await _statuses(runs) == {"top": "paused", "boss": "paused", "worker": "done"}
        assert await run.resume()
        assert (await held(middle, "user")).status == "paused"
        assert await middle.resume()
        assert await run.result(timeout=120) == "A"


@pytest.mark.parametrize("before", [True, False])
async def test_a_pause_of_the_child_alone_outlives_that_of_its_parent(before: bool) -> None:
    """R4: whether it came before the parent's pause or after it."""
    async with lab([chief, two_steps]) as runs:
        run = await _writing(runs, chief)
        kid = await _run_of(runs, "two_steps")
        for one in (kid, run) if before else (run, kid):
            assert await one.pause(reason=f"{before}")
        slow.may_end.set()
        await run.settled()
        assert await run.resume()
        await held(kid, "user")
        assert (await run.view()).status in ("queued", "running")
        assert await kid.resume()
        assert await run.result(timeout=120) == "AB"


async def test_a_second_pause_of_the_parent_takes_back_the_resume_of_the_child() -> None:
    """R3: the last word counts for the whole family."""
    async with lab([chief, two_steps]) as runs:
        run = await _writing(runs, chief)
        assert await run.pause()
        assert await run.resume()
        assert await run.pause()
        slow.may_end.set()
        await run.settled()
        assert await _statuses(runs) == {"chief": "paused", "two_steps": "paused"}
        assert await run.resume()
        assert await run.result(timeout=120) == "AB"
