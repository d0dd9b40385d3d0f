"""Agents for a server's workers: quick ones, slow ones, and ones that wedge their worker."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pydantic import BaseModel

from standfast import Done, LLMAgent, Performed, Pipeline, Run, agent, ask, models, say, tool


class Count(BaseModel):
    """How far to count, and how slowly."""

    to: int = 3
    seconds: float = 0.0
    at: int = 0


@tool(effect="read")
async def look(n: int, seconds: float) -> int:
    """Say a few words, slowly."""
    for word in f"looking at number {n} ".split(" "):
        say(word + " ")
        await asyncio.sleep(seconds / 4)
    return n


@agent("counter")
async def counter(run: Run[Count]) -> Done[int] | None:
    """Counts, one number a step."""
    run.state.at = await run.call(look(run.state.at, run.state.seconds)) + 1
    return Done(run.state.at) if run.state.at >= run.state.to else None


class Wedge(BaseModel):
    """How to be stuck: loop, thread, frozen or sleep."""

    how: str = "loop"
    seconds: float = 3600.0
    folder: str = ""
    step: int = 0


async def take_back(p: Performed[None, None]) -> None:
    with (Path(p.args["folder"]) / "world.txt").open("a") as world:
        world.write("undone\n")


@tool(effect="write", undo=take_back, settles="run")
async def draft(folder: str) -> None:
    """Write a draft."""
    with (Path(folder) / "world.txt").open("a") as world:
        world.write("drafted\n")


@tool(effect="read")
async def block_loop(seconds: float) -> None:
    """Block the event loop of the worker."""
    time.sleep(seconds)


@tool(effect="read")
def block_thread(seconds: float) -> None:
    """Block a thread in C code."""
    time.sleep(seconds)


@tool(effect="write")
async def slow_write(seconds: float) -> str:
    """A write that takes its time."""
    await asyncio.sleep(seconds)
    return "written"


@agent("wedger")
async def wedger(run: Run[Wedge]) -> Done[str] | None:
    """Wedges its worker, after it has written a draft."""
    s = run.state
    if s.step == 0:
        s.step = 1
        if s.folder:
            await run.call(draft(s.folder))
        return None
    if s.folder:
        (Path(s.folder) / f"stuck-{run.id}").touch()
    if s.how == "loop":
        await run.call(block_loop(s.seconds))
    elif s.how == "thread":
        await run.call(block_thread(s.seconds))
    else:
        await run.call(slow_write(s.seconds))
    return Done("through")


class Order(BaseModel):
    """An order."""

    item: str = "tea"
    note: str = ""


@tool(effect="irreversible")
async def send(item: str) -> str:
    """Send it for good."""
    return f"sent {item}"


@tool
async def pack(item: str) -> str:
    """Pack it."""
    return f"packed {item}"


shop = Pipeline("shop", Order, tools=[pack])


@shop.stage("Ask for a note")
async def ask_note(run: Run[Order]) -> None:
    run.state.note = await run.call(ask("Which note?", options=["gift", "none"]))


@shop.stage("Send the parcel")
async def send_parcel(run: Run[Order]) -> None:
    await run.call(send(run.state.item), why=run.instruction)


writer = LLMAgent(
    "writer", model=models.scripted("Once upon a time there was a run that could be stopped.", delay=0.02, again=True)
)

novelist = LLMAgent(
    "novelist",
    model=models.scripted(" ".join(f"Chapter {n} of a run." for n in range(60)), delay=0.02, again=True),
)


@agent("quitter", on_error="fail")
async def quitter(run: Run[Count]) -> Done[str]:
    """Fails for good."""
    raise ValueError("nothing to be done")


@agent("quiet")
async def quiet(run: Run[Count]) -> Done[None]:
    """Has nothing to say."""
    return Done(None)


AGENTS = [counter, wedger, shop, writer, novelist, quitter, quiet]
