"""A stop cuts a task and the one that waits for it: neither disturbs the clean-up of calls side by side (R39)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, under_way
from tests.helpers import eventually

from standfast import Accepted, Agent, Call, Done, LLMAgent, Run, Runtime, agent, models, tool
from standfast.flight import Flight
from standfast.stopping import Stopping

SideBySide = Callable[[Run[Nothing], list[Call[None]]], Awaitable[Any]]


async def by_call_all(run: Run[Nothing], calls: list[Call[None]]) -> None:
    await run.call_all(calls)


async def by_gather(run: Run[Nothing], calls: list[Call[None]]) -> None:
    await asyncio.gather(*(run.call(call) for call in calls))


async def by_a_task_group(run: Run[Nothing], calls: list[Call[None]]) -> None:
    async with asyncio.TaskGroup() as group:
        for call in calls:
            group.create_task(run.call(call))


async def by_wait_for(run: Run[Nothing], calls: list[Call[None]]) -> None:
    await asyncio.gather(*(asyncio.wait_for(run.call(call), LIMIT) for call in calls))


async def by_tasks_that_are_cancelled_in_the_end(run: Run[Nothing], calls: list[Call[None]]) -> None:
    tasks = [asyncio.ensure_future(run.call(call)) for call in calls]
    try:
        for task in tasks:
            await task
    finally:
        for task in tasks:
            task.cancel()


WAYS: list[SideBySide] = [
    by_call_all,
    by_gather,
    by_a_task_group,
    by_wait_for,
    by_tasks_that_are_cancelled_in_the_end,
]
in_every_way = pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)


class Tools:
    """Calls of which one has nothing to clean up, and the others have."""

    def __init__(self, cleaning: float = 0.3, grace: float = 2.0, effect: Any = "read") -> None:
        self.open = 0
        self.all_open = asyncio.Event()
        self.cleaning = set[int]()
        self.seen: list[str] = []

        @tool(effect=effect, grace=grace)
        async def clean(n: int) -> None:
            self.open += 1
            if self.open == 3:
                self.all_open.set()
            try:
                await asyncio.sleep(LIMIT)
            finally:
                if n:
                    await self._close(n, cleaning)

        self.clean = clean

    async def _close(self, n: int, cleaning: float) -> None:
        self.cleaning.add(n)
        try:
            await asyncio.sleep(cleaning)
        except asyncio.CancelledError:
            self.seen.append(f"{n} disturbed")
            raise
        self.seen.append(f"{n} closed")

    def agent(self, way: SideBySide) -> Agent[Nothing, Any]:
        @agent("parallel")
        async def parallel(run: Run[Nothing]) -> Done[Any]:
            return Done(await way(run, [self.clean(n) for n in range(3)]))

        return parallel

    @property
    def closed(self) -> bool:
        return sorted(self.seen) == ["1 closed", "2 closed"]


@in_every_way
@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_a_cancel_lets_calls_side_by_side_close_what_they_have_opened(
    db: str, way: SideBySide, effect: str
) -> None:
    tools = Tools(effect=effect)
    async with under_way(db, tools.agent(way), tools.all_open) as run:
        receipt = await cancelled(run)
        assert tools.closed, tools.seen
        assert [f.outcome for f in receipt.in_flight] == ["aborted"] * 3
        assert receipt.residue == ()


@in_every_way
async def test_a_pause_lets_calls_side_by_side_close_what_they_have_opened(db: str, way: SideBySide) -> None:
    tools = Tools()
    async with under_way(db, tools.agent(way), tools.all_open) as run:
        assert isinstance(await run.pause(), Accepted)
        assert (await run.settled(timeout=LIMIT)).residue == ()
        assert tools.closed, tools.seen
        await cancelled(run)


async def test_a_call_that_its_step_cancels_before_the_pause_cuts_it_is_cancelled_once(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls are cut one after another: the end of the first reaches the step, which cancels the others itself."""
    tools = Tools()
    drain = Stopping._drain

    async def last_comes_late(self: Stopping, flight: Flight) -> None:
        if flight.call.args == {"n": 2}:
            await eventually(lambda: tools.cleaning == {1, 2}, LIMIT)
        await drain(self, flight)

    monkeypatch.setattr(Stopping, "_drain", last_comes_late)
    async with under_way(db, tools.agent(by_tasks_that_are_cancelled_in_the_end), tools.all_open) as run:
        assert isinstance(await run.pause(), Accepted)
        assert (await run.settled(timeout=LIMIT)).residue == ()
        assert tools.closed, tools.seen
        await cancelled(run)


@in_every_way
async def test_the_end_of_a_runtime_lets_calls_side_by_side_close_what_they_have_opened(
    db: str, way: SideBySide
) -> None:
    tools = Tools()
    async with under_way(db, tools.agent(way), tools.all_open):
        pass
    assert tools.closed, tools.seen


async def test_tools_that_a_model_asked_for_close_what_they_have_opened(db: str) -> None:
    tools = Tools()
    model = models.scripted(tuple(models.use("clean", n=n) for n in range(3)), "done")
    it = LLMAgent("llm", model=model, tools=[tools.clean], instructions="x")
    async with Runtime(db, agents=[it]) as runs:
        run = await runs.start(it, "go")
        await asyncio.wait_for(tools.all_open.wait(), LIMIT)
        assert (await cancelled(run)).residue == ()
        assert tools.closed, tools.seen


async def test_a_grace_longer_than_that_of_the_step_is_waited_for(db: str) -> None:
    """The step's own code is not named as still running while it waits for the clean-up of its calls."""
    tools = Tools(cleaning=3.5, grace=10.0)
    async with under_way(db, tools.agent(by_call_all), tools.all_open) as run:
        assert (await cancelled(run)).residue == ()
        assert tools.closed, tools.seen


async def give_up_by_timeout() -> None:
    async with asyncio.timeout(0.05):
        await asyncio.sleep(LIMIT)


async def give_up_by_wait_for() -> None:
    await asyncio.wait_for(asyncio.sleep(LIMIT), 0.05)


async def give_up_on_a_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(LIMIT))
    await asyncio.wait({task}, timeout=0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    raise TimeoutError


@pytest.mark.parametrize("limit", [give_up_by_timeout, give_up_by_wait_for, give_up_on_a_task])
async def test_clean_up_may_set_itself_a_limit(db: str, limit: Callable[[], Awaitable[None]]) -> None:
    """Its own cancellations reach it and what it has begun, however a stop protects it from those of others."""
    opened, seen = asyncio.Event(), list[str]()

    @tool(effect="read", grace=LIMIT)
    async def look() -> None:
        opened.set()
        try:
            await asyncio.sleep(LIMIT)
        finally:
            try:
                await limit()
            except TimeoutError:
                seen.append("gave up")

    @agent("parallel")
    async def parallel(run: Run[Nothing]) -> Done[Any]:
        return Done(await asyncio.gather(run.call(look()), asyncio.sleep(LIMIT)))

    async with under_way(db, parallel, opened) as run:
        assert isinstance(await run.cancel(), Accepted)
        await eventually(lambda: seen == ["gave up"], LIMIT / 2)
        assert (await run.settled(timeout=LIMIT)).residue == ()


async def test_a_step_whose_calls_clean_up_is_cancelled_when_they_have_ended(db: str) -> None:
    """Whatever they make of their cancellation: the step's own comes after, not a grace later."""
    opened, log = asyncio.Event(), list[str]()

    @tool(effect="read")
    async def stubborn() -> None:
        opened.set()
        try:
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)
            log.append("closed")

    @agent("parallel")
    async def parallel(run: Run[Nothing]) -> Done[Any]:
        async def call() -> None:
            try:
                await run.call(stubborn())
            except asyncio.CancelledError:
                log.append("call")

        try:
            await asyncio.gather(call(), asyncio.sleep(0))
            log.append("went on")
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            log.append("step")
            raise
        return Done(None)

    async with under_way(db, parallel, opened) as run:
        assert (await cancelled(run)).residue == ()
    assert log == ["closed", "call", "step"]


async def test_a_task_that_once_swallowed_a_cancellation_is_cancelled_at_once(db: str) -> None:
    """R39: it was the code's own, and has nothing to do with this stop."""
    ready, log = asyncio.Event(), list[str]()

    async def worker() -> None:
        try:
            await asyncio.sleep(LIMIT)
        except asyncio.CancelledError:
            ready.set()  # that job was called off; on to the next
        try:
            await asyncio.sleep(LIMIT)
        finally:
            log.append("worker")

    @agent("boss")
    async def boss(run: Run[Nothing]) -> Done[None]:
        task = asyncio.create_task(worker())
        await asyncio.sleep(0)
        task.cancel()
        await ready.wait()
        try:
            await asyncio.sleep(LIMIT)
        finally:
            await asyncio.sleep(1.0)
            log.append("boss")
        return Done(None)

    async with under_way(db, boss, ready) as run:
        assert (await cancelled(run)).residue == ()
    assert log == ["worker", "boss"]
