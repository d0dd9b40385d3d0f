"""Agents that tests drive in processes of their own."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel
from tests.programs.outside import Outside

from standfast import Done, Happened, Log, NotHappened, Performed, Run, agent, child, idempotency_key, tool, use

UNTIL_TOLD = -1.0  # seconds that a payment takes: until the test says so, by a "told" in the world outside


@tool(effect="read")
async def peek(run: str, n: int, seconds: float) -> int:
    use(Outside).happen("peek", run, idempotency_key())
    await asyncio.sleep(seconds)
    return n


async def forget(p: Performed[str, None]) -> None:
    use(Outside).happen("undid", p.args["run"], p.key)


@tool
async def pay(run: str, n: int, seconds: float) -> str:
    """A write that nobody can check afterwards."""
    use(Outside).happen("began", run, idempotency_key())
    while seconds == UNTIL_TOLD and not use(Outside).count("told"):
        await asyncio.sleep(0.01)
    await asyncio.sleep(max(0.0, seconds))
    use(Outside).happen("did", run, idempotency_key())
    return f"paid {n}"


async def was_posted(p: Performed[str, None]) -> Happened | NotHappened:
    return Happened(f"posted {p.args['n']}") if use(Outside).count("did")[p.key] else NotHappened()


@tool(undo=forget, probe=was_posted)
async def post(run: str, n: int, seconds: float) -> str:
    """A write that can be checked and undone."""
    use(Outside).happen("began", run, idempotency_key())
    await asyncio.sleep(seconds)
    use(Outside).happen("did", run, idempotency_key())
    return f"posted {n}"


class Work(BaseModel):
    steps: int = 5
    seconds: float = 0.02
    tool: str = "post"
    done: list[str] = []
    notes: Log[str] = Log()


@agent("walker", tools=[peek, post, pay])
async def walker(run: Run[Work]) -> Done[list[str]] | None:
    """Each step looks, acts, and notes what it did."""
    s = run.state
    n = await run.call(peek(run.id, run.step, s.seconds if s.tool == "peek" else 0.0))
    if s.tool != "peek":
        s.done.append(await run.call((post if s.tool == "post" else pay)(run.id, n, s.seconds)))
    s.notes.append(f"step {n}" + "." * 200)
    return Done(s.done) if len(s.notes) >= s.steps else None


class Parent(BaseModel):
    children: int = 2


@agent("parent")
async def parent(run: Run[Parent]) -> Done[list[list[str]]]:
    return Done([await run.call(child(walker, Work(steps=n + 1, seconds=0.0))) for n in range(run.state.children)])


AGENTS: list[Any] = [walker, parent]
