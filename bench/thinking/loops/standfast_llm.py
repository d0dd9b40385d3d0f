"""standfast's LLMAgent: plan, frames, redirects and a durable boundary before and after the tools."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing

from openai import AsyncOpenAI

from bench.thinking.loops.standfast_own import look
from standfast import Budget, LLMAgent, Runtime, models
from standfast.models import use


def turns(url: str, path: str, n: int) -> float:
    async def loop() -> float:
        async with AsyncOpenAI(base_url=url, api_key="bench") as client:
            one = LLMAgent("one", model=models.openai(f"turns-{n}", client), tools=[look], budget=Budget())
            async with Runtime(path, agents=[one]) as runs:
                start = time.perf_counter()
                await (await runs.start(one, "Look often.")).result()
                return (time.perf_counter() - start) / n

    return asyncio.run(loop())


def growth(url: str, path: str, n: int) -> dict[str, float]:
    """Seconds and stored bytes a turn, in the first and last quarter of a scripted chat of n turns of 1 KB each."""
    del url
    marks: list[tuple[float, int]] = []

    async def talk() -> None:
        def line(request: object) -> tuple[str, object]:
            del request
            marks.append((time.perf_counter(), _bytes(path)))
            return ("w" * 1024, use("look", n=len(marks)))

        script = [line] * n + ["done"]
        one = LLMAgent("one", model=models.scripted(script), tools=[look], budget=Budget())
        async with Runtime(path, agents=[one]) as runs:
            await (await runs.start(one, "Talk.")).result()

    asyncio.run(talk())
    quarter = n // 4
    first, last = (marks[0], marks[quarter]), (marks[-1 - quarter], marks[-1])
    return {
        "first_seconds": (first[1][0] - first[0][0]) / quarter,
        "last_seconds": (last[1][0] - last[0][0]) / quarter,
        "first_bytes": (first[1][1] - first[0][1]) / quarter,
        "last_bytes": (last[1][1] - last[0][1]) / quarter,
    }


def _bytes(path: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        record = db.execute("SELECT total(length(body) + coalesce(length(state), 0)) FROM record").fetchone()[0]
        return int(record + db.execute("SELECT total(length(body)) FROM logs").fetchone()[0])


def redirects(url: str, path: str, n: int) -> list[float]:
    """When redirects "now" were asked for, on the monotonic clock; the provider knows when the new requests came."""

    async def loop() -> list[float]:
        asked: list[float] = []
        async with AsyncOpenAI(base_url=url, api_key="bench") as client:
            one = LLMAgent("one", model=models.openai("drip", client), budget=Budget())
            async with Runtime(path, agents=[one]) as runs:
                run = await runs.start(one, "Talk.")
                for turn in range(n):
                    await asyncio.sleep(0.3)
                    asked.append(time.monotonic())
                    await run.redirect(f"otherwise {turn}")
                await asyncio.sleep(0.3)
                await run.cancel()
                await run.settled()
        return asked

    return asyncio.run(loop())
