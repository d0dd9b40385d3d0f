"""What code sets in a ContextVar lasts as long as that code: one step, one call; with or without a restart (R2, R4)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel
from tests.helpers import held

from standfast import Again, Done, Performed, Pipeline, Run, Runtime, agent, child, tool

LIMIT = 30.0
mine: ContextVar[str] = ContextVar("mine", default="unset")


class Seen(BaseModel):
    """What each step found, before it set its own."""

    seen: list[str] = []


@tool(effect="read")
async def reads() -> str:
    found = mine.get()
    mine.set("by a read")
    return found


@tool(effect="read")
def reads_in_a_thread() -> str:
    found = mine.get()
    mine.set("by a thread")
    return found


@tool(effect="read", timeout=60)
async def reads_in_time() -> str:
    found = mine.get()
    mine.set("by a task")
    return found


@tool(effect="write")
async def writes() -> str:
    found = mine.get()
    mine.set("by a write")
    return found


@agent("stepping")
async def stepping(run: Run[Seen]) -> Done[list[str]] | None:
    run.state.seen.append(mine.get())
    mine.set(f"by step {run.step}")
    return Done(run.state.seen) if run.step == 2 else None


async def test_a_step_does_not_see_what_the_step_before_it_has_set() -> None:
    async with Runtime(":memory:", agents=[stepping]) as runs:
        run = await runs.start(stepping, Seen())
        assert await run.result(timeout=LIMIT) == ["unset"] * 3


async def test_what_was_set_before_the_runtime_was_entered_is_seen_by_every_step() -> None:
    """A trace that a program has begun, say; what it sets later is its own."""
    mine.set("by the program")
    async with Runtime(":memory:", agents=[stepping]) as runs:
        mine.set("later")
        run = await runs.start(stepping, Seen())
        assert await run.result(timeout=LIMIT) == ["by the program"] * 3


async def test_a_tool_sees_what_its_step_has_set_and_changes_nothing_for_it() -> None:
    """Wherever its body runs: a result that comes from the journal could not change anything either."""

    @agent("asking")
    async def asking(run: Run[Seen]) -> Done[list[str]]:
        mine.set("by the step")
        for call in (reads(), reads_in_a_thread(), reads_in_time(), writes()):
            run.state.seen += [await run.call(call), mine.get()]
        return Done(run.state.seen)

    async with Runtime(":memory:", agents=[asking]) as runs:
        run = await runs.start(asking, Seen())
        assert await run.result(timeout=LIMIT) == ["by the step"] * 8


async def test_a_stage_does_not_see_what_the_stage_before_it_has_set() -> None:
    stages = Pipeline("stages", Seen)

    @stages.stage("First")
    async def first(run: Run[Seen]) -> Again | None:
        run.state.seen.append(mine.get())
        mine.set("by the first stage")
        return Again() if len(run.state.seen) < 2 else None

    @stages.stage("Second")
    async def second(run: Run[Seen]) -> None:
        run.state.seen.append(mine.get())

    async with Runtime(":memory:", agents=[stages]) as runs:
        run = await runs.start(stages, Seen())
        assert (await run.result(timeout=LIMIT)).seen == ["unset"] * 3


async def test_a_child_does_not_see_what_the_step_of_its_parent_has_set() -> None:
    """It may as well be driven by another process."""

    @agent("parent")
    async def parent(run: Run[Seen]) -> Done[list[str]]:
        mine.set("by the parent")
        return Done(await run.call(child(stepping, Seen())))

    async with Runtime(":memory:", agents=[parent, stepping]) as runs:
        run = await runs.start(parent, Seen())
        assert await run.result(timeout=LIMIT) == ["unset"] * 3


async def test_an_attempt_does_not_see_what_the_attempt_before_it_has_set() -> None:
    @agent("failing")
    async def failing(run: Run[Seen]) -> Done[str]:
        found = mine.get()
        mine.set("by an attempt")
        tries.append(found)
        if len(tries) == 1:
            raise RuntimeError("once")
        return Done(found)

    tries: list[str] = []
    async with Runtime(":memory:", agents=[failing]) as runs:
        run = await runs.start(failing, Seen())
        await held(run, "error")
        assert await run.resume()
        assert await run.result(timeout=LIMIT) == "unset"


async def test_an_undo_sees_nothing_that_a_step_has_set() -> None:
    """It may come after a restart; what it needs is in its argument."""
    found: list[str] = []

    async def undo(_: Performed[None, Any]) -> None:
        found.append(mine.get())

    @tool(effect="write", undo=undo)
    async def effect() -> None: ...

    @agent("undone")
    async def undone(run: Run[Seen]) -> None:
        mine.set("by the step")
        await run.call(effect())
        raise RuntimeError("held here")

    async with Runtime(":memory:", agents=[undone]) as runs:
        run = await runs.start(undone, Seen())
        await held(run, "error")
        assert await run.cancel()
        await run.settled(timeout=LIMIT)
        assert found == ["unset"]
