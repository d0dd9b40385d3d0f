"""Agents that read redirects, and one that never does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Done, Handle, MailView, Need, Performed, Pipeline, Run, RunView, agent, tool, use
from standfast.testing import Lab, lab


class World:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.open = asyncio.Event()  # every thought and long write ends when it is set
        self.shut: dict[str, asyncio.Event] = {}  # but for these lines, which wait for their own

    def shut_at(self, line: str) -> asyncio.Event:
        """Everything passes but this line, which waits until the event is set."""
        self.open.set()
        return self.shut.setdefault(line, asyncio.Event())

    async def do(self, line: str) -> None:
        self.log.append(line)
        await self.shut.get(line, self.open).wait()


class Task(BaseModel):
    """`steps` steps, each doing what was said last."""

    steps: int = 3
    heard: list[list[str]] = []


async def unwrite(p: Performed[str, None]) -> None:
    world = use(World)
    line = f"unwrite {p.args['text']}"
    world.log.append(line)
    if line in world.shut:
        await world.shut[line].wait()


@tool(undo=unwrite)
async def write(text: str) -> str:
    await use(World).do(f"write {text}")
    return text


@tool(undo=unwrite)
async def jot(text: str) -> str:
    use(World).log.append(f"jot {text}")
    return text


@tool(effect="read")
async def think(text: str) -> str:
    await use(World).do(f"think {text}")
    return text


@agent("listener")
async def listener(run: Run[Task]) -> Done[list[list[str]]] | None:
    """Reads mail at the beginning of each step, thinks, and jots down what it heard."""
    heard = run.take_redirects()
    run.state.heard.append(heard)
    await run.call(think(f"{run.step}: {', '.join(heard)}"))
    return Done(run.state.heard) if run.step + 1 >= run.state.steps else None


@agent("writer")
async def writer(run: Run[Task]) -> Done[list[list[str]]] | None:
    """The same with an effect that takes long."""
    heard = run.take_redirects()
    run.state.heard.append(heard)
    await run.call(write(f"{run.step}: {', '.join(heard)}"))
    return Done(run.state.heard) if run.step + 1 >= run.state.steps else None


@agent("jotter")
async def jotter(run: Run[Task]) -> Done[list[list[str]]] | None:
    """An effect in every step, then a thought that can be cut."""
    heard = run.take_redirects()
    run.state.heard.append(heard)
    await run.call(jot(f"{run.step}: {', '.join(heard)}"))
    await run.call(think(str(run.step)))
    return Done(run.state.heard) if run.step + 1 >= run.state.steps else None


@agent("obedient")
async def obedient(run: Run[Task]) -> Done[list[str]]:
    """Reads its instruction twice, without a plan."""
    before = run.instruction
    await run.call(think("begin"))
    return Done([before, run.instruction])


@agent("clerk")
async def clerk(run: Run[Task]) -> Done[list[list[str]]] | None:
    """Reads messages at the beginning and at the end of each step."""
    heard = [m.text for m in run.take_messages()]
    await run.call(think(f"{run.step}: {', '.join(heard)}"))
    run.state.heard.append([*heard, *(m.text for m in run.take_messages())])
    return Done(run.state.heard) if run.step + 1 >= run.state.steps else None


@agent("deaf")
async def deaf(run: Run[Task]) -> Done[str]:
    await run.call(think("deaf"))
    return Done("did not look")


@agent("closed", redirects=False)
async def closed(run: Run[Task]) -> Done[str]:
    await run.call(think("closed"))
    return Done("never asked")


report: Pipeline[Task] = Pipeline("report", Task)


@report.stage("Collect")
async def collect(run: Run[Task]) -> None:
    run.state.heard.append([run.instruction, run.instruction])
    await run.call(jot(run.instruction))
    await run.call(think(run.instruction))


@report.stage("Publish")
async def publish(run: Run[Task]) -> None:
    run.state.heard.append([run.instruction])
    await run.call(think(run.instruction))


@asynccontextmanager
async def a_world() -> AsyncIterator[tuple[Lab, World]]:
    world = World()
    async with lab([listener, writer, jotter, obedient, clerk, deaf, closed, report], provide={World: world}) as runs:
        yield runs, world


async def status(run: Handle[Any], *wanted: str) -> RunView:
    """The view, once the run is in one of these statuses."""
    async with asyncio.timeout(120):
        while (view := await run.view()).status not in wanted:
            await asyncio.sleep(0.01)
        return view


async def unread(run: Handle[Any]) -> Need:
    """The need for a redirect that was not read, once it is there."""

    async def found() -> Need | None:
        return next((need for need in (await run.view()).needs if need.kind == "unread"), None)

    need: Need = await eventually(found)
    return need


async def redirected(run: Handle[Any], world: World, at: str, text: str, **ask: Any) -> None:
    """A redirect is sent while the run is at this line, and the run comes to the line again with it."""
    await eventually(lambda: at in world.log)
    before = world.log.count(at)
    assert await run.redirect(text, **ask)
    await eventually(lambda: world.log.count(at) > before)


async def missing(run: Handle[Any], world: World, at: str = "think step 0", **ask: Any) -> Need:
    """The run ends the step of this line, which was shut, without reading what it was sent: the need for it."""
    await redirected(run, world, at, ask.pop("text", "something else"), **ask)
    world.shut[at].set()
    return await unread(run)


async def mail(run: Handle[Any]) -> list[MailView]:
    return list((await run.view()).mail)
