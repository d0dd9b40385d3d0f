"""An agent whose steps are laid down in its state, and a world that remembers keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel
from tests.helpers import held

from standfast import (
    CallFailed,
    CannotUndo,
    Done,
    Handle,
    Log,
    NotPerformed,
    Performed,
    Run,
    agent,
    idempotency_key,
    tool,
    use,
)
from standfast.testing import Lab, lab


class World:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.keys: dict[str, list[str]] = {}  # by what was done
        self.open = asyncio.Event()
        self.broken: set[str] = set()  # these raise
        self.no_undo: set[str] = set()  # the undo of these fails
        self.slow_undo: set[str] = set()  # the undo of these waits for `open`
        self.nothing: set[str] = set()  # these raise NotPerformed

    def do(self, what: str) -> None:
        self.log.append(what)
        self.keys.setdefault(what, []).append(idempotency_key())


class Trip(BaseModel):
    steps: list[list[str]]
    done: list[str] = []
    diary: Log[str] = Log()


async def take_back(p: Performed[str, None]) -> None:
    world = use(World)
    what = p.args["what"]
    if what in world.no_undo:
        raise CannotUndo(f"{what} is for ever")
    world.log.append(f"undo {what}")
    if what in world.slow_undo:
        await world.open.wait()


async def _act(what: str) -> str:
    world = use(World)
    world.do(what)
    if what in world.nothing:
        raise NotPerformed(f"{what} was refused")
    if what in world.broken:
        raise OSError(f"{what} broke")
    return f"{what}!"


write = tool(undo=take_back, name="write")(_act)
read = tool(effect="read", name="read")(_act)


@tool(effect="read")
async def wait() -> None:
    await use(World).open.wait()


async def travel(run: Run[Trip]) -> Done[list[str]] | None:
    for op in run.state.steps[run.step]:
        kind, _, rest = op.partition(":")
        what, _, key = rest.partition("@")
        if kind == "wait":
            await run.call(wait())
        elif kind == "try":
            try:
                await run.call(write(what))
            except CallFailed as error:
                run.state.done.append(f"{error.type}: {error.message}")
        else:
            call = write(what) if kind == "write" else read(what)
            run.state.done.append(await run.call(call, key=key or None))
    run.state.diary.append(f"step {run.step}")
    return Done(run.state.done) if run.step + 1 == len(run.state.steps) else None


@agent("traveller", tools=[write, read, wait])
async def traveller(run: Run[Trip]) -> Done[list[str]] | None:
    return await travel(run)


@asynccontextmanager
async def a_world(*agents: Any) -> AsyncIterator[tuple[Lab, World]]:
    world = World()
    async with lab([traveller, *agents], provide={World: world}) as runs:
        yield runs, world


async def stopped_in_step(runs: Lab, steps: list[list[str]], **options: Any) -> Handle[Any]:
    """A run of these steps, paused in its last step, which waits."""
    run = await runs.start(traveller, Trip(steps=steps), **options)
    await runs.until(run, call="wait")
    await run.pause()
    await held(run, "user")
    return run
