"""A small world of effects, and an agent that does what its state says, op by op."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from standfast import (
    CannotUndo,
    Done,
    Happened,
    Json,
    NotHappened,
    Performed,
    Run,
    agent,
    child,
    idempotency_key,
    tool,
    use,
)
from standfast.testing import Lab, lab


class World:
    """What has really happened, in order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.seen: list[Performed[Any, Any]] = []  # what undos were given
        self.open = asyncio.Event()  # `wait` ends when it is set
        self.undo_open = asyncio.Event()  # undos named in `hang` end when it is set
        self.hang: set[str] = set()
        self.failing: dict[str, int] = {}  # an undo raises so many times
        self.probe: Happened | NotHappened | None = None
        self.keys: list[str] = []

    def count(self, what: str) -> int:
        return self.log.count(what)


class Script(BaseModel):
    """`steps[k]` is what step k does: "tool:name" each."""

    steps: list[list[str]]


async def take_back(p: Performed[str, Any]) -> None:
    world = use(World)
    name = p.args["name"]
    world.seen.append(p)
    world.log.append(f"undo {name}")
    if name in world.hang:
        await world.undo_open.wait()
    if world.failing.get(name, 0) > 0:
        world.failing[name] -= 1
        raise OSError(f"{name} is out of reach")
    world.log.append(f"undone {name}")


async def say_impossible(p: Performed[str, None]) -> None:
    raise CannotUndo("the letter is in the post")


async def look_before(name: str) -> Json:
    world = use(World)
    world.log.append(f"before {name}")
    return {"was": len(world.log)}


async def ask_world(p: Performed[str, None]) -> Happened | NotHappened | None:
    world = use(World)
    world.log.append(f"probe {p.args['name']}")
    return world.probe


async def _do(name: str) -> str:
    world = use(World)
    world.keys.append(idempotency_key())
    world.log.append(f"do {name}")
    return f"done {name}"


async def _slowly(name: str) -> str:
    done = await _do(name)
    await use(World).open.wait()
    return done


put = tool(undo=take_back, name="put")(_do)
draft = tool(undo=take_back, settles="run", name="draft")(_do)
lock = tool(undo=take_back, settles="never", name="lock")(_do)
noted = tool(before=look_before, undo=take_back, name="noted")(_do)
post = tool(undo=say_impossible, name="post")(_do)
bare = tool(effect="write", name="bare")(_do)
slow = tool(undo=take_back, name="slow")(_slowly)
probed = tool(undo=take_back, probe=ask_world, name="probed")(_slowly)


@tool(effect="read")
async def wait(name: str) -> None:
    """A call that can be cut: it keeps its step in flight."""
    await use(World).open.wait()


@tool(effect="read")
async def something_done() -> None:
    while not use(World).log:
        await asyncio.sleep(0.01)


@tool(undo=take_back)
async def broken(name: str) -> str:
    """Raises after its effect: nobody knows what happened."""
    await _do(name)
    raise RuntimeError("the line went dead")


TOOLS: dict[str, Any] = {t.name: t for t in (put, draft, lock, noted, post, bare, slow, probed, wait, broken)}


async def perform(run: Run[Script]) -> Done[str] | None:
    for op in run.state.steps[run.step]:
        kind, _, name = op.partition(":")
        if kind == "both":  # two calls side by side: "both:slow x+broken y"
            await run.call_all([TOOLS[k](n) for k, n in (part.split(" ") for part in name.split("+"))])
        elif kind == "gather":
            await asyncio.gather(*(run.call(TOOLS[k](n)) for k, n in (part.split(" ") for part in name.split("+"))))
        elif kind == "with_child":  # fails while its child has a write in flight
            going = asyncio.ensure_future(run.call(child(helper, Script(steps=[[name.replace(" ", ":")]]))))
            await run.call(something_done())
            del going
            raise ValueError("left its child")
        elif kind == "raise":
            raise ValueError(name)
        elif kind == "child":
            await run.call(child(helper, Script(steps=[[f"{part.replace(' ', ':')}"] for part in name.split("+")])))
        else:
            await run.call(TOOLS[kind](name))
    return Done("all done") if run.step + 1 == len(run.state.steps) else None


@agent("doer", tools=list(TOOLS.values()))
async def doer(run: Run[Script]) -> Done[str] | None:
    return await perform(run)


@agent("failer", tools=list(TOOLS.values()), on_error="fail")
async def failer(run: Run[Script]) -> Done[str] | None:
    return await perform(run)


@agent("helper", tools=list(TOOLS.values()))
async def helper(run: Run[Script]) -> Done[str] | None:
    return await perform(run)


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[Lab, World]]:
    """A lab in which the agents above live, and their world."""
    world = World()
    async with lab([doer, failer, helper], provide={World: world}) as runs:
        yield runs, world
