"""Answers to an AG-UI interrupt that make no sense: 422 with what to send, and the run waits on (R34)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.helpers import held
from tests.limits.test_server import ann
from tests.programs.served import Count, counter

from standfast import Budget, Handle, Runtime
from standfast.server import control_app


@asynccontextmanager
async def at_its_cap(folder: Path) -> AsyncIterator[tuple[Handle[Any], httpx2.AsyncClient, str]]:
    """A run that waits for a larger budget, and is paused by somebody too; and the id of what it needs."""
    async with Runtime(folder / "runs.db", [counter]) as runs:
        run = await runs.start(counter, Count(to=5), id="r", budget=Budget(steps=1))
        view = await held(run, "budget")
        await run.pause()
        app = control_app(runs, who=ann)
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://here") as client:
            yield run, client, view.needs[0].id
        await app.state.surface.close()


def _answers(*answers: tuple[str, Any]) -> dict[str, Any]:
    resume = [{"interruptId": id_, "status": "resolved", "payload": payload} for id_, payload in answers]
    return {"threadId": "t", "runId": "x", "messages": [], "resume": resume}


CANCEL = {"verb": "cancel", "args": {}}


@pytest.mark.parametrize(("second", "status"), [(("nothing", None), 409), (("", None), 409), ((None, CANCEL), 422)])
async def test_of_several_answers_none_is_given_if_one_makes_no_sense(
    tmp_path: Path, second: tuple[str | None, Any], status: int
) -> None:
    async with at_its_cap(tmp_path) as (run, client, need):
        before = await run.view()
        given = _answers((need, CANCEL), (second[0] if second[0] is not None else need, second[1]))
        answer = await client.post("/agui/runs/r", json=given)
        assert answer.status_code == status, answer.text
        assert "taken" not in answer.json()
        assert ((await run.view()).seq, (await run.view()).status) == (before.seq, "paused"), "nothing was changed"


async def test_answers_that_were_taken_before_the_run_said_no_are_told(tmp_path: Path) -> None:
    async with at_its_cap(tmp_path) as (run, client, need):
        answer = await client.post("/agui/runs/r", json=_answers((need, CANCEL), ("user", None)))
        assert (answer.status_code, answer.json().get("taken")) == (409, 1), answer.text
        assert "answers before it were taken: 1" in answer.json()["detail"]
        assert (await run.view()).status in ("cancelling", "cancelled")


@pytest.mark.parametrize("args", [5, [1, 2], "ab", True, [["a", 1]]])
async def test_arguments_that_are_no_object_are_refused(tmp_path: Path, args: Any) -> None:
    async with Runtime(tmp_path / "runs.db", [counter]) as runs:
        run = await runs.start(counter, Count(to=5), id="r", budget=Budget(steps=1))
        view = await held(run, "budget")
        app = control_app(runs, who=ann)
        given = {
            "threadId": "t" * 200,
            "runId": "x" * 200,
            "messages": [{"role": "user", "content": "go", "id": "m" * 5_000}],
            "resume": [
                {
                    "interruptId": view.needs[0].id,
                    "status": "resolved",
                    "payload": {"verb": view.needs[0].choices[0].verb, "args": args},
                }
            ],
        }
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://here") as client:
            answer = await client.post("/agui/runs/r", json=given)
            assert (answer.status_code, answer.json()["hint"]) == (422, "args are an object")
            assert (await run.view()).seq == view.seq, "nothing was changed"
            given["resume"][0]["payload"] = {"verb": "cancel", "args": {}}  # type: ignore[index]
            assert (await client.post("/agui/runs/r", json=given)).status_code == 200, "long ids are no obstacle"
        await app.state.surface.close()
