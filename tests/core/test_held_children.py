"""A parent whose child does not go on says so (R27)."""

from __future__ import annotations

import pytest
from pydantic import BaseModel
from tests.helpers import held

from standfast import Done, Run, RunHeld, agent, child
from standfast.testing import lab


class Nothing(BaseModel):
    pass


@agent("kid")
async def kid(run: Run[Nothing]) -> Done[None]:
    raise ValueError("it broke")


@agent("parent")
async def parent(run: Run[Nothing]) -> Done[None]:
    return Done(await run.call(child(kid, Nothing())))


async def test_a_parent_says_that_its_child_is_held_by_an_error() -> None:
    async with lab([parent, kid]) as runs:
        run = await runs.start(parent, Nothing())
        with pytest.raises(RunHeld, match=r"child .*: paused \(error\)") as caught:
            await run.result(timeout=120)
        assert "paused (error)" in caught.value.view.waiting_for
        assert "paused (error)" in (await run.view()).waiting_for


async def test_a_child_whose_agent_nobody_drives_is_refused_at_its_call() -> None:
    async with lab([parent]) as runs:
        view = await held(await runs.start(parent, Nothing()), "error")
        assert "no driver knows the agent 'kid'" in view.error
        assert len(await runs.list()) == 1
