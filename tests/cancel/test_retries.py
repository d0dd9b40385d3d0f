"""A stop is not forgotten between the tries of one call: no further try begins after it (R6, R7)."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, of_kind, one_call_of, outcomes, under_way
from tests.helpers import eventually

from standfast import (
    Accepted,
    CallFailed,
    Done,
    Handle,
    Receipt,
    Run,
    Runtime,
    Tool,
    agent,
    child,
    performing,
    tool,
)
from standfast.events import CallFailed as CallHasFailed


@dataclass
class Tries:
    """The first hangs until it is cut for its time, and cleans up until it is let go; all others end at once."""

    begun: list[str] = field(default_factory=list[str])
    closing: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)
    disturbed: list[BaseException] = field(default_factory=list[BaseException])

    def _is_first(self) -> bool:
        self.begun.append("try")
        return len(self.begun) == 1

    async def in_the_loop(self) -> str:
        if self._is_first():
            try:
                await asyncio.sleep(3600)
            finally:
                self.closing.set()
                try:
                    while not self.let_go.is_set():
                        await asyncio.sleep(0.005)
                except BaseException as error:
                    self.disturbed.append(error)
                    raise
        return "done"

    async def in_to_thread(self) -> str:
        return await asyncio.to_thread(self.in_a_thread)

    def in_a_thread(self) -> str:
        if self._is_first():
            try:
                while True:
                    time.sleep(0.005)
            finally:
                self.closing.set()
                try:
                    while not self.let_go.is_set():
                        time.sleep(0.005)
                except BaseException as error:
                    self.disturbed.append(error)
                    raise
        return "done"

    def tool(self, body: str, **declared: Any) -> Tool[[], str]:
        made: Tool[[], str] = tool(
            **({"effect": "idempotent"} | declared), retries=5, timeout=0.2, grace=30, name="put"
        )(getattr(self, body))
        return made

    async def clean_up(self) -> None:
        await eventually(self.closing.is_set, timeout=LIMIT)


async def cancel(run: Handle[Any]) -> Accepted:
    answer = await run.cancel()
    assert isinstance(answer, Accepted)
    return answer


async def cancel_softly(run: Handle[Any]) -> Accepted:
    answer = await run.cancel(soft=True)
    assert isinstance(answer, Accepted)
    return answer


async def pause(run: Handle[Any]) -> Accepted:
    answer = await run.pause()
    assert isinstance(answer, Accepted)
    return answer


Stop = Callable[[Handle[Any]], Any]
by_every_stop = pytest.mark.parametrize("stop", [cancel, cancel_softly, pause])


@by_every_stop
@pytest.mark.parametrize("body", ["in_the_loop", "in_to_thread", "in_a_thread"])
async def test_a_stop_while_a_try_that_took_too_long_cleans_up_lets_no_other_begin(
    db: str, body: str, stop: Stop
) -> None:
    """Its clean-up is not disturbed, and what may be repeated is told as cut short."""
    tries = Tries()
    async with Runtime(db, agents=[caller := one_call_of(tries.tool(body))]) as runs:
        run = await runs.start(caller, Nothing())
        await tries.clean_up()
        await stop(run)
        tries.let_go.set()
        receipt = await run.settled(timeout=LIMIT)
        assert tries.begun == ["try"]
        assert tries.disturbed == []
        assert outcomes(receipt) == {"put": "aborted"}
        assert receipt.residue == ()
        assert receipt.calls_after_cancel == 0
        if stop is pause:  # it goes on where it was: with another try
            await run.resume()
            assert await run.result(timeout=LIMIT) == "done"
            assert tries.begun == ["try", "try"]


@pytest.mark.parametrize("how", ["a model's call", "a child of who is cancelled"])
async def test_the_same_holds_for_every_kind_of_call(db: str, how: str) -> None:
    """R6"""
    tries = Tries()
    kind = {"effect": "read", "kind": "model"} if how == "a model's call" else {}
    leaf = one_call_of(tries.tool("in_the_loop", **kind), "leaf")

    @agent("root")
    async def root(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(child(leaf, Nothing())))

    top = leaf if kind else root
    async with Runtime(db, agents=[root, leaf]) as runs:
        run = await runs.start(top, Nothing())
        await tries.clean_up()
        assert await run.cancel()
        tries.let_go.set()
        receipt = await run.settled(timeout=LIMIT)
        assert tries.begun == ["try"]
        assert outcomes(receipt)["put"] == "aborted"


async def test_a_redirect_lets_no_other_try_of_the_old_step_begin(db: str) -> None:
    """R5, R6: the step that reads the redirect decides what is done now."""
    tries = Tries()
    put = tries.tool("in_the_loop")

    @agent("caller")
    async def caller(run: Run[Nothing]) -> Done[str]:
        if run.take_redirects():
            return Done("redirected")
        return Done(await run.call(put()))

    async with Runtime(db, agents=[caller]) as runs:
        run = await runs.start(caller, Nothing())
        await tries.clean_up()
        assert await run.redirect("something else")
        tries.let_go.set()
        assert await run.result(timeout=LIMIT) == "redirected"
        assert tries.begun == ["try"]


@by_every_stop
@pytest.mark.parametrize("body", ["in its caller's task", "in a task", "in a thread"])
async def test_a_stop_does_not_wait_for_the_time_of_the_next_try(
    db: str, monkeypatch: pytest.MonkeyPatch, body: str, stop: Stop
) -> None:
    """R6, R7: between two tries nothing is under way, so nothing can be "still running"."""
    monkeypatch.setattr(performing, "FIRST_RETRY", 3600.0)
    failed = threading.Event()
    resting = asyncio.Event()
    begun: list[str] = []

    def fails() -> str:
        begun.append("try")
        failed.set()
        raise OSError("the line is busy")

    async def fails_async() -> str:
        return fails()

    declared: dict[str, Any] = {"effect": "read", "retries": 1, "name": "put"}
    put: Tool[[], str] = {
        "in its caller's task": lambda: tool(**declared)(fails_async),
        "in a task": lambda: tool(**declared, timeout=60)(fails_async),
        "in a thread": lambda: tool(**declared)(fails),
    }[body]()
    async with Runtime(db, agents=[caller := one_call_of(put)]) as runs:
        clock = runs.clock
        rests = clock.back_off

        async def back_off(seconds: float) -> None:
            resting.set()
            await rests(seconds)

        monkeypatch.setattr(clock, "back_off", back_off)
        run = await runs.start(caller, Nothing())
        await asyncio.wait_for(resting.wait(), LIMIT)
        await stop(run)
        receipt: Receipt = await run.settled(timeout=LIMIT)
        assert begun == ["try"]
        assert outcomes(receipt) == {"put": "aborted"}
        assert receipt.residue == ()


async def test_each_try_of_a_read_that_awaits_something_cancelled_fails_alone(db: str) -> None:
    """R39: its second try is told from a cancellation of its caller as its first is."""
    begun: list[str] = []

    @tool(effect="read", retries=1)
    async def follows() -> str:
        begun.append("try")
        other: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        other.cancel()
        return await other

    @agent("caller")
    async def caller(run: Run[Nothing]) -> Done[str]:
        try:
            return Done(await run.call(follows()))
        except CallFailed as error:
            return Done(error.type)

    async with Runtime(db, agents=[caller]) as runs:
        run = await runs.start(caller, Nothing())
        assert await run.result(timeout=LIMIT) == "CancelledError"
        assert begun == ["try", "try"]
        assert len(await of_kind(run, CallHasFailed)) == 1


async def test_a_body_that_ends_after_its_runtime_leaves_no_task_behind(db: str) -> None:
    """R7: what it brings cannot be written any more, and nothing waits for that."""
    let_go = threading.Event()
    begun = threading.Event()
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))

    @tool(effect="read", grace=0.01)
    def stubborn() -> str:
        begun.set()
        while not let_go.is_set():
            try:
                time.sleep(0.005)
            except BaseException:  # noqa: BLE001 - swallowing is the point
                continue
        return "late"

    async with under_way(db, one_call_of(stubborn), begun) as run:
        assert outcomes(await cancelled(run)) == {"stubborn": "still_running"}
    tasks = asyncio.all_tasks()
    let_go.set()
    (seeing,) = [task for task in tasks if "_see_through" in repr(task)]
    await asyncio.wait({seeing}, timeout=5)
    ended = seeing.done()
    del seeing, tasks
    gc.collect()
    assert ended
    assert complaints == []
