"""Synchronous code in threads: what a cut stops, what it names, and that it hits nothing else (R6, R35)."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from standfast.bodies import Cut, unwinding
from standfast.bodies.threads import ThreadBody, Token
from standfast.context import Stopped

SAFETY = 20.0  # a limit against hanging, not a measurement
who = contextvars.ContextVar("who", default="nobody")


def body_of(fn: Callable[[], Any], **options: Any) -> ThreadBody:
    options.setdefault("token", Token())
    return ThreadBody(fn, name="body", context=contextvars.copy_context(), **options)


async def running(body: ThreadBody, began: threading.Event) -> ThreadBody:
    body.start()
    async with asyncio.timeout(SAFETY):
        while not began.is_set():
            await asyncio.sleep(0.001)
    return body


async def outcome(body: ThreadBody) -> Any:
    async with asyncio.timeout(SAFETY):
        return await body.future


async def test_result_and_context_of_the_function_arrive() -> None:
    who.set("ann")
    body = body_of(lambda: (who.get(), threading.current_thread().name))
    body.start()
    assert await outcome(body) == ("ann", "body")
    assert body.where() == ""


async def test_exception_of_the_function_arrives_as_it_is() -> None:
    def fails() -> None:
        raise KeyError("lost")

    body = body_of(fails)
    body.start()
    with pytest.raises(KeyError, match="lost"):
        await outcome(body)


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), StopIteration(), asyncio.CancelledError(), Stopped()]
)
async def test_exception_that_would_upset_the_waiting_task_becomes_an_ordinary_one(error: BaseException) -> None:
    """R6: a tool that calls sys.exit() fails; it does not take the driver with it."""

    def leaves() -> None:
        raise error

    body = body_of(leaves)
    body.start()
    with pytest.raises(RuntimeError, match=type(error).__name__):
        await outcome(body)


async def test_cut_stops_python_code() -> None:
    """R6"""
    began, ticks = threading.Event(), 0

    def spins() -> None:
        nonlocal ticks
        began.set()
        while True:
            ticks += 1

    body = await running(body_of(spins), began)
    body.cut()
    with pytest.raises(Cut):
        await outcome(body)
    at_end = ticks
    await asyncio.sleep(0.05)
    assert ticks == at_end


async def test_cut_stops_python_code_while_the_loop_is_blocked() -> None:
    """R6: cut() is called by another thread, the loop gets no turn."""
    began, ended = threading.Event(), threading.Event()

    def spins() -> None:
        began.set()
        try:
            while True:
                pass
        finally:
            ended.set()

    body = await running(body_of(spins), began)
    threading.Thread(target=body.cut).start()
    assert ended.wait(SAFETY)  # blocks the loop
    with pytest.raises(Cut):
        await outcome(body)


async def test_a_cut_of_code_that_starts_threads_never_hits_one_of_them() -> None:
    """R39: a new thread that was hit would do nothing, and whoever waits for it would wait for ever."""
    for _ in range(100):
        began = threading.Event()
        unfinished: list[threading.Thread] = []

        def starts_threads(began: threading.Event = began, unfinished: list[Any] = unfinished) -> None:
            while True:
                done = threading.Event()
                new = threading.Thread(target=done.set)
                unfinished.append(new)
                new.start()
                began.set()
                new.join()
                if done.is_set():
                    unfinished.remove(new)
                sum(range(10_000))

        body = await running(body_of(starts_threads), began)
        body.cut()
        with pytest.raises(Cut):
            await outcome(body)
        assert len(unfinished) <= 1, "at most the one that it was just about to start or to strike off"


async def test_cut_before_start_never_runs_the_function() -> None:
    """R7"""
    ran: list[int] = []
    body = body_of(lambda: ran.append(1))
    body.cut()
    body.start()
    with pytest.raises(Cut):
        await outcome(body)
    assert ran == []


async def test_code_that_swallows_the_cut_is_cut_again_at_growing_intervals() -> None:
    """R6: and without burning a core."""
    began = threading.Event()
    hits: list[float] = []

    def stubborn() -> None:
        began.set()
        while len(hits) < 5:
            try:
                while True:
                    time.sleep(0.0005)
            except BaseException:  # noqa: BLE001 - the bad manners under test
                hits.append(time.monotonic())
        while True:
            time.sleep(0.0005)

    body = await running(body_of(stubborn, grace=0.1), began)
    body.cut()
    body.cut()  # idempotent: no second series
    with pytest.raises(Cut):
        await outcome(body)
    gaps = [after - before for before, after in pairwise(hits[1:])]
    assert gaps[-1] > gaps[0]
    assert hits[1] - hits[0] > 0.05  # the grace, less some slack
    assert sum(gaps) > 0.2  # 0.05 + 0.1 + 0.2, less the slack of each


async def test_clean_up_begins_where_the_exception_lands() -> None:
    """R39: a blocking C call keeps it waiting, longer than the grace here; the clean-up has its grace after that."""
    began, cleaning, gate = threading.Event(), threading.Event(), threading.Lock()
    gate.acquire()
    seen: list[str] = []

    def waits() -> None:
        began.set()
        try:
            gate.acquire()
            while True:
                time.sleep(0.0005)
        finally:
            cleaning.set()
            try:
                end = time.monotonic() + 0.2
                while time.monotonic() < end:
                    time.sleep(0.0005)
                seen.append("cleaned up")
            except Stopped:
                seen.append("disturbed")

    body = await running(body_of(waits, grace=1.0), began)
    while "acquire" not in body.where():
        await asyncio.sleep(0.001)
    body.cut()
    await asyncio.sleep(1.6)  # the grace is over, and repeats are under way
    assert not cleaning.is_set()
    gate.release()
    with pytest.raises(Cut):
        await outcome(body)
    assert seen == ["cleaned up"]


async def test_token_tells_the_function_and_check_unwinds_it() -> None:
    began, token = threading.Event(), Token()
    seen: list[bool] = []

    def watches() -> None:
        began.set()
        while not token.stopped:
            try:
                time.sleep(0.001)
            except Stopped:
                continue
        seen.append(token.stopped)
        token.check()

    body = await running(body_of(watches, token=token), began)
    assert not token.stopped
    body.cut()
    with pytest.raises(Cut):
        await outcome(body)
    assert seen == [True]


async def test_value_returned_in_spite_of_a_cut_counts() -> None:
    """R9: it ended by itself."""
    began = threading.Event()

    def finishes() -> str:
        began.set()
        try:
            while True:
                time.sleep(0.001)
        except Stopped:
            return "finished anyway"

    body = await running(body_of(finishes), began)
    body.cut()
    assert await outcome(body) == "finished anyway"


async def test_blocking_c_call_is_named_and_ends_when_it_returns() -> None:
    """R35"""
    began, gate = threading.Event(), threading.Lock()
    gate.acquire()

    def waits() -> None:
        began.set()
        gate.acquire()

    body = await running(body_of(waits), began)
    line = waits.__code__.co_firstlineno + 2
    while "acquire" not in body.where():
        await asyncio.sleep(0.001)
    body.cut()
    await asyncio.sleep(0.05)
    assert body.where() == f"gate.acquire called at test_threads.py:{line} in waits"
    assert not body.future.done()
    gate.release()
    with pytest.raises(Cut):
        await outcome(body)
    assert body.where() == ""


async def test_where_names_a_call_that_spans_lines_and_python_code_without_one() -> None:
    """R35"""
    began, gate = threading.Event(), threading.Lock()
    gate.acquire()

    def naps() -> None:
        began.set()
        # a two-byte character before the call, and a second line
        _ = "ä", gate.acquire(
            timeout=0.5
        )  # fmt: skip

    body = await running(body_of(naps), began)
    while "acquire" not in body.where():
        await asyncio.sleep(0.001)
    assert body.where().startswith("gate.acquire called at test_threads.py:")
    await outcome(body)

    def spins() -> None:
        began.set()
        while True:
            pass

    began.clear()
    body = await running(body_of(spins), began)
    assert body.where().endswith("in spins")
    body.cut()
    with pytest.raises(Cut):
        await outcome(body)


async def test_late_result_is_handed_over_when_nobody_waits_any_more() -> None:
    """R35"""
    began, release, late = threading.Event(), threading.Event(), asyncio.Event()
    caught: list[tuple[Any, BaseException | None]] = []

    def slow() -> str:
        began.set()
        release.wait(SAFETY)
        return "late"

    def note(value: Any, error: BaseException | None) -> None:
        caught.append((value, error))
        late.set()

    body = await running(body_of(slow, on_late=note), began)
    body.future.cancel()
    release.set()
    async with asyncio.timeout(SAFETY):
        await late.wait()
    assert caught == [("late", None)]


def test_thread_that_outlives_its_loop_hands_its_result_over_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    """R35"""
    began, release, done = threading.Event(), threading.Event(), threading.Event()
    caught: list[Any] = []

    def slow() -> str:
        began.set()
        release.wait(SAFETY)
        return "late"

    def note(value: Any, error: BaseException | None) -> None:
        caught.append((value, error))
        done.set()

    async def leaves_it_behind() -> ThreadBody:
        return await running(body_of(slow, on_late=note), began)

    body = asyncio.run(leaves_it_behind())
    release.set()
    assert done.wait(SAFETY)
    body.cut()  # harmless
    assert caught == [("late", None)]
    assert capfd.readouterr().err == ""


def count(turns: int) -> int:
    counted = 0
    for _ in range(turns):
        counted += 1
    return counted


# A throw that lands in the callback of a weak reference is dropped by Python with this word; the next one lands.
@pytest.mark.filterwarnings("ignore:Exception ignored in.*WeakSet:pytest.PytestUnraisableExceptionWarning")
async def test_cut_at_random_moments_never_lands_outside_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: 2,000 short bodies, each ends with its value or as cut, and no thread dies of anything else."""
    outside: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", outside.append)
    rng = random.Random(7)
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # many more places to be interrupted at
    ended = {"value": 0, "cut": 0}
    try:
        for n in range(2100):
            # Of short ones a busy machine may cut none: one in 21 is long enough to be found at work.
            turns = rng.randrange(200) if n % 21 else 100_000
            body = body_of(partial(count, turns))
            body.start()
            for _ in range(rng.randrange(60)):
                pass
            cutter = threading.Thread(target=body.cut)
            cutter.start()
            body.cut()
            try:
                assert await outcome(body) == turns
                ended["value"] += 1
            except Cut:
                ended["cut"] += 1
            cutter.join()
            body._thread.join(SAFETY)
            assert not body._thread.is_alive()
    finally:
        sys.setswitchinterval(switch)
    assert outside == []
    assert ended["value"] > 0 and ended["cut"] > 0


async def test_value_is_never_lost_to_a_throw_that_lands_right_after_the_return() -> None:
    """R9: the function is C code that throws into its own thread, so the throw lands once it has returned."""
    ident = ctypes.c_ulong(0)

    class Noting(Token):
        def check(self) -> None:
            ident.value = threading.get_ident()

    throws = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, ident, ctypes.py_object(Stopped))
    body = body_of(throws, token=Noting())
    body.start()
    assert await outcome(body) == 1  # how many threads it was thrown into


async def test_throws_that_land_while_the_body_is_being_closed_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: as many as can be under way when the function ends."""
    outside: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", outside.append)
    landed: list[int] = []

    class Thrown(ThreadBody):
        def _withdraw(self) -> None:
            if len(landed) < 2:
                landed.append(1)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Stopped)
                )
            super()._withdraw()

    body = Thrown(lambda: "value", name="body", context=contextvars.copy_context(), token=Token())
    body.start()
    assert await outcome(body) == "value"
    assert (len(landed), outside) == (2, [])


async def test_body_is_not_over_before_a_throw_under_way_has_landed(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: the cutter has looked, the function returns, then the throw is made: it must find the body waiting."""
    looked, returned = threading.Event(), threading.Event()
    done_before_throw: list[bool] = []
    throw = unwinding._set_async_exception

    def slow_throw(ident: int, exception: type[BaseException] | None) -> None:
        if exception is not None:
            looked.set()
            returned.wait(SAFETY)
            time.sleep(0.1)
            done_before_throw.append(not body._thread.is_alive())
        throw(ident, exception)

    def waits() -> str:
        looked.wait(SAFETY)
        returned.set()
        return "value"

    monkeypatch.setattr(unwinding, "_set_async_exception", slow_throw)
    body = body_of(waits)
    body.start()
    cutter = threading.Thread(target=body.cut)
    while not body.where():
        await asyncio.sleep(0.001)
    cutter.start()
    assert await outcome(body) == "value"
    cutter.join()
    assert done_before_throw == [False]


async def test_many_cuts_throw_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6, R39: whoever hammers on the stop button does not disturb the clean-up."""
    began, release, throws = threading.Event(), threading.Event(), 0
    throw = unwinding._set_async_exception

    def counted(ident: int, exception: type[BaseException] | None) -> None:
        nonlocal throws
        throws += exception is not None
        throw(ident, exception)

    def waits() -> None:
        began.set()
        release.wait(SAFETY)

    monkeypatch.setattr(unwinding, "_set_async_exception", counted)
    body = await running(body_of(waits), began)
    for _ in range(100):
        body.cut()
    await asyncio.sleep(0.1)
    release.set()
    with pytest.raises(Cut):
        await outcome(body)
    assert throws == 1
