"""Agents to watch: a pipeline that speaks, one that asks, one that thinks in frames."""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import BaseModel

from standfast import Done, Idle, LLMAgent, Performed, Pipeline, Run, agent, ask, models, say, tool


class Memo(BaseModel):
    seconds: float = 0.0
    title: str = ""
    text: str = ""


@tool(effect="read")
async def speak(text: str, seconds: float) -> str:
    """Say a text, then wait."""
    say(text)
    await asyncio.sleep(seconds)
    say(" The end.")
    return text


async def discard(p: Performed[str, None]) -> None:
    """Nothing was written anywhere."""


@tool(effect="write", undo=discard, settles="run")
async def draft(text: str) -> str:
    return text


memo = Pipeline("memo", Memo)


@memo.stage("Write a draft")
async def write(run: Run[Memo]) -> None:
    run.note(run.instruction)
    run.state.text = await run.call(draft("once upon a time"))


@memo.stage("Read it aloud")
async def read(run: Run[Memo]) -> None:
    run.state.title = run.instruction
    await run.call(speak(f"Instruction: {run.instruction}.", run.state.seconds))


@memo.stage("Put it away")
async def put_away(run: Run[Memo]) -> None:
    """Nothing to do."""


class Nothing(BaseModel):
    """No state."""


@tool(effect="irreversible")
async def paint(colour: str) -> str:
    return f"painted {colour}"


@agent("asking")
async def asking(run: Run[Nothing]) -> Done[str]:
    colour = await run.call(ask("Which colour?", options=["red", "green"]))
    number = await run.call(ask("How many?", type=int))
    return Done(f"{await run.call(paint(colour))} {number} times")


class Desk(BaseModel):
    told: list[str] = []
    over: bool = False


@agent("clerk")
async def clerk(run: Run[Desk]) -> Done[list[str]] | Idle | None:
    """Keeps a report on hold until it is told what to do."""
    for message in run.take_messages():
        run.state.told.append(message.text)
        run.state.over = run.state.over or message.text == "stop"
    if run.state.over:
        for frame in run.frames:
            async with run.frame(frame.goal) as open_frame:
                open_frame.finish()
        return Done(run.state.told)
    if not run.frames:
        async with run.frame("report", ["collect", "write"]) as report:
            report.stay_open()
        async with run.frame("side question") as side:
            side.stay_open()
    return Idle()


class Paint(BaseModel):
    colour: str
    coats: int = 1
    careful: bool = False
    places: list[str] = []
    finish: Literal["matt", "glossy"] = "matt"


@agent("painter")
async def painter(run: Run[Paint]) -> Done[str]:
    """Paints for good: it asks first."""
    return Done(await run.call(paint(run.state.colour)))


teller = LLMAgent("teller", model=models.scripted("Once upon a time there was a run.", again=True))


@tool(effect="write")
async def slow_write(seconds: float) -> str:
    """A write that takes its time."""
    await asyncio.sleep(seconds)
    return "written"


@agent("scribe")
async def scribe(run: Run[Memo]) -> Done[str]:
    """Is long about a write that cannot be cut."""
    return Done(await run.call(slow_write(run.state.seconds)))


@agent("brackets")
async def brackets(run: Run[Nothing]) -> Done[str]:
    """Offers what looks like markup."""
    return Done(await run.call(ask("Which?", options=["[red]all[/red] [x]", "none"])))


AGENTS = [memo, asking, clerk, painter, teller, scribe, brackets]
