"""The page, the commands and the terminal count the items of a plan alike (R25, R26)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from standfast import Done, Run, Runtime, agent
from standfast.cli.words import plan_position
from standfast.records import PlanItem

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "page/test/plan_positions.json").read_text())


@agent("idle")
async def idle(run: Run[None]) -> Done[int]:
    return Done(run.step)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["what"])
async def test_a_plans_place_is_counted_as_on_the_page(case: dict[str, Any]) -> None:
    async with Runtime(":memory:", [idle], drive=False) as runs:
        view = await (await runs.start(idle, None)).view()
    plan = tuple(PlanItem(str(n), "", status) for n, status in enumerate(case["plan"]))
    assert plan_position(replace(view, plan=plan, status=case["status"])) == case["position"]
