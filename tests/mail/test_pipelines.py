"""A pipeline's redirect rewrites the title of the stage it is in; past the last one it asks (R5)."""

from __future__ import annotations

import pytest
from tests.helpers import eventually
from tests.mail.world import Task, a_world, mail, report, status

from standfast import events as ev


async def test_now_rewrites_the_instruction_of_the_stage_in_progress() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(report, Task())
        await eventually(lambda: "think Collect" in world.log)
        assert await run.redirect("Collect from June")
        await eventually(lambda: "think Collect from June" in world.log)
        world.open.set()
        result = await run.result(timeout=120)
        assert result.heard == [["Collect from June"] * 2, ["Publish"]]
        assert [item.title for item in (await run.view()).plan] == ["Collect from June", "Publish"]
        assert [(m.status, m.step) for m in await mail(run)] == [("consumed", 0)]


async def test_next_rewrites_the_stage_that_follows() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(report, Task())
        await eventually(lambda: "think Collect" in world.log)
        assert await run.redirect("Publish quietly", when="next")
        world.open.set()
        assert (await run.result(timeout=120)).heard == [["Collect", "Collect"], ["Publish quietly"]]


async def test_the_stages_are_shown_queued_before_they_run() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(report, Task())
        await eventually(lambda: "think Collect" in world.log)
        assert [(item.title, item.status) for item in (await run.view()).plan] == [
            ("Collect", "running"),
            ("Publish", "queued"),
        ]


@pytest.mark.parametrize("answer", ["take the stage again", "finish"])
async def test_a_redirect_past_the_last_stage_asks_what_to_do(answer: str) -> None:
    async with a_world() as (runs, world):
        last = world.shut_at("think Publish")
        run = await runs.start(report, Task())
        await eventually(lambda: "think Publish" in world.log)
        assert await run.redirect("Publish louder", when="next")
        last.set()
        view = await status(run, "paused", "done")
        assert view.holds == ("asks",)
        (need,) = view.needs
        assert "Publish louder" in need.text
        assert need.choices == ("take the stage again", "finish")
        assert await run.choose(need, answer)
        result = await run.result(timeout=120)
        again = [["Publish louder"]] if answer != "finish" else []
        assert result.heard == [["Collect", "Collect"], ["Publish"], *again]
        (letter,) = await mail(run)
        if answer == "finish":  # nothing has read it, nothing has applied it
            assert (letter.status, letter.fate) == ("returned", "returned")
            assert letter.disposition == "returned: not applied: all stages were done, and the answer was “finish”"
        else:
            assert (letter.status, letter.fate, letter.step) == ("consumed", "applied", 2)
        assert (await run.view()).not_read == ()
        notes = [event.text async for event in run.events() if isinstance(event, ev.Noted)]
        assert any("'Publish louder' was not acted on" in note for note in notes) == (answer == "finish")
