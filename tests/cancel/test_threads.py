"""Cancelling plain functions, which run in threads of their own (R6, R9, R35)."""

import asyncio
import socket
import threading
import time

import pytest
from tests.cancel.support import (
    Nothing,
    cancelled,
    endless_calls_of,
    late_result,
    left_behind,
    of_kind,
    one_call_of,
    outcomes,
    under_way,
)

from standfast import CallFailed, CallTimedOut, Done, Run, Runtime, agent, say, stop_token, tool
from standfast.events import LeftBehind


async def test_cancel_stops_a_python_loop_in_a_thread(db: str) -> None:
    """R6: plain Python code is unwound where it is, although it never looks."""
    begun, ended = threading.Event(), threading.Event()

    @tool(effect="read")
    def crunch() -> int:
        say("crunching")
        n = 0
        begun.set()
        try:
            while True:
                n += 1
        finally:
            ended.set()

    async with under_way(db, one_call_of(crunch), begun) as run:
        receipt = await cancelled(run)
        assert ended.is_set()
        assert outcomes(receipt) == {"crunch": "aborted"}
        assert receipt.residue == ()
        assert receipt.partial_output == "crunching"


async def test_code_that_checks_its_stop_token_ends_by_itself(db: str) -> None:
    """R6: `.stopped` for code that wants to end cleanly, `.check()` for code that wants to be unwound."""
    begun = threading.Event()
    seen: list[str] = []

    @tool(effect="read")
    def checks() -> None:
        token = stop_token()
        begun.set()
        try:
            while True:
                token.check()
                time.sleep(0.001)
        finally:
            seen.append(f"stopped={token.stopped}")

    async with under_way(db, endless_calls_of(checks), begun) as run:
        receipt = await cancelled(run)
        assert seen == ["stopped=True"]
        assert outcomes(receipt) == {"checks": "aborted"}


@pytest.mark.parametrize("how", ["sleep", "lock", "socket"])
async def test_a_blocking_c_call_is_named_as_still_running_and_its_late_result_caught(db: str, how: str) -> None:
    """R35: it cannot be cut, so it is named, and its result is kept out of the run."""
    begun, let_go = threading.Event(), threading.Event()
    lock = threading.Lock()
    lock.acquire()
    here, there = socket.socketpair()
    got: list[str] = []

    @tool(effect="read", grace=0.2)
    def blocks() -> str:
        begun.set()
        while not let_go.is_set():
            if how == "sleep":
                time.sleep(2)
            elif how == "lock":
                lock.acquire()
            else:
                there.recv(1)
            break
        return f"late {how}"

    @agent("blocker")
    async def blocker(run: Run[Nothing]) -> Done[str]:
        got.append(await run.call(blocks()))
        return Done(got[0])

    async with under_way(db, blocker, begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"blocks": "still_running"}
        (residue,) = receipt.residue
        assert residue.call is not None
        assert residue.call.tool == "blocks"
        assert {"sleep": "time.sleep", "lock": "lock.acquire", "socket": "there.recv"}[how] in residue.why
        assert "test_threads.py:" in residue.why
        let_go.set()
        if how == "lock":
            lock.release()
        elif how == "socket":
            here.send(b"x")
        late = await late_result(run)
        assert late.call == residue.call.id
        # the exception waits for the C call: it lands right after it, or finds nothing left to unwind
        assert late.result == f"late {how}" or "cut" in late.error
        assert got == []
        assert (await run.view()).status == "cancelled"
    here.close()
    there.close()


async def test_a_late_result_that_cannot_be_unwound_any_more_is_kept_as_an_event_only(db: str) -> None:
    """R35: what a C call brings back in the end is in the record, the run stays as it was."""
    begun, let_go = threading.Event(), threading.Lock()
    let_go.acquire()

    @tool(effect="write", grace=0.2)
    def blocks() -> str:
        begun.set()
        return str(let_go.acquire())  # C code to the end: its value is there when the exception arrives

    async with under_way(db, one_call_of(blocks), begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"blocks": "still_running"}
        assert "blocks" in left_behind(receipt)
        let_go.release()
        late = await late_result(run)
        assert late.result == "True" or "cut" in late.error
        after = await run.settled()
        assert after == receipt  # a receipt is never rewritten


async def test_a_write_in_a_thread_gets_its_grace_to_finish(db: str) -> None:
    """DESIGN, table of calls: a write without undo may finish within its grace."""
    begun, may_end = threading.Event(), threading.Event()

    @tool(effect="write", grace=10)
    def sends() -> str:
        begun.set()
        may_end.wait(10)
        return "sent"

    async with under_way(db, one_call_of(sends), begun) as run:
        await run.cancel()
        view = await run.view()
        assert view.status == "cancelling"
        assert "sends" in view.waiting_for
        may_end.set()
        receipt = await run.settled(timeout=120)
        assert outcomes(receipt) == {"sends": "finished"}
        assert receipt.status == "cancelled"


async def test_a_write_in_a_thread_that_is_cut_is_in_doubt(db: str) -> None:
    """RULINGS, outcome of a cut write: in doubt, not aborted, and among the residue."""
    begun = threading.Event()

    @tool(effect="write", grace=0.1)
    def sends() -> str:
        begun.set()
        while True:
            time.sleep(0.005)

    async with under_way(db, one_call_of(sends), begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"sends": "in_doubt"}
        assert "sends" in left_behind(receipt)


async def test_a_call_whose_time_is_up_goes_on_is_named_and_the_step_is_told(db: str) -> None:
    """R35: a timeout of a blocking call reaches the step; a cancel later names what still runs."""
    let_go = threading.Lock()
    let_go.acquire()
    told, wait = asyncio.Event(), asyncio.Event()

    @tool(effect="read", timeout=0.1, grace=0.1)
    def blocks() -> str:
        let_go.acquire()
        return "late"

    @agent("waiter")
    async def waiter(run: Run[Nothing]) -> None:
        try:
            await run.call(blocks())
        except CallTimedOut as error:
            assert isinstance(error, CallFailed)
            told.set()
        await wait.wait()

    async with Runtime(db, agents=[waiter]) as runs:
        run = await runs.start(waiter, Nothing())
        await asyncio.wait_for(told.wait(), 10)
        receipt = await cancelled(run)
        assert "let_go.acquire" in left_behind(receipt)
        assert [e.what for e in await of_kind(run, LeftBehind)]
        let_go.release()
        await late_result(run)


async def test_a_timed_out_thread_is_tried_again(db: str) -> None:
    """A retry after a timeout starts afresh: the stop of the first try is not its own."""
    tries: list[int] = []

    @tool(effect="read", timeout=0.2, grace=1, retries=1)
    def flaky() -> str:
        tries.append(1)
        while len(tries) == 1:
            time.sleep(0.005)
        return "second"

    @agent("retrier")
    async def retrier(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(flaky()))

    async with Runtime(db, agents=[retrier]) as runs:
        run = await runs.start(retrier, Nothing())
        assert await run.result(timeout=120) == "second"
