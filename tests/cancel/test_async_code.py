"""Cancelling async code, also code that does not want to be cancelled (R6, R7, R9)."""

import asyncio
import time
from typing import Any

import pytest
from tests.cancel.support import (
    Nothing,
    cancelled,
    deaf_until,
    hangs,
    late_result,
    left_behind,
    of_kind,
    outcomes,
    recorded,
    settled,
    under_way,
)

from standfast import Done, Run, RunCancelled, Runtime, TooLate, agent, say, tool
from standfast.events import CallStarted

CPU_SHARE = 0.5  # of one core; code in a tight loop takes all of it


async def test_cancel_aborts_an_async_read_and_keeps_what_it_said(db: str) -> None:
    """R6, R9: the call ends where it stands, its partial output is kept."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        say("half of ")
        say("a sentence")
        await hangs(begun, ended)
        return "never"

    @agent("reader")
    async def reader(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(slow()))

    async with Runtime(db, agents=[reader]) as runs:
        run = await runs.start(reader, Nothing(), by="ann")
        await begun.wait()
        answer = await run.cancel(by="bob", reason="enough")
        assert [ref.tool for ref in answer.in_flight] == ["slow"]  # type: ignore[union-attr]
        receipt = await settled(run)
        assert ended.is_set()
        assert outcomes(receipt) == {"slow": "aborted"}
        assert receipt.partial_output == "half of a sentence"
        assert (receipt.by, receipt.reason, receipt.trigger) == ("bob", "enough", "api")
        assert receipt.residue == ()
        assert receipt.finished_steps == 0
        assert receipt.usage.calls == 1
        with pytest.raises(RunCancelled) as error:
            await run.result()
        assert error.value.receipt == receipt
        assert await run.cancel() == TooLate("cancelled")
        assert await run.pause() == TooLate("cancelled")


async def test_finished_steps_are_kept_and_counted(db: str) -> None:
    """R9: what was committed before the cancel stays, and the receipt says how much."""

    class Count(Nothing):
        n: int = 0

    hang = asyncio.Event()

    @tool(effect="read")
    async def tick(n: int) -> int:
        if n == 3:
            hang.set()
            await asyncio.sleep(60)
        return n

    @agent("counter")
    async def counter(run: Run[Count]) -> None:
        run.state.n += 1 + 0 * await run.call(tick(run.state.n))

    async with Runtime(db, agents=[counter]) as runs:
        run = await runs.start(counter, Count())
        await hang.wait()
        receipt = await cancelled(run)
        assert receipt.finished_steps == 3
        assert (await run.state()).n == 3
        assert receipt.usage.calls == 4


async def test_cancel_stops_code_between_calls(db: str) -> None:
    """R6: the token runs through the loop itself, not only through calls."""
    begun, ended = asyncio.Event(), asyncio.Event()

    @agent("thinker")
    async def thinker(run: Run[Nothing]) -> None:
        await hangs(begun, ended)

    async with under_way(db, thinker, begun) as run:
        receipt = await cancelled(run)
        assert ended.is_set()
        assert receipt.in_flight == ()
        assert receipt.residue == ()


async def test_a_step_that_swallows_cancellation_is_named_and_left_behind(db: str) -> None:
    """R6, R7: settled all the same, no core is burnt, and no call of it passes."""
    begun = asyncio.Event()
    swallowed = 0
    let_go = False

    @tool(effect="write")
    async def effect(n: int) -> None: ...

    @agent("stubborn")
    async def stubborn(run: Run[Nothing]) -> None:
        nonlocal swallowed
        while not let_go:
            try:
                begun.set()
                if swallowed:
                    await run.call(effect(swallowed))
                await asyncio.sleep(60)
            except BaseException:
                swallowed += 1
                if swallowed > 1000:
                    raise
                continue

    async with under_way(db, stubborn, begun) as run:
        cpu, wall = time.process_time(), time.monotonic()
        receipt = await cancelled(run)
        assert time.process_time() - cpu < CPU_SHARE * (time.monotonic() - wall)
        assert "test_async_code.py:" in left_behind(receipt)
        assert 2 <= swallowed < 50
        assert await of_kind(run, CallStarted) == []
        let_go = True


class Asking:
    """An agent that asks a tool which swallows its cancellation."""

    def __init__(self, **options: Any) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()
        self.got: list[str] = []

        @tool(**options)
        async def deaf() -> str:
            self.begun.set()
            await deaf_until(self.let_go)
            return "late"

        @agent("asker")
        async def asker(run: Run[Nothing]) -> Done[str]:
            self.got.append(await run.call(deaf()))
            return Done(self.got[0])

        self.asker = asker


async def test_a_read_that_swallows_cancellation_is_still_running_and_its_late_result_is_caught(db: str) -> None:
    """R6, R35: named in the receipt, and its result does not enter the run."""
    asking = Asking(effect="read")
    async with under_way(db, asking.asker, asking.begun) as run:
        cpu, wall = time.process_time(), time.monotonic()
        receipt = await cancelled(run)
        assert time.process_time() - cpu < CPU_SHARE * (time.monotonic() - wall)
        assert outcomes(receipt) == {"deaf": "still_running"}
        assert "deaf" in left_behind(receipt)
        asking.let_go.set()
        late = await late_result(run)
        assert late.result == "late"
        assert late.call == receipt.in_flight[0].call.id
        assert asking.got == []
        assert (await run.view()).status == "cancelled"


async def test_a_write_that_swallows_cancellation_is_still_running_and_its_late_result_is_caught(db: str) -> None:
    """R6, R35: the same for an effect, after its grace."""
    asking = Asking(effect="write", grace=0.2)
    async with under_way(db, asking.asker, asking.begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"deaf": "still_running"}
        assert "deaf_until at support.py:" in left_behind(receipt)
        asking.let_go.set()
        assert (await late_result(run)).result == "late"
        assert asking.got == []


async def test_tasks_left_behind_by_a_step_are_cancelled_with_the_run(db: str) -> None:
    """R6, R7: fire-and-forget tasks end too, and what they ask for is refused."""
    stop: list[str] = []
    keep: set[asyncio.Task[None]] = set()
    looping = asyncio.Event()

    @tool(effect="read")
    async def poll(n: int) -> int:
        looping.set()
        return n

    @agent("spawner")
    async def spawner(run: Run[Nothing]) -> None:
        async def polls() -> None:
            n = 0
            try:
                while True:
                    n += 1
                    await run.call(poll(n))
            finally:
                stop.append("polls")

        async def sleeps() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                stop.append("sleeps")

        keep.update({asyncio.create_task(polls()), asyncio.create_task(sleeps())})
        await asyncio.sleep(60)

    async with Runtime(db, agents=[spawner]) as runs:
        run = await runs.start(spawner, Nothing())
        await looping.wait()
        receipt = await cancelled(run)
        assert sorted(stop) == ["polls", "sleeps"]
        assert receipt.residue == ()


async def test_a_left_behind_task_that_swallows_cancellation_gets_no_further_call(db: str) -> None:
    """R7: not even from code that swallows the cancellation."""
    keep: list[asyncio.Task[None]] = []
    performed: list[int] = []
    swallowed = 0
    looping = asyncio.Event()
    let_go = False

    @tool(effect="read")
    async def poll(n: int) -> int:
        performed.append(n)
        looping.set()
        await asyncio.sleep(0.01)
        return n

    @agent("spawner")
    async def spawner(run: Run[Nothing]) -> None:
        async def polls() -> None:
            nonlocal swallowed
            n = 0
            while not let_go:
                n += 1
                try:
                    await run.call(poll(n))
                except BaseException:
                    swallowed += 1
                    if swallowed > 1000:
                        raise

        keep.append(asyncio.create_task(polls()))
        await asyncio.sleep(60)

    async with Runtime(db, agents=[spawner]) as runs:
        run = await runs.start(spawner, Nothing())
        await looping.wait()
        receipt = await cancelled(run)
        count = len(performed)
        assert swallowed < 50
        assert "polls" in left_behind(receipt)
        keep[0].cancel()  # once more, after the end
        await asyncio.sleep(0.1)
        assert len(performed) == count
        events = await recorded(run)
        assert max(e.seq for e in events if isinstance(e, CallStarted)) < events[-1].seq
        let_go = True
        keep[0].cancel()
        await asyncio.wait(keep, timeout=5)


async def test_tasks_left_behind_by_a_tool_are_cancelled_with_the_run(db: str) -> None:
    """R6: also those that a tool's body has started, long after that call ended."""
    keep: list[asyncio.Task[None]] = []
    stopped: list[str] = []
    later = asyncio.Event()

    async def background(name: str) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.append(name)

    @tool(effect="read")
    async def reads() -> None:
        keep.append(asyncio.create_task(background("reads")))

    @tool(effect="write")
    async def writes() -> None:
        keep.append(asyncio.create_task(background("writes")))

    class Count(Nothing):
        n: int = 0

    @agent("spawner")
    async def spawner(run: Run[Count]) -> None:
        run.state.n += 1
        if run.state.n == 1:
            await run.call(reads())
            await run.call(writes())
        elif run.state.n == 3:
            later.set()
            await asyncio.sleep(60)

    async with Runtime(db, agents=[spawner]) as runs:
        run = await runs.start(spawner, Count())
        await later.wait()
        receipt = await cancelled(run)
        assert sorted(stopped) == ["reads", "writes"]
        assert receipt.finished_steps == 2
