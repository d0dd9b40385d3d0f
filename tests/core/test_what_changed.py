"""What a person changed while a run was held is told in one line, in the view and in the resume event (R4)."""

from __future__ import annotations

import pytest
from tests.core.looking import events_of, status_is
from tests.core.sending import paused_before_step_one, sender, world
from tests.helpers import eventually

from standfast import events as ev
from standfast.testing import lab

pytestmark = pytest.mark.usefixtures("fresh_worlds")


async def test_the_one_line_diff_is_in_the_view_and_in_the_resume_event() -> None:
    """R4, R29: edits, redirects and budgets made while paused are told in one line."""
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        assert (await run.view()).changed == ""
        assert await run.edit({"items": ["a", "z"]}, by="ann")
        view = await run.view()
        assert "items" in view.changed
        assert "z" in view.changed
        assert "\n" not in view.changed
        assert await run.redirect("be\nbrief", when="next")
        assert await run.resume(budget={"steps": 50})
        changed = (await run.view()).changed
        assert "items" in changed
        assert "be brief" in changed
        assert "steps=50" in changed
        assert "\n" not in changed
        assert await run.result() == 2
        (resumed,) = await events_of(run, ev.ResumeAsked)
        assert resumed.changed == changed
        assert world.sent == ["a", "z"]


async def test_an_edit_that_is_taken_back_is_no_change() -> None:
    """R4: the diff is against the state at the pause, not a list of edits."""
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        await run.edit({"sent": 7})
        assert "sent" in (await run.view()).changed
        await run.edit({"sent": 1})
        assert (await run.view()).changed == ""


async def test_a_second_pause_begins_with_an_empty_diff() -> None:
    """R4: what was changed in an earlier pause is not shown again in the next resume."""
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        world.door.clear()
        await run.edit({"items": ["a", "z", "y"]})
        await run.resume()
        await eventually(lambda: "z" in world.sent)
        await run.pause()
        world.door.set()
        await status_is(run, "paused")
        assert (await run.view()).changed == ""
        await run.resume()
        await run.result()
        resumes = await events_of(run, ev.ResumeAsked)
        assert [bool(e.changed) for e in resumes] == [True, False]
