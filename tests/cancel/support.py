"""What the tests of cancelling share."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Accepted, Agent, Done, Handle, Receipt, Run, Runtime, Tool, agent
from standfast.events import Event, LateResult, TextDelta

E = TypeVar("E")
LIMIT = 120.0  # seconds; only a hang gets there


class Nothing(BaseModel):
    """The state of agents that need none."""


async def cancelled(run: Handle[Any], **how: Any) -> Receipt:
    """Cancel a run and wait for its receipt, of which every cancel's promises are checked."""
    assert isinstance(await run.cancel(**how), Accepted)
    return await settled(run)


async def settled(run: Handle[Any]) -> Receipt:
    """The receipt of a cancelled run: in order, and with no call after the cancel."""
    receipt = await run.settled(timeout=LIMIT)
    assert receipt.status == "cancelled"
    assert receipt.asked_at <= receipt.accepted_at <= receipt.settled_at
    assert receipt.calls_after_cancel == 0
    assert (await run.view()).status == "cancelled"
    return receipt


def outcomes(receipt: Receipt) -> dict[str, str]:
    """How each call in flight ended, by its tool."""
    return {flight.call.tool: flight.outcome for flight in receipt.in_flight}


def left_behind(receipt: Receipt) -> str:
    """Everything the receipt names as residue, in one text."""
    return "\n".join(f"{r.what}: {r.why}" for r in receipt.residue)


async def recorded(run: Handle[Any]) -> list[Event]:
    """The record of a run that has ended, so far."""
    return [e async for e in run.events() if not isinstance(e, TextDelta)]


async def of_kind(run: Handle[Any], kind: type[E]) -> list[E]:
    """The recorded events of one type."""
    return [e for e in await recorded(run) if isinstance(e, kind)]


async def late_result(run: Handle[Any]) -> LateResult:
    """The one late result of a run that has ended, once it has come."""

    async def look() -> list[LateResult]:
        return await of_kind(run, LateResult)

    (late,) = await eventually(look, timeout=LIMIT)
    return late


def one_call_of(tool: Tool[..., Any], name: str = "caller") -> Agent[Nothing, Any]:
    """An agent that calls this tool once, and is done with what it brings back."""

    @agent(name)
    async def caller(run: Run[Nothing]) -> Done[Any]:
        return Done(await run.call(tool()))

    return caller


def endless_calls_of(tool: Tool[..., Any], name: str = "caller") -> Agent[Nothing, Any]:
    """An agent that calls this tool in every step, and is never done."""

    @agent(name)
    async def caller(run: Run[Nothing]) -> None:
        await run.call(tool())

    return caller


@asynccontextmanager
async def under_way(
    db: str, it: Agent[Nothing, Any], begun: asyncio.Event | threading.Event
) -> AsyncIterator[Handle[Any]]:
    """A run of this agent that has got as far as `begun`."""
    async with Runtime(db, agents=[it]) as runs:
        run = await runs.start(it, Nothing())
        await (begun.wait() if isinstance(begun, asyncio.Event) else eventually(begun.is_set))
        yield run


async def hangs(begun: asyncio.Event, ended: asyncio.Event) -> None:
    """Go on until somebody ends it."""
    begun.set()
    try:
        await asyncio.sleep(60)
    finally:
        ended.set()


async def deaf_until(let_go: asyncio.Event) -> None:
    """Swallow every cancellation."""
    while not let_go.is_set():
        try:
            await let_go.wait()
        except BaseException:  # noqa: BLE001 - swallowing is the point
            continue
