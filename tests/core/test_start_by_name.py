"""A run started by its agent's name, where the code is elsewhere, is the run that the code would have started (R17)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from standfast import Budget, Done, Run, RunIdTaken, Runtime, agent


class Part(BaseModel):
    size: float = 1.0


class Order(BaseModel):
    item: str
    count: int = 1
    tags: list[str] = Field(default_factory=list[str])
    part: Part = Part()
    parts: list[Part] = []


@agent("buyer", budget=Budget(steps=7, cost=2.5, then="cancel"))
async def buyer(run: Run[Order]) -> Done[int]:
    return Done(run.state.count)


async def known(store: Path) -> None:
    async with Runtime(store, [buyer]):
        pass  # the store knows its contract now


async def test_a_run_started_by_name_has_its_agents_budget(tmp_path: Path) -> None:
    """R17: the cap is not lost because the code is in another process."""
    await known(tmp_path / "s.db")
    async with Runtime(tmp_path / "s.db", drive=False) as runs:
        run = await runs.start("buyer", {"item": "tea"})
        assert (await run.view()).budget == buyer.budget
        less = await runs.start("buyer", {"item": "tea"}, budget=Budget(steps=3))
        budget = (await less.view()).budget
        assert (budget.steps, budget.cost) == (3, 2.5)


@pytest.mark.parametrize(
    "given", [{"item": "tea"}, {"item": "tea", "count": 1, "part": {"size": 1}}, {"item": "tea", "tags": []}]
)
async def test_starting_the_same_by_name_and_with_code_gives_one_run(tmp_path: Path, given: dict[str, object]) -> None:
    """Ruling "start with an existing id": the same id, agent and state, whoever asks; defaults may be left out."""
    await known(tmp_path / "s.db")
    async with Runtime(tmp_path / "s.db", drive=False) as runs:
        by_name = await runs.start("buyer", given, id="r1")
        assert (await runs.start(buyer, Order(item="tea"), id="r1")).id == by_name.id
        await runs.start(buyer, Order(item="tea"), id="r2")
        await runs.start("buyer", given, id="r2")
        assert len(await runs.list()) == 2


async def test_another_state_under_the_same_id_is_refused_by_name_too(tmp_path: Path) -> None:
    """Ruling "start with an existing id": a default that was changed is another state."""
    await known(tmp_path / "s.db")
    async with Runtime(tmp_path / "s.db", drive=False) as runs:
        await runs.start(buyer, Order(item="tea", part=Part(size=2)), id="r1")
        with pytest.raises(RunIdTaken):
            await runs.start("buyer", {"item": "tea"}, id="r1")
        await runs.start("buyer", {"item": "tea"}, id="r2")
        with pytest.raises(RunIdTaken):
            await runs.start(buyer, Order(item="tea", tags=["a"]), id="r2")
