"""What somebody says is checked while the store is free: it keeps nobody from stopping anything (R11, R34)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from tests.helpers import eventually, held

from standfast import Accepted, Done, Handle, Misuse, Run, Runtime, agent, ask, tool
from standfast.codec import JsonSchema
from standfast.outside import MOST_TRIES, Outside

LONG = 60


class Barrier:
    """Whoever comes by waits until it is opened."""

    def __init__(self) -> None:
        self.shut = False
        self.reached, self.opened = threading.Event(), threading.Event()

    def pass_by(self) -> None:
        if self.shut:
            self.reached.set()
            assert self.opened.wait(LONG)


BARRIER = Barrier()


class Order(BaseModel):
    item: str = "tea"

    @field_validator("item")
    @classmethod
    def slowly(cls, value: str) -> str:
        if value == "slow":
            BARRIER.pass_by()
        return value


@tool(effect="irreversible")
async def send(item: str) -> str:
    return f"sent {item}"


@tool
async def pack(item: str) -> str:
    return f"packed {item}"


@agent("shop", tools=[send, pack])
async def shop(run: Run[Order]) -> Done[str]:
    if run.state.item == "asked":
        return Done(await run.call(ask("Which?")))
    if run.state.item == "sent":
        return Done(await run.call(send(run.state.item)))
    await asyncio.sleep(3600)
    return Done("late")


@pytest.fixture
def barrier() -> Iterator[Barrier]:
    global BARRIER
    BARRIER = Barrier()
    yield BARRIER
    BARRIER.opened.set()


async def _asking(runs: Runtime, item: str) -> tuple[Handle[Any], str]:
    run = await runs.start("shop", {"item": item})
    view = await held(run, "asks")
    call = view.needs[0].call
    assert call
    return run, call


async def _answer(runs: Runtime) -> Callable[[], Awaitable[Any]]:
    run, call = await _asking(runs, "asked")
    return lambda: run.answer(call, "green")


async def _approve(runs: Runtime) -> Callable[[], Awaitable[Any]]:
    run, call = await _asking(runs, "sent")
    return lambda: run.approve(call, args={"item": "cake"})


async def _paused(runs: Runtime) -> Handle[Any]:
    run = await runs.start("shop", {"item": "tea"})
    await run.pause()
    await held(run, "user")
    return run


async def _edit(runs: Runtime) -> Callable[[], Awaitable[Any]]:
    run = await _paused(runs)
    return lambda: run.edit({"item": "cake"})


async def _edit_slowly(runs: Runtime) -> Callable[[], Awaitable[Any]]:
    run = await _paused(runs)
    return lambda: run.edit({"item": "slow"})


async def _fork(runs: Runtime) -> Callable[[], Awaitable[Any]]:
    run = await _paused(runs)
    return lambda: run.fork(state={"item": "cake"})


async def _perform(runs: Runtime) -> Callable[[], Awaitable[Any]]:
    run = await _paused(runs)
    await run.take_over(by="ann")
    await held(run, "user", "taken")
    return lambda: run.perform("pack", {"item": "cake"})


async def _start(runs: Runtime) -> Callable[[], Awaitable[Any]]:
    return lambda: runs.start("shop", {"item": "cake"})


VERBS = {
    "answer": _answer,
    "approve": _approve,
    "edit": _edit,
    "fork": _fork,
    "perform": _perform,
    "start": _start,
}


@contextmanager
def slow_checks(barrier: Barrier, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    whole = JsonSchema.validate

    def validate(*given: Any) -> None:
        barrier.pass_by()
        whole(*given)

    with monkeypatch.context() as patched:
        patched.setattr(JsonSchema, "validate", staticmethod(validate))
        yield


async def _stops_go_through(driver: Runtime, runs: Runtime, others: list[Handle[Any]], barrier: Barrier) -> None:
    """While somebody's words are being checked: in the process that checks them, and in another."""
    await eventually(barrier.reached.is_set)
    async with asyncio.timeout(LONG / 2):
        assert isinstance(await others[0].cancel(), Accepted)
        assert isinstance(await driver.handle(others[1].id).cancel(), Accepted)
    assert not barrier.opened.is_set()


@pytest.mark.parametrize("verb", VERBS)
async def test_a_stop_goes_through_while_what_somebody_says_is_checked(
    verb: str, tmp_path: Path, barrier: Barrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Runtime(tmp_path / "runs.db", [shop]) as driver, Runtime(tmp_path / "runs.db", drive=False) as runs:
        others = [await runs.start("shop", {"item": "tea"}) for _ in range(2)]
        act = await VERBS[verb](runs)
        with slow_checks(barrier, monkeypatch):
            barrier.shut = True
            asked = asyncio.ensure_future(act())
            try:
                await _stops_go_through(driver, runs, others, barrier)
            finally:
                barrier.opened.set()
            done = await asyncio.wait_for(asked, LONG)
        assert isinstance(done, Accepted | Handle) or done == "packed cake"
        for view in await runs.list(status=["queued", "running", "paused"]):
            await runs.handle(view.id).cancel()


async def test_a_stop_goes_through_while_the_code_of_a_state_looks_at_an_edit(tmp_path: Path, barrier: Barrier) -> None:
    async with Runtime(tmp_path / "runs.db", [shop]) as driver:
        others = [await driver.start("shop", {"item": "tea"}) for _ in range(2)]
        act = await _edit_slowly(driver)
        barrier.shut = True
        asked = asyncio.ensure_future(act())
        try:
            await _stops_go_through(driver, driver, others, barrier)
        finally:
            barrier.opened.set()
        assert isinstance(await asyncio.wait_for(asked, LONG), Accepted)


async def test_words_that_do_not_fit_are_refused_as_before_and_change_nothing(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [shop]), Runtime(tmp_path / "runs.db", drive=False) as runs:
        run, call = await _asking(runs, "asked")
        before = (await run.view()).seq
        with pytest.raises(Misuse, match="the answer does not fit"):
            await run.answer(call, 5)
        assert (await run.view()).seq == before


async def test_what_changes_each_time_it_is_checked_is_given_up(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", [shop]) as runs:
        tries: list[int] = []

        def act(_: Any) -> None:
            tries.append(len(tries))
            Outside().found(lambda: None)

        with pytest.raises(Misuse, match="has changed 5 times"):
            await runs.control(act)
        assert len(tries) == MOST_TRIES
