"""A chat that grows to 200 KB in a Log: the cost and the bytes of a step must not grow with it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from typing import NamedTuple

from pydantic import BaseModel, Field

from standfast import Budget, Done, Json, Log, Run, Runtime, agent, tool

TURNS = 200
TURN_BYTES = 1024


class Chat(BaseModel):
    log: Log[Json] = Field(default_factory=Log)


@tool(effect="read")
async def reply(turn: int) -> str:
    return f"{turn:08d}" * (TURN_BYTES // 8)


class Growth(NamedTuple):
    """Seconds and stored bytes a step, in the first and in the last quarter of the chat."""

    first_seconds: float
    last_seconds: float
    first_bytes: float
    last_bytes: float


def growth(path: str) -> Growth:
    began: list[float] = []

    @agent("chat", budget=Budget())
    async def chatter(run: Run[Chat]) -> Done[int] | None:
        began.append(time.perf_counter())
        run.state.log.append({"role": "assistant", "content": await run.call(reply(run.step))})
        return Done(len(run.state.log)) if run.step == TURNS else None

    async def talk() -> None:
        async with Runtime(path, agents=[chatter]) as runs:
            await (await runs.start(chatter, Chat())).result()

    asyncio.run(talk())
    quarter = TURNS // 4
    return Growth(
        (began[quarter] - began[0]) / quarter,
        (began[TURNS] - began[TURNS - quarter]) / quarter,
        _bytes(path, 1, quarter) / quarter,
        _bytes(path, TURNS - quarter, TURNS - 1) / quarter,
    )


def _bytes(path: str, first: int, last: int) -> int:
    """What was written for these steps: rows of the record and of the log."""
    with closing(sqlite3.connect(path)) as db:
        record = db.execute(
            "SELECT sum(length(body) + coalesce(length(state), 0)) FROM record WHERE step BETWEEN ? AND ?",
            (first, last),
        ).fetchone()[0]
        log = db.execute("SELECT sum(length(body)) FROM logs WHERE idx BETWEEN ? AND ?", (first, last)).fetchone()[0]
    return int(record) + int(log)
