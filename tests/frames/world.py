"""An agent that thinks in frames, and a world in which its thoughts and acts stop where a test wants them to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from standfast import Done, Idle, Performed, Run, agent, ask, file_content, tool, use
from standfast.testing import Lab, lab


class World:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.shut: dict[str, asyncio.Event] = {}

    def shut_at(self, line: str) -> asyncio.Event:
        """What says this line waits there until the event is set."""
        return self.shut.setdefault(line, asyncio.Event())

    async def do(self, line: str) -> None:
        self.log.append(line)
        if line in self.shut:
            await self.shut[line].wait()


class Desk(BaseModel):
    """What is on the clerk's desk, and what it has seen."""

    parts: int = 3
    answers: int = 1  # steps that a message takes
    relies_on: str = ""
    tokens: int = 0
    reported: bool = False
    seen: list[str] = []


async def unsend(p: Performed[str, None]) -> None:
    use(World).log.append(f"unsend {p.args['what']}")


@tool(effect="read")
async def think(what: str) -> str:
    await use(World).do(f"think {what}")
    return what


@tool(undo=unsend)
async def send(what: str) -> str:
    await use(World).do(f"send {what}")
    return what


@tool(effect="irreversible")
async def wire(amount: int) -> int:
    await use(World).do(f"wire {amount}")
    return amount


@tool
async def fail(what: str) -> str:
    raise ValueError(f"cannot {what}")


@agent("clerk", max_frames=3, frame_expiry=600, max_held_tokens=1000, tools=[send])
async def clerk(run: Run[Desk]) -> Done[list[str]] | None:
    """A report in parts; messages are answered in between, each in a frame of its own."""
    state = run.state
    for message in run.take_messages(limit=1):
        state.seen.append(f"read {message.text}")
        async with run.frame(
            f"answer {message.text}", [f"part {n}" for n in range(state.answers)], message=message
        ) as f:
            await run.call(think(f"{message.text} {f.done}"))
            f.advance()
            run.reply(message, f"re: {message.text}")
        if f.status != "finished":
            return None
    if run.frames and run.frames[-1].kind != "task":
        async with run.frame(run.frames[-1].goal) as f:
            await run.call(think(f"{f.goal} {f.done}"))
            f.advance()
        return None
    if state.reported:
        return Done(state.seen)
    async with run.frame("report", [f"part {n}" for n in range(state.parts)]) as f:
        f.tokens = state.tokens
        if state.relies_on and not f.done:
            await run.relies_on("invoice", file_content(state.relies_on))
        state.seen.append(f"{f.next}: {f.returned}")
        await run.call(think(f"report {f.done}"))
        f.advance()
    state.reported = f.status == "finished"
    return Done(state.seen) if state.reported and not run.frames else None


@agent("careless")
async def careless(run: Run[Desk]) -> Done[str]:
    """Says Done in the middle of a thought."""
    async with run.frame("report", ["first", "second"]) as f:
        await run.call(think(str(f.next)))
        f.advance()
    return Done("all done")


@agent("nested", max_frames=4)
async def nested(run: Run[Desk]) -> Done[list[str]]:
    """A thought within a thought within a thought."""
    seen = run.state.seen
    async with run.frame("outer", ["one", "two"]) as outer:
        outer.advance("half way")
        async with run.frame("middle") as middle:
            async with run.frame("inner") as inner:
                seen.append(f"{[f.goal for f in run.frames]} {outer.status} {middle.status} {inner.status}")
                await run.call(think("inner"))
            seen.append(run.returned)
        seen.append(run.returned)
        outer.advance()
    return Done(seen)


@agent("greedy", max_frames=2)
async def greedy(run: Run[Desk]) -> Done[None]:
    async with run.frame("one"), run.frame("two"), run.frame("three"):
        return Done(None)


@agent("patient")
async def patient(run: Run[Desk]) -> Done[list[str]] | Idle:
    """Waits for mail; one thought stays open over many steps."""
    run.state.seen += [m.text for m in run.take_messages()]
    if run.state.reported:
        return Done(run.state.seen)
    async with run.frame("wait for an order") as f:
        f.stay_open()
        if "go" in run.state.seen:
            f.finish()
    run.state.reported = f.status == "finished"
    return Done(run.state.seen) if run.state.reported else Idle()


@agent("asker", tools=[send, wire, fail, think])
async def asker(run: Run[Desk]) -> Done[list[str]]:
    """Sends, asks a person, and sends again."""
    run.state.seen += [f"{m.text} {m.data}" for m in run.take_messages()]
    run.state.seen.append(await run.call(send("first")))
    run.state.seen.append(await run.call(ask("Go on?", ["yes", "no"])))
    run.state.seen.append(await run.call(send("second")))
    return Done(run.state.seen)


@agent("reader", tools=[send, wire, think])
async def reader(run: Run[Desk]) -> Done[list[str]]:
    """Reads while its question is open, so that nothing of it is held for that."""
    run.take_messages()
    return Done(list(await run.call_all([think("aside"), ask("Go on?", ["yes", "no"])])))


@agent("one by one")
async def one_by_one(run: Run[Desk]) -> Done[list[str]]:
    """Would be done at once, were it not for its mail."""
    run.state.seen += [m.text for m in run.take_messages(limit=1)]
    await run.call(think("first"))
    return Done(run.state.seen)


class Numbered(BaseModel):
    steps: list[int] = []
    heard: list[str] = []


@agent("numbered", tools=[send, wire, think])
async def numbered(run: Run[Numbered]) -> Done[Numbered] | None:
    """What it does depends on which of its steps this is."""
    run.take_messages()
    run.state.steps.append(run.step)
    if run.step == 0:
        await run.call(send("first"))
        await run.call(wire(1))
    if run.step == 1:
        await run.call(wire(2))
    run.state.heard += [f"{text} at {run.step}" for text in run.take_redirects()]
    return Done(run.state) if run.step == 3 else None


@agent("planner", tools=[think])
async def planner(run: Run[Desk]) -> Done[None]:
    """Begins its plan's only item, relies on a file, and asks."""
    run.plan.start(run.plan.upcoming or run.plan.add("look at the file"))
    await run.relies_on("invoice", file_content(run.state.relies_on))
    await run.call(ask("go on?"))
    return Done(None)


@agent("repeater", tools=[send, think])
async def repeater(run: Run[Desk]) -> Done[int] | None:
    """Sends the same in each of two steps."""
    await run.call(send("the same"))
    await run.call(think(f"step {run.step}"))
    return Done(run.step) if run.step == 1 else None


AGENTS = [clerk, careless, nested, greedy, patient, asker, reader, one_by_one, numbered, planner, repeater]


@asynccontextmanager
async def a_world(store: Path | str = ":memory:") -> AsyncIterator[tuple[Lab, World]]:
    world = World()
    async with lab(AGENTS, provide={World: world}, store=str(store)) as runs:
        yield runs, world


async def record(run: Any) -> list[Any]:
    """Everything in the run's record so far."""
    found: list[Any] = run._read(lambda tx, row: [e for _, events in tx.record(row.n, 0, 10_000) for e in events])
    return found


async def said(run: Any, kind: str) -> list[Any]:
    return [e for e in await record(run) if e.type == kind]
