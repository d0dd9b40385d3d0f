"""Scenarios for guards that random interleavings do not reach, or not soon; each raises when its guard is gone."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any

from pydantic import BaseModel

from standfast import Accepted, Budget, Done, Run, agent, tool
from standfast import events as ev
from standfast.stores.chain import link
from standfast.testing import Lab, lab


class Nothing(BaseModel):
    n: int = 0


SLOW = -1
sent: list[int] = []
numbers = itertools.count()


@tool
async def send(n: int) -> int:
    sent.append(n)
    return n


@tool(effect="read")
async def look(n: int) -> int:
    await asyncio.sleep(1 if n == SLOW else 0)
    return n


@agent("fickle")
async def fickle(run: Run[Nothing]) -> Done[int]:
    """Asks for something else each time it is taken."""
    first = await run.call(send(next(numbers)))
    await run.call(look(SLOW))
    return Done(first)


@agent("busy")
async def busy(run: Run[Nothing]) -> None:
    for n in range(100):
        await run.call(look(run.state.n * 1000 + n))
    run.state.n += 1


def _in_lab(scenario: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), lab([fickle, busy]) as runs:
            await scenario(runs)

    sent.clear()
    asyncio.run(main())


def a_changed_argument_does_not_send_twice() -> None:
    """The repeated step asks for another write: held first (diverged)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(fickle, Nothing())
        await runs.until(run, call="look", point="admitted")
        assert isinstance(await run.pause(), Accepted)
        await run.settled(timeout=10)
        await run.resume()
        view = await run.settled(timeout=10) and await run.view()
        assert view.holds == ("diverged",), view
        assert len(sent) == 1, sent

    _in_lab(scenario)


def a_budget_of_calls_holds() -> None:
    """A cap on calls is looked at for every call, also inside one step (R17)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(busy, Nothing(), budget=Budget(calls=5))
        await run.settled(timeout=10)
        view = await run.view()
        assert view.holds == ("budget",), view
        assert view.spent.calls == 5, view.spent

    _in_lab(scenario)


def a_write_is_durable_before_its_result_is_used() -> None:
    """By the time a step sees the result of a write, a crash would not forget it."""
    known: list[bool] = []

    async def scenario(runs: Lab) -> None:
        async def step(run: Run[Nothing]) -> Done[int]:
            result = await run.call(send(1))
            row = runs.read(lambda tx: tx.run(run.id))
            assert row is not None
            events = runs.read(lambda tx: [e for _, es in tx.record(row.n, 0) for e in es])
            known.append(any(isinstance(e, ev.CallFinished) for e in events))
            return Done(result)

        runs.agents["prudent"] = agent("prudent")(step)
        run = await runs.start("prudent", Nothing())
        await run.result(timeout=10)

    _in_lab(scenario)
    assert known == [True], known


def a_record_cannot_be_changed_row_by_row() -> None:
    """Whoever rewrites a row of the record must rewrite all that follow (R32)."""

    async def scenario(runs: Lab) -> None:
        run = await runs.start(fickle, Nothing())
        await run.result(timeout=10)
        row = runs.read(lambda tx: tx.run(run.id))
        assert row is not None
        verify: Any = runs.read
        assert verify(lambda tx: tx.verify(row)) == ""
        with sqlite3.connect(runs._store.path) as file:
            rows = file.execute(
                "SELECT seq, at, body, step, state, hash FROM record WHERE run = ? ORDER BY seq", (row.n,)
            ).fetchall()
            previous = bytes(rows[0][5])
            seq, at, body, step, state, _ = rows[1]
            forged = bytes(body).replace(b"running", b"paused!")
            digest = link(previous, row.n, seq, at, forged, step, state)
            file.execute("UPDATE record SET body = ?, hash = ? WHERE run = ? AND seq = ?", (forged, digest, row.n, seq))
        assert verify(lambda tx: tx.verify(row)) != "", "a forged row went unnoticed"

    _in_lab(scenario)
