"""A redirect may make a step ask for other children: those it had begun are not left running (R3)."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Done, Run, agent, child, tool, use
from standfast.testing import Lab, lab


class Gates:
    def __init__(self) -> None:
        self.begun: list[str] = []
        self.kid = asyncio.Event()
        self.boss = asyncio.Event()


class Task(BaseModel):
    name: str = ""


@tool(effect="read")
async def work(name: str) -> str:
    gates = use(Gates)
    gates.begun.append(name)
    await (gates.boss if name == "boss" else gates.kid).wait()
    return name


@agent("kid")
async def kid(run: Run[Task]) -> Done[str]:
    return Done(await run.call(work(run.state.name)))


@agent("boss")
async def boss(run: Run[Task]) -> Done[str] | None:
    """Has a child do it, unless somebody says otherwise; then it has another step of its own."""
    if run.step == 1:
        return Done(await run.call(work("boss")))
    if not run.take_redirects():
        await run.call(child(kid, Task(name="kid")))
    return None


async def statuses(runs: Lab) -> dict[str, str]:
    return {view.agent: view.status for view in await runs.list()}


async def test_a_child_that_the_new_attempt_does_not_ask_for_is_cancelled_at_the_steps_end() -> None:
    """Ruling "Child runs"."""
    gates = Gates()
    async with lab([boss, kid], provide={Gates: gates}) as runs:
        run = await runs.start(boss, Task())
        await eventually(lambda: gates.begun == ["kid"])
        await run.redirect("do it yourself", when="now")
        await eventually(lambda: "boss" in gates.begun)

        async def cancelled() -> bool:
            return (await statuses(runs))["kid"] == "cancelled"

        await eventually(cancelled)
        assert (await statuses(runs))["boss"] == "running"
        gates.boss.set()
        assert await run.result(timeout=120) == "boss"


async def test_a_child_that_the_new_attempt_asks_for_again_goes_on() -> None:
    """Ruling "Child runs": a repeated call finds the same child."""
    gates = Gates()
    async with lab([boss, kid], provide={Gates: gates}) as runs:
        run = await runs.start(boss, Task())
        await eventually(lambda: gates.begun == ["kid"])
        await run.pause()
        await run.settled(10)
        await run.resume()
        gates.kid.set()
        gates.boss.set()
        assert await run.result(timeout=120) == "boss"
        assert await statuses(runs) == {"boss": "done", "kid": "done"}
        assert len(await runs.list()) == 2
