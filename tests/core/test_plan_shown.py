"""The plan that people see tells the truth while a step is under way (R26)."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from standfast import Pipeline, Run, tool
from standfast.testing import lab


class Notes(BaseModel):
    done: list[str] = []


@tool
async def work(what: str) -> str:
    return what


@tool(effect="read")
async def wait_at_the_door(what: str) -> str:
    await asyncio.sleep(3600)
    return what


def notes() -> Pipeline[Notes]:
    pipeline = Pipeline("notes", Notes)

    @pipeline.stage("First")
    async def first(run: Run[Notes]) -> None:
        run.state.done.append(await run.call(work(run.instruction)))

    @pipeline.stage("Second")
    async def second(run: Run[Notes]) -> None:
        run.state.done.append(await run.call(wait_at_the_door(run.instruction)))

    return pipeline


async def test_a_stage_is_shown_as_running_while_its_call_is_in_flight() -> None:
    """R26, R27: not only after its boundary."""
    pipeline = notes()
    async with lab([pipeline]) as runs:
        run = await runs.start(pipeline, Notes())
        await runs.until(run, call="wait_at_the_door")
        view = await run.view()
        assert [(item.title, item.status, item.step) for item in view.plan] == [
            ("First", "done", 0),
            ("Second", "running", 1),
        ]
        await run.cancel()


async def test_a_rewound_run_shows_the_plan_it_was_rewound_to() -> None:
    """R29: the plan goes back with the state."""
    pipeline = notes()
    async with lab([pipeline]) as runs:
        run = await runs.start(pipeline, Notes())
        await runs.until(run, call="wait_at_the_door")
        assert await run.rewind(0)
        await run.settled()
        assert [item.status for item in (await run.view()).plan] == ["queued", "queued"]


async def test_a_redirected_stage_is_shown_with_its_new_text_while_it_runs() -> None:
    """R5: the title is the instruction, and people see it as soon as the agent acts on it."""
    pipeline = notes()
    async with lab([pipeline]) as runs:
        run = await runs.start(pipeline, Notes())
        await runs.until(run, call="wait_at_the_door")
        assert await run.redirect("Second, but shorter")
        async for _ in run.events():
            view = await run.view()
            if view.plan[1].title == "Second, but shorter" and view.in_flight:
                break
        assert view.plan[1].status == "running"
        await run.cancel()


async def test_a_redirect_rewrites_one_stage_and_not_the_one_after_it() -> None:
    """R5: read once, although the boundary that says so is committed together with the next stage's first call."""
    pipeline = Pipeline("notes", Notes)

    @pipeline.stage("First")
    async def first(run: Run[Notes]) -> None:
        run.state.done.append(await run.call(work(run.instruction)))

    @pipeline.stage("Second")
    async def second(run: Run[Notes]) -> None:
        run.state.done.append(await run.call(work(run.instruction)))

    @pipeline.stage("Third")
    async def third(run: Run[Notes]) -> None:
        run.state.done.append(run.instruction)

    async with lab([pipeline]) as runs:
        run = await runs.start(pipeline, Notes())
        await runs.until(run, call="work")
        assert await run.redirect("Changed")
        assert (await run.result()).done == ["Changed", "Second", "Third"]
