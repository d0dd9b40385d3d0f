"""Two agents whose tools cannot be stopped in mid-flight: cancel them and read "left behind" in the receipt.

`blocking` calls a plain function that sits in C code, where no exception reaches it. `stubborn` calls a tool that
swallows every cancellation. Both runs stop all the same: nothing new begins, the receipt names what is still running,
and its late result is kept out of the run.
"""

from __future__ import annotations

import asyncio
import time

from examples.agents.world import pace, place
from pydantic import BaseModel

from standfast import Done, Performed, Run, agent, say, tool


class Load(BaseModel):
    """How long the tool takes, and how many times it is called."""

    seconds: float = 20.0
    rounds: int = 3
    finished: int = 0


@tool(effect="read", grace=1.0)
def crunch(n: int, seconds: float) -> int:
    """Sit in C code: no exception of Python's comes through until it returns."""
    say(f"crunching number {n}: nothing reaches this thread for {seconds:g} s\n")
    time.sleep(seconds * pace())
    return n


@agent("blocking", redirects=False)
async def blocking(run: Run[Load]) -> Done[int] | None:
    """A tool that blocks its thread; pause or cancel it, and look at what is left behind."""
    await run.call(crunch(run.state.finished, run.state.seconds))
    run.state.finished += 1
    return Done(run.state.finished) if run.state.finished >= run.state.rounds else None


async def unmark(p: Performed[str, None]) -> None:
    place("marks", f"{p.args['run']}-{p.args['n']}.txt").unlink(missing_ok=True)


@tool(effect="write", undo=unmark)
async def mark(run: str, n: int) -> str:
    """Leave a mark that an undo can take back."""
    path = place("marks", f"{run}-{n}.txt")
    path.write_text(f"round {n}\n")
    return str(path)


@tool(effect="write", grace=1.0)
async def insist(n: int, seconds: float) -> int:
    """Swallow every cancellation until the time is up: what a bad library does with `except BaseException`."""
    end = asyncio.get_running_loop().time() + seconds * pace()
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(min(left, 0.5))
        except asyncio.CancelledError:
            say("I was told to stop, and I do not\n")
    return n


@agent("stubborn", redirects=False)
async def stubborn(run: Run[Load]) -> Done[int] | None:
    """A tool that does not stop when it is told to; the run does."""
    await run.call(mark(run.id, run.state.finished))
    await run.call(insist(run.state.finished, run.state.seconds))
    run.state.finished += 1
    return Done(run.state.finished) if run.state.finished >= run.state.rounds else None
