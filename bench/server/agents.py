"""The agents that are served while it is measured."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from standfast import Done, Run, agent, say, tool

WORD = "token "


class Pace(BaseModel):
    """How many steps, and how long one takes."""

    steps: int = 1_000_000
    seconds: float = 1.0
    words: int = 4
    at: int = 0


@tool(effect="read", kind="model")
async def think(n: int, words: int, seconds: float) -> int:
    """Say a few words, as a model would."""
    for _ in range(words):
        say(WORD)
        await asyncio.sleep(seconds / words)
    return n


@agent("thinker")
async def thinker(run: Run[Pace]) -> Done[int] | None:
    """A live run: it thinks aloud, a step at a time."""
    run.take_redirects()
    run.state.at = await run.call(think(run.state.at, run.state.words, run.state.seconds)) + 1
    return Done(run.state.at) if run.state.at >= run.state.steps else None


@tool(effect="read")
async def step(n: int) -> int:
    """Nothing that takes time."""
    return n + 1


@agent("sprinter")
async def sprinter(run: Run[Pace]) -> Done[int] | None:
    """As many events a second as it can."""
    run.state.at = await run.call(step(run.state.at))
    return Done(run.state.at) if run.state.at >= run.state.steps else None


class Talk(BaseModel):
    """How many tokens, in how many calls, and how fast."""

    calls: int = 1
    tokens: int = 1_000
    a_second: int = 2_000
    at: int = 0


@tool(effect="read", kind="model")
async def talk(n: int, tokens: int, a_second: int) -> int:
    """Say tokens, a hundredth of a second's worth at a time."""
    some = max(1, a_second // 100)
    for start in range(0, tokens, some):
        for _ in range(min(some, tokens - start)):
            say(WORD)
        await asyncio.sleep(some / a_second)
    return n


@agent("talker")
async def talker(run: Run[Talk]) -> Done[int] | None:
    """Talks a lot."""
    run.state.at = await run.call(talk(run.state.at, run.state.tokens, run.state.a_second)) + 1
    return Done(run.state.at) if run.state.at >= run.state.calls else None


AGENTS = [thinker, sprinter, talker]
