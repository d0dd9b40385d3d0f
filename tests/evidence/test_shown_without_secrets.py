"""What people are shown about a run that stands still holds no secret either: why, and what could not be undone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import database, held

from standfast import Budget, CannotUndo, Done, Performed, Run, Runtime, agent, tool
from standfast.testing import lab

KEY = "sk-" + "proj-Zm9vYmFyYmF6cXV4MTIz"
ODD = 'pa"ss\\word-1234'  # looks otherwise in quotes


class Nothing(BaseModel):
    """No state."""


class World:
    """What the tools find outside of the run."""

    price = f"10 by {KEY}"
    order = f"first for {KEY}"
    impossible = False


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", ODD)
    World.price, World.order, World.impossible = f"10 by {KEY}", f"first for {KEY}", False


async def fail_to_undo(p: Performed[None, Any]) -> None:
    if World.impossible:
        raise CannotUndo(f"{KEY} is void")
    raise ValueError(f"{KEY} was refused, and {ODD}")


async def cannot_tell(p: Performed[None, Any]) -> None:
    raise ValueError(f"{KEY} was refused")


@tool(effect="read")
async def poll(at: str, password: str, token: str) -> str:
    """Nothing new."""
    return "nothing"


@tool(undo=fail_to_undo, probe=cannot_tell)
async def send(to: str) -> None:
    """A letter."""


@tool(effect="read")
async def price() -> str:
    """Changes."""
    return World.price


@tool(effect="read")
async def wait() -> None:
    """Until it is stopped."""
    await asyncio.Event().wait()


@agent("poller")
async def poller(run: Run[Nothing]) -> None:
    await run.call(poll("at the usual place, with", ODD, KEY))


@agent("sender")
async def sender(run: Run[Nothing]) -> Done[None]:
    await run.call(send(World.order))
    await run.call(wait())
    return Done(None)


@agent("reader")
async def reader(run: Run[Nothing]) -> Done[None]:
    await run.relies_on("price", price())
    await run.call(wait())
    return Done(None)


def _clean(shown: Any) -> None:
    """Not even a half of it is there."""
    for secret in (KEY, KEY[:12], ODD, ODD[:8], repr(ODD)[1:-1]):
        assert secret not in str(shown), shown


async def test_a_loop_is_told_without_the_secret_that_it_goes_round_with(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [poller]) as runs:
        run = await runs.start(poller, Nothing(), budget=Budget(repeats=3))
        view = await held(run, "loop")
        assert "poll(at='at the usual place, with', password='[redacted" in view.needs[0].text
        _clean(view)
    with database(path) as db:
        _clean([doc for (doc,) in db.execute("SELECT doc FROM runs")])
    db.close()


@pytest.mark.parametrize("impossible", [False, True])
async def test_a_receipt_says_why_an_undo_failed_without_the_secret_that_was_refused(impossible: bool) -> None:
    World.impossible, World.order = impossible, "all"
    async with lab([sender]) as runs:
        run = await runs.start(sender, Nothing())
        await runs.until(run, call="wait")
        await run.cancel(undo="all")
        receipt = await run.settled(timeout=120)
    [undone] = receipt.undone
    assert "[redacted:api_key:" in undone.reason and undone.outcome == ("impossible" if impossible else "failed")
    _clean(receipt)


async def test_a_step_that_differs_is_told_without_secrets() -> None:
    async with lab([sender]) as runs:
        run = await runs.start(sender, Nothing())
        await runs.until(run, call="wait")
        await run.pause()
        await held(run, "user")
        World.order = f"second for {KEY}"
        await run.resume()
        [need] = (await held(run, "diverged")).needs
        assert "second for [redacted:api_key:" in need.text and "first for [redacted:api_key:" in need.text
        _clean(need.text)
        await run.cancel(undo="none")


async def test_a_changed_world_is_told_without_secrets() -> None:
    async with lab([reader]) as runs:
        run = await runs.start(reader, Nothing())
        await runs.until(run, call="wait")
        await run.pause()
        await held(run, "user")
        World.price = f"11 by {KEY}"
        await run.resume()
        view = await held(run, "stale")
        assert "[redacted:api_key:" in view.needs[0].text
        _clean(view)
        await run.cancel()


async def test_a_probe_that_fails_is_told_without_secrets() -> None:
    World.order = "all"
    async with lab([sender]) as runs:
        run = await runs.start(sender, Nothing())
        await runs.until(run, call="send", point="performed")
        await runs.crash()
        view = await held(run, "in_doubt")
        assert "in_doubt" in view.holds
        _clean(view)
        events = [event async for event in _so_far(run)]
        assert any("its probe failed: ValueError: [redacted:api_key:" in str(event) for event in events)
        await run.cancel(undo="none")


async def _so_far(run: Any) -> Any:
    last = (await run.view()).seq
    async for event in run.events():
        yield event
        if event.seq >= last:
            return
