"""Agents that are started from the command line: they step, write slowly, wedge, ask and fail."""

from __future__ import annotations

import asyncio
import time

from pydantic import BaseModel

from standfast import Done, Pipeline, Run, agent, ask, say, tool


class Steps(BaseModel):
    seconds: float = 0.0
    at: int = 0


@tool(effect="read")
async def speak(seconds: float) -> int:
    say("one two\n")
    await asyncio.sleep(seconds)
    say("three\n")
    return 3


steps = Pipeline("steps", Steps)


@steps.stage("First")
async def first(run: Run[Steps]) -> None:
    await run.call(speak(run.state.seconds))
    run.state.at += 1


@steps.stage("Second")
async def second(run: Run[Steps]) -> None:
    run.state.at += 1


@steps.stage("Third")
async def third(run: Run[Steps]) -> None:
    run.state.at += 1


class Nothing(BaseModel):
    """No state."""


@tool(effect="write")
async def slow() -> None:
    say("writing slowly\n")
    await asyncio.sleep(300)


@agent("slow_write")
async def slow_write(run: Run[Nothing]) -> Done[str]:
    await run.call(slow())
    return Done("written")


@tool(effect="read")
async def announce() -> None:
    say("wedged now\n")


@agent("wedged")
async def wedged(run: Run[Nothing]) -> Done[str]:
    await run.call(announce())
    await asyncio.sleep(0.5)  # its words are out
    time.sleep(300)
    return Done("never")


@tool(effect="irreversible")
async def paint(colour: str) -> str:
    return f"painted {colour}"


@agent("asking")
async def asking(run: Run[Nothing]) -> Done[str]:
    colour = await run.call(ask("Which colour?", options=["red", "green"]))
    return Done(await run.call(paint(colour)))


@agent("failing")
async def failing(run: Run[Nothing]) -> Done[str]:
    raise ValueError("no such luck")
