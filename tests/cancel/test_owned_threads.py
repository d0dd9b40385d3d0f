"""A call or a step owns the threads that it starts through the event loop's executor (R39).

A stop cuts them like sync tools, and is not settled before they have ended or are named; nothing is undone before.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, left_behind, of_kind, one_call_of, outcomes, under_way
from tests.cancel.test_left_running import told
from tests.helpers import eventually

from standfast import Accepted, Agent, CallTimedOut, Done, NotHappened, Performed, Run, Runtime, agent, tool
from standfast.events import LateResult, VerbNoted

Mechanism = Callable[[Callable[[], Any]], Awaitable[Any]]


async def with_to_thread(f: Callable[[], Any]) -> Any:
    """OpenAI Agents run sync tools so."""
    return await asyncio.to_thread(f)


async def with_the_default_executor(f: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, f)


async def with_a_copied_context(f: Callable[[], Any]) -> Any:
    """LangChain and LangGraph run sync tools so."""
    work = functools.partial(contextvars.copy_context().run, f)
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def with_anyio(f: Callable[[], Any]) -> Any:
    """Pydantic AI runs sync tools so."""
    return await anyio.to_thread.run_sync(f)


async def with_anyio_in_a_group(f: Callable[[], Any]) -> Any:
    """A task group waits for a thread that may not be abandoned, however often it is cancelled."""
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, f)


async def with_anyio_abandoned(f: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(f, abandon_on_cancel=True)


async def in_a_shielded_task(f: Callable[[], Any]) -> Any:
    return await asyncio.shield(asyncio.ensure_future(asyncio.to_thread(f)))


MECHANISMS: list[Mechanism] = [
    with_to_thread,
    with_the_default_executor,
    with_a_copied_context,
    with_anyio,
    with_anyio_in_a_group,
    with_anyio_abandoned,
    in_a_shielded_task,
]
of_every_kind = pytest.mark.parametrize("through", MECHANISMS, ids=lambda m: m.__name__)


class Ticking:
    """Python code in a thread: it acts until it is unwound."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self.ticks = 0
        self.stop = False

    def __call__(self) -> None:
        self.begun.set()
        try:
            end = time.monotonic() + LIMIT
            while time.monotonic() < end and not self.stop:
                self.ticks += 1
                time.sleep(0.002)
        finally:
            self.ended.set()


class Blocking:
    """C code in a thread that no exception reaches; the effect would come after it."""

    def __init__(self) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.log: list[str] = []

    def __call__(self) -> None:
        self.begun.set()
        self.let_go.wait(LIMIT)
        self.log.append("charged")

    async def refund(self, _: Performed[Any, Any]) -> None:
        self.log.append("refunded")


def step_of(body: Callable[[], Awaitable[Any]]) -> Agent[Nothing, Any]:
    """An agent whose own code does this."""

    @agent("direct")
    async def direct(run: Run[Nothing]) -> Done[Any]:
        return Done(await body())

    return direct


# --- calls --------------------------------------------------------------------------------------


@of_every_kind
async def test_a_thread_of_a_write_has_ended_before_the_write_is_undone(db: str, through: Mechanism) -> None:
    """R39: charged after refunded never happens."""
    work = Ticking()
    ended_before_undo: list[bool] = []

    async def refund(_: Performed[Any, Any]) -> None:
        ended_before_undo.append(work.ended.is_set())

    @tool(undo=refund)
    async def charge() -> None:
        await through(work)

    async with under_way(db, one_call_of(charge), work.begun) as run:
        receipt = await cancelled(run)
        assert work.ended.is_set()
        assert ended_before_undo == [True]
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert receipt.residue == ()


@of_every_kind
@pytest.mark.parametrize("timeout", [None, 60.0], ids=["inline", "in a task"])
async def test_a_thread_of_a_read_has_ended_when_the_cancel_is_settled(
    db: str, through: Mechanism, timeout: float | None
) -> None:
    work = Ticking()

    @tool(effect="read", timeout=timeout)
    async def look() -> None:
        await through(work)

    async with under_way(db, one_call_of(look), work.begun) as run:
        receipt = await cancelled(run)
        assert work.ended.is_set()
        assert outcomes(receipt) == {"look": "aborted"}
        assert receipt.residue == ()


@of_every_kind
async def test_a_blocking_thread_of_a_write_is_named_and_its_undo_is_in_doubt(db: str, through: Mechanism) -> None:
    """R39: never aborted, never undone while it runs on; and what it would have done does not happen later."""
    work = Blocking()

    @tool(undo=work.refund, grace=0.1)
    async def charge() -> None:
        await through(work)

    async with under_way(db, one_call_of(charge), work.begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"charge": "still_running"}
        assert [u.outcome for u in receipt.undone] == ["in_doubt"]
        assert "charge is still running" in left_behind(receipt)
        assert "test_owned_threads.py" in left_behind(receipt)
        work.let_go.set()
        await eventually(lambda: of_kind(run, LateResult), LIMIT)
        assert work.log == ["refunded"]


@of_every_kind
@pytest.mark.parametrize("timeout", [None, 60.0], ids=["inline", "in a task"])
async def test_a_blocking_thread_of_a_read_is_named(db: str, through: Mechanism, timeout: float | None) -> None:
    work = Blocking()

    @tool(effect="read", grace=0.1, timeout=timeout)
    async def look() -> None:
        await through(work)

    async with under_way(db, one_call_of(look), work.begun) as run:
        receipt = await cancelled(run)
        assert outcomes(receipt) == {"look": "still_running"}
        assert "look is still running" in left_behind(receipt)
        work.let_go.set()
        await eventually(lambda: of_kind(run, LateResult), LIMIT)
        assert work.log == []


def obstinate(begun: threading.Event, log: list[str], error: Exception | None = None) -> None:
    """Goes on whatever is thrown at it, as C code does, and comes to its own end."""
    begun.set()
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        with contextlib.suppress(BaseException):
            time.sleep(0.01)
    log.append("charged")
    if error is not None:
        raise error


@of_every_kind
@pytest.mark.parametrize("error", [None, ValueError("odd")], ids=["returns", "raises"])
async def test_a_cut_write_whose_thread_came_to_its_own_end_is_not_called_aborted(
    db: str, through: Mechanism, error: Exception | None
) -> None:
    """R9, R39: what happened, happened; that it was taken back stands beside it."""
    begun, log = threading.Event(), list[str]()

    async def refund(_: Performed[Any, Any]) -> None:
        log.append("refunded")

    @tool(undo=refund)
    async def charge() -> None:
        await through(lambda: obstinate(begun, log, error))

    async with under_way(db, one_call_of(charge), begun) as run:
        receipt = await cancelled(run)
        assert log == ["charged", "refunded"]
        assert outcomes(receipt) == {"charge": "finished" if error is None else "failed"}
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert receipt.residue == ()


async def test_a_cut_write_that_has_not_happened_is_not_called_finished(db: str) -> None:
    """R9: its thread came to its own end, but the effect would have come after that; its probe knows."""
    begun, log = threading.Event(), list[str]()

    async def refund(_: Performed[Any, Any]) -> None:
        log.append("refunded")

    async def not_there(_: Performed[Any, Any]) -> NotHappened:
        return NotHappened()

    @tool(undo=refund, probe=not_there)
    async def charge() -> None:
        await asyncio.to_thread(obstinate, begun, [])
        log.append("charged")

    async with under_way(db, one_call_of(charge), begun) as run:
        receipt = await cancelled(run)
        assert log == []
        assert [(u.outcome, u.reason) for u in receipt.undone] == [("undone", "it had not happened")]
        assert outcomes(receipt) == {"charge": "aborted"}


def wrapping(begun: threading.Event) -> None:
    """Ends when it is cut, with an error of its own."""
    begun.set()
    try:
        while True:
            time.sleep(0.01)
    except BaseException as error:
        raise RuntimeError("the charge failed") from error


@pytest.mark.parametrize("through", [m for m in MECHANISMS if m is not with_anyio_in_a_group])
async def test_an_error_that_a_thread_makes_of_its_cut_is_not_its_own_end(db: str, through: Mechanism) -> None:
    """A task group passes the error on, and then it is the tool's own."""
    begun = threading.Event()

    async def refund(_: Performed[Any, Any]) -> None: ...

    @tool(undo=refund)
    async def charge() -> None:
        await through(lambda: wrapping(begun))

    async with under_way(db, one_call_of(charge), begun) as run:
        assert outcomes(await cancelled(run)) == {"charge": "aborted"}


async def test_a_thread_that_cleans_up_does_not_make_a_cut_write_finished(db: str) -> None:
    """R39: only what was under way when the write was cut can have been its effect."""
    begun, cleaned = threading.Event(), list[str]()

    async def refund(_: Performed[Any, Any]) -> None: ...

    @tool(undo=refund)
    async def charge() -> None:
        begun.set()
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.to_thread(cleaned.append, "closed")

    async with under_way(db, one_call_of(charge), begun) as run:
        receipt = await cancelled(run)
        assert cleaned == ["closed"]
        assert outcomes(receipt) == {"charge": "aborted"}


async def test_a_write_is_undone_once_its_blocking_thread_has_ended(db: str) -> None:
    """R39: the stop waits for it as long as the tool's grace."""
    work = Blocking()

    @tool(undo=work.refund, grace=LIMIT)
    async def charge() -> None:
        await asyncio.to_thread(work)

    async with under_way(db, one_call_of(charge), work.begun) as run:
        assert isinstance(await run.cancel(), Accepted)
        await asyncio.sleep(0.1)  # a wrong undo has begun by now; a right one waits however long this is
        assert work.log == []
        work.let_go.set()
        receipt = await run.settled(timeout=LIMIT)
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert work.log == ["refunded"]


@of_every_kind
async def test_a_thread_of_a_call_whose_time_is_up_is_cut(db: str, through: Mechanism) -> None:
    work = Ticking()
    cut: list[bool] = []

    @tool(effect="read", timeout=0.2)
    async def look() -> None:
        await through(work)

    @agent("impatient")
    async def impatient(run: Run[Nothing]) -> Done[str]:
        try:
            await run.call(look())
        except CallTimedOut:
            cut.append(work.ended.is_set())
        return Done("went on")

    async with Runtime(db, agents=[impatient]) as runs:
        run = await runs.start(impatient, Nothing())
        assert await run.result() == "went on"
        assert cut == [True]


async def test_a_call_that_its_step_gives_up_cuts_its_thread(db: str) -> None:
    work = Ticking()

    @tool(effect="read")
    async def look() -> None:
        await asyncio.to_thread(work)

    @agent("impatient")
    async def impatient(run: Run[Nothing]) -> Done[str]:
        task = asyncio.ensure_future(run.call(look()))
        await eventually(work.begun.is_set)
        task.cancel()
        await eventually(work.ended.is_set)
        return Done("went on")

    async with Runtime(db, agents=[impatient]) as runs:
        run = await runs.start(impatient, Nothing())
        assert await run.result() == "went on"


async def test_a_thread_that_a_finished_call_left_is_cut_with_the_step(db: str) -> None:
    work = Ticking()

    @tool(effect="read")
    async def begin() -> None:
        asyncio.get_running_loop().run_in_executor(None, work)

    @agent("leaver")
    async def leaver(run: Run[Nothing]) -> None:
        await run.call(begin())
        await asyncio.sleep(1000)

    async with under_way(db, leaver, work.begun) as run:
        receipt = await cancelled(run)
        assert work.ended.is_set()
        assert receipt.residue == ()


async def test_threads_of_an_undo_that_takes_too_long_are_cut(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standfast.undo.ALL_TRIES_SECONDS", 0.5)
    monkeypatch.setattr("standfast.undo.LEAST_SECONDS", 0.2)
    monkeypatch.setattr("standfast.undo.TRIES", 1)
    work = Ticking()
    done = asyncio.Event()

    async def hang(_: Performed[None, Any]) -> None:
        await asyncio.to_thread(work)

    @tool(undo=hang)
    async def act() -> None:
        done.set()

    @agent("actor")
    async def actor(run: Run[Nothing]) -> None:
        await run.call(act())
        await asyncio.sleep(1000)

    async with under_way(db, actor, done) as run:
        receipt = await cancelled(run)
        assert [u.outcome for u in receipt.undone] == ["failed"]
        assert work.ended.is_set()


# --- steps --------------------------------------------------------------------------------------


@of_every_kind
async def test_a_thread_of_a_step_has_ended_when_the_cancel_is_settled(db: str, through: Mechanism) -> None:
    work = Ticking()
    async with under_way(db, step_of(lambda: through(work)), work.begun) as run:
        receipt = await cancelled(run)
        assert work.ended.is_set()
        assert receipt.residue == ()


@of_every_kind
async def test_a_thread_of_a_step_has_ended_when_the_pause_is_settled(db: str, through: Mechanism) -> None:
    work = Ticking()
    async with under_way(db, step_of(lambda: through(work)), work.begun) as run:
        assert isinstance(await run.pause(), Accepted)
        receipt = await run.settled(timeout=LIMIT)
        assert work.ended.is_set()
        assert receipt.residue == ()
        await cancelled(run)


@of_every_kind
async def test_a_blocking_thread_of_a_step_is_named_until_it_has_ended(db: str, through: Mechanism) -> None:
    work = Blocking()
    async with under_way(db, step_of(lambda: through(work)), work.begun) as run:
        assert isinstance(await run.pause(), Accepted)
        receipt = await run.settled(timeout=LIMIT)
        assert "test_owned_threads.py" in left_behind(receipt)
        work.let_go.set()
        await told(run, VerbNoted, "has ended")
        assert (await cancelled(run)).residue == ()
        assert work.log == []


async def test_a_redirect_for_right_now_cuts_the_threads_of_the_step(db: str) -> None:
    work = Ticking()
    ended_before: list[bool] = []

    @agent("redirected")
    async def redirected(run: Run[Nothing]) -> Done[str]:
        if not work.begun.is_set():
            await asyncio.to_thread(work)
        ended_before.append(work.ended.is_set())
        return Done("taken again")

    async with under_way(db, redirected, work.begun) as run:
        assert await run.redirect("otherwise")
        assert await run.result() == "taken again"
        assert ended_before == [True]


# --- executors that are passed --------------------------------------------------------------------


async def test_the_thread_of_an_executor_that_is_passed_is_named_and_never_cut(db: str) -> None:
    """R39: it may belong to somebody else."""
    work = Blocking()
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:

        @tool(undo=work.refund, grace=0.1)
        async def charge() -> None:
            await asyncio.get_running_loop().run_in_executor(pool, work)

        async with under_way(db, one_call_of(charge), work.begun) as run:
            receipt = await cancelled(run)
            assert outcomes(receipt) == {"charge": "still_running"}
            assert [u.outcome for u in receipt.undone] == ["in_doubt"]
            work.let_go.set()
            await eventually(lambda: work.log == ["refunded", "charged"], LIMIT)
            await eventually(lambda: of_kind(run, LateResult), LIMIT)


async def test_the_thread_of_an_executor_that_is_passed_is_named_for_a_step(db: str) -> None:
    work = Blocking()
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:

        async def body() -> None:
            await asyncio.get_running_loop().run_in_executor(pool, work)

        async with under_way(db, step_of(body), work.begun) as run:
            receipt = await cancelled(run)
            assert "Blocking in an executor of its own" in left_behind(receipt)
            work.let_go.set()
            await eventually(lambda: work.log == ["charged"], LIMIT)


# --- what it leaves alone -------------------------------------------------------------------------


async def test_an_executor_of_the_user_keeps_its_size_and_its_names(db: str) -> None:
    """R39: its threads are cut, and go on with other work."""
    pool = ThreadPoolExecutor(1, thread_name_prefix="mine")
    loop = asyncio.get_running_loop()
    loop.set_default_executor(pool)
    names: set[str] = set()

    for n in range(5):
        work = Ticking()

        async def body(work: Ticking = work) -> None:
            names.add(await asyncio.to_thread(lambda: threading.current_thread().name))
            await asyncio.to_thread(work)

        async with under_way(f"{db}{n}", step_of(body), work.begun) as run:
            assert (await cancelled(run)).residue == ()
        assert work.ended.is_set()
    assert names == {"mine_0"}
    assert await asyncio.to_thread(lambda: threading.current_thread().name) == "mine_0"
    assert len(pool._threads) == 1


async def test_a_full_pool_has_room_again_when_its_threads_are_left_behind(db: str) -> None:
    """R35: work that waits behind a thread that hangs would wait for ever."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    work = Blocking()

    @tool(effect="read", grace=0.1)
    async def look() -> None:
        await asyncio.to_thread(work)

    async with under_way(db, one_call_of(look), work.begun) as run:
        assert outcomes(await cancelled(run)) == {"look": "still_running"}
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "room"), LIMIT) == "room"
        work.let_go.set()


async def test_work_that_waits_for_a_free_thread_never_begins_after_a_cancel(db: str) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    work, never, queued = Ticking(), Ticking(), asyncio.Event()

    async def body() -> None:
        first = asyncio.ensure_future(asyncio.to_thread(work))
        await eventually(work.begun.is_set)
        second = asyncio.shield(asyncio.get_running_loop().run_in_executor(None, never))
        queued.set()
        await asyncio.gather(first, second)

    async with under_way(db, step_of(body), queued) as run:
        assert (await cancelled(run)).residue == ()
        await asyncio.to_thread(lambda: None)  # the thread is free now, and has taken what came next
        assert not never.begun.is_set()


async def test_work_outside_any_attempt_is_untouched(db: str) -> None:
    other, work = Ticking(), Ticking()
    async with under_way(db, step_of(lambda: asyncio.to_thread(work)), work.begun) as run:
        outside = asyncio.ensure_future(asyncio.to_thread(other))
        await eventually(other.begun.is_set)
        assert (await cancelled(run)).residue == ()
        ticks = other.ticks
        await eventually(lambda: other.ticks > ticks)
        other.stop = True
        await outside


async def test_name_resolution_is_forgotten(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R39: it has no effect and cannot be ended: it is neither waited for nor named."""
    begun, let_go = threading.Event(), threading.Event()

    def resolve(*_: Any, **__: Any) -> list[Any]:
        begun.set()
        let_go.wait(LIMIT)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    async def body() -> None:
        await asyncio.get_running_loop().getaddrinfo("example.invalid", 80)

    async with under_way(db, step_of(body), begun) as run:
        assert (await cancelled(run)).residue == ()
        let_go.set()


async def test_the_loop_and_anyio_are_as_before_when_the_runtime_has_left(db: str) -> None:
    from anyio._backends._asyncio import AsyncIOBackend  # noqa: PLC0415 - anyio is wrapped there

    loop = asyncio.get_running_loop()
    before = loop.run_in_executor, AsyncIOBackend.__dict__["run_sync_in_worker_thread"]
    async with Runtime(db, agents=[]), Runtime(f"{db}2", agents=[]):
        assert loop.run_in_executor != before[0]
    assert (loop.run_in_executor, AsyncIOBackend.__dict__["run_sync_in_worker_thread"]) == before


def test_a_thread_left_behind_keeps_no_program_from_ending(tmp_path: Path) -> None:
    """R39: neither asyncio.run nor the interpreter waits for it."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.programs.leaving_a_thread", str(tmp_path / "runs.db")],
        timeout=60,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    assert done.stdout.split() == ["still_running", "asyncio.run", "returned"]


async def test_whoever_shuts_a_pool_down_meanwhile_is_not_disturbed(db: str) -> None:
    """R39: `shutdown` goes through the threads of its pool in another thread while one is left behind, and put back."""
    pool = ThreadPoolExecutor(2)
    asyncio.get_running_loop().set_default_executor(pool)
    await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(2)))
    work = Blocking()

    @tool(effect="read", grace=0.1)
    async def look() -> None:
        await asyncio.to_thread(work)

    async with under_way(db, one_call_of(look), work.begun) as run:
        shutting_down = iter(pool._threads)
        assert next(shutting_down)
        assert outcomes(await cancelled(run)) == {"look": "still_running"}
        assert list(shutting_down)
        again = iter(pool._threads)
        work.let_go.set()
        await eventually(lambda: len(pool._threads) == 2, LIMIT)
        assert len(list(again)) == 1
