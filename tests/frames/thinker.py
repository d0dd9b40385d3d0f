"""An agent that thinks in frames, and says everything it sees to the record: what histories are made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from tests.races.world import Body, Process

from standfast import Done, Idle, Run, agent, idempotency_key, tool, use

CAP = 3
EXPIRY = 8.0
TOKENS = 1000


class Task(BaseModel):
    """A frame to be opened: its goal, its steps, and what is thought about within it."""

    goal: str
    steps: int = 1
    within: list[Task] = []
    tokens: int = 0


class Mind(BaseModel):
    tasks: list[Task] = []
    one_by_one: bool = False  # reads one message at a time
    hasty: bool = False  # says Done although frames are open, until a person has given them up
    idles: bool = False  # waits for mail at the end, until it is told to end
    over: bool = False
    heard: list[str] = []
    handed_back: list[list[str]] = []


peek: dict[str, Callable[[str], list[str]]] = {}  # what is pending in the store, at this very moment


@tool(effect="read")
async def think(what: str) -> str:
    rng = use(Process).world.rng
    await asyncio.sleep(rng.choice((0.0, 0.001, 0.02, 0.3, 3.0)))
    return what


@tool
async def act(what: str) -> str:
    process = use(Process)
    body = Body(process, "act", idempotency_key())
    await asyncio.sleep(process.world.rng.choice((0.0, 0.02, 0.3, 5.0)))
    body.end("effect")
    await asyncio.sleep(process.world.rng.choice((0.0, 0.0, 0.02)))
    return what


@agent("thinker", max_frames=CAP, frame_expiry=EXPIRY, max_held_tokens=TOKENS)
async def thinker(run: Run[Mind]) -> Done[list[str]] | Idle | None:
    """Reads its mail; then goes on with what is on top, or begins the next task."""
    await _read(run)
    if run.frames:
        await _go_on(run)
    elif run.state.tasks:
        task = run.state.tasks.pop(0)
        await _begin(run, task)
    elif run.state.idles and not run.state.over:
        return Idle()
    else:
        return Done(run.state.heard)
    if run.state.hasty and run.frames and not run.state.tasks:
        return Done(run.state.heard)
    return None


async def _read(run: Run[Mind]) -> None:
    pending = peek["mail"](run.id)
    messages = run.take_messages(limit=1 if run.state.one_by_one else None)
    run.emit("asked", {"step": run.step, "pending": [*pending], "got": [m.id for m in messages]})
    for message in messages:
        run.state.heard.append(message.id)
        data: Any = message.data
        if message.always:
            run.state.handed_back.append([one["tool"] for one in data["performed"]])
            run.reply(message, "thank you")
            continue
        task = Task.model_validate(data)
        if len(run.frames) >= CAP or sum(f.tokens for f in run.frames) > TOKENS:
            run.reply(message, "noted")  # read together with others that stayed open: no room for a frame of its own
            continue
        run.state.over = run.state.over or task.goal.startswith("end")
        async with run.frame(task.goal, steps=_titles(task), message=message) as frame:
            await _work(run, frame, task)
            run.reply(message, f"answer to {message.id}")


async def _begin(run: Run[Mind], task: Task) -> None:
    async with run.frame(task.goal, steps=_titles(task)) as frame:
        await _work(run, frame, task)


async def _go_on(run: Run[Mind]) -> None:
    """One more step of the thought on top, whichever that is."""
    async with run.frame(run.frames[-1].goal) as frame:
        run.emit("on top", {"frame": frame.id, "returned": frame.returned, "why": frame.why})
        if frame.next is not None:
            await run.call(act(f"{frame.goal}/{frame.next}"))
            frame.advance()


async def _work(run: Run[Mind], frame: Any, task: Task) -> None:
    """The first step of a thought, and the thoughts within it."""
    frame.tokens = task.tokens
    await run.call(think(f"{task.goal} begun"))
    for inner in task.within:
        if len(run.frames) < CAP and sum(f.tokens for f in run.frames) <= TOKENS:
            await _begin(run, inner)
    if frame.next is not None and frame.status == "active":
        await run.call(act(f"{task.goal}/{frame.next}"))
        frame.advance()


def _titles(task: Task) -> list[str]:
    return [f"part {n}" for n in range(task.steps)]
