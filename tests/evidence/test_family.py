"""What a run does to another's ledger is in that one's record too: a true history is never called broken (R32)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel
from tests.evidence.world import texts
from tests.helpers import eventually

from standfast import Done, Performed, Run, Runtime, agent, child, tool
from standfast.evidence.notary import Notary
from standfast.evidence.store_check import verify_store


class Letter(BaseModel):
    number: int = 0


sent: list[int] = []


async def unsend(call: Performed[str, None]) -> None:
    """Taken back, at the second try."""
    if not sent:
        sent.append(call.args["number"])
        raise ConnectionError("not now")


@tool(effect="write", undo=unsend, settles="run")
async def send(number: int) -> str:
    return f"letter {number} was sent"


@tool(effect="read")
async def wait() -> None:
    await asyncio.sleep(60)


@agent("clerk")
async def clerk(run: Run[Letter]) -> Done[int]:
    await run.call(send(run.state.number))
    return Done(run.state.number)


@agent("office")
async def office(run: Run[Letter]) -> Done[int] | None:
    if not run.state.number:
        run.state.number = await run.call(child(clerk, Letter(number=7)))
        return None
    await run.call(wait())
    return Done(1)


@pytest.mark.parametrize("how", ["cancel", "rewind", "rewind, then cancel"])
async def test_a_child_whose_effects_are_undone_with_its_parent_is_still_proved(
    tmp_path: Path, how: Literal["cancel", "rewind", "rewind, then cancel"]
) -> None:
    sent.clear()
    path = tmp_path / "runs.db"
    async with Runtime(path, [office, clerk], notary=Notary(every_seconds=0.05)) as runs:
        run = await runs.start(office, Letter(), id="office")
        async with asyncio.timeout(120):
            while (await run.view()).step != 1 or not (await run.view()).in_flight:
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.6)  # the child, which has ended, is signed for
        if how != "cancel":
            await run.rewind(0)
        if how != "rewind":
            await run.cancel(undo="all")
            await run.settled(timeout=120)
        await eventually(lambda: sent == [7])
        if how == "rewind":
            await run.pause()
            await run.settled(timeout=120)
    report = verify_store(path)
    assert [one.what for one in report.of("broken")] == [], texts(report)
    assert "proved run office." in texts(report)
