"""Errors of every odd kind reach the step, the receipt or the person; none leaves a run hanging (R9, R15)."""

from __future__ import annotations

import asyncio
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import held

from standfast import CallFailed, CannotUndo, Done, Happened, NotPerformed, Performed, Run, Runtime, Tool, agent, tool
from standfast.rows import CallRow
from standfast.stores.sqlite_tx import SqliteTx
from standfast.testing import lab

HALF = b"caf\xe9.txt".decode("utf-8", "surrogateescape")  # as os.listdir gives such a name


class Plain(BaseModel):
    n: int = 0


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")

    __repr__ = __str__


class UnreadableExit(BaseException):
    __str__ = __repr__ = Unreadable.__str__


def awaits_a_cancelled_task() -> Callable[[], Any]:
    async def body() -> int:
        task = asyncio.create_task(asyncio.sleep(9))
        task.cancel()
        await task
        return 1

    return body


def raises(error: BaseException) -> Callable[[], Any]:
    async def body() -> int:
        raise error

    return body


ODD: dict[str, tuple[Callable[[], Callable[[], Any]], str, str]] = {
    "half a character": (lambda: raises(RuntimeError(f"cannot send {HALF}")), "RuntimeError", "cannot send caf"),
    "not performed": (lambda: raises(NotPerformed(f"no {HALF}")), "NotPerformed", "no caf"),
    "unreadable": (lambda: raises(Unreadable()), "Unreadable", "cannot be read (ValueError)"),
    "no exception, unreadable": (lambda: raises(UnreadableExit()), "RuntimeError", "UnreadableExit"),
    "thrown away": (lambda: raises(GeneratorExit()), "RuntimeError", "GeneratorExit"),
    "cancelled itself": (awaits_a_cancelled_task, "CancelledError", "cancelled itself"),
}


def sync(body: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> int:
        return int(asyncio.run(body()))

    return run


@pytest.mark.parametrize("kind", list(ODD))
@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_whatever_a_tool_raises_the_step_gets_call_failed(kind: str, effect: Any, place: str) -> None:
    make, type_, says = ODD[kind]
    if (place, kind) == ("thread", "cancelled itself"):  # nothing can be cancelled there
        type_, says = "RuntimeError", "CancelledError"
    body = make() if place == "loop" else sync(make())
    body.__annotations__["return"] = int
    odd: Tool[[], int] = tool(effect=effect, name="odd")(body)

    @agent("careful")
    async def careful(run: Run[Plain]) -> Done[list[str]]:
        try:
            await run.call(odd())
        except CallFailed as error:
            return Done([error.type, error.message])
        return Done(["nothing"])

    async with Runtime(":memory:", agents=[careful]) as runs:
        got_type, message = await (await runs.start(careful, Plain())).result(timeout=120)
    assert got_type == type_
    assert says in message


async def test_a_cancelled_read_fails_alone_among_its_siblings() -> None:
    """R6: what a tool awaited was cancelled, not the step."""
    body = awaits_a_cancelled_task()

    @tool(effect="read")
    async def odd() -> int:
        return int(await body())

    @tool(effect="read")
    async def sound() -> int:
        return 7

    @agent("all")
    async def everything(run: Run[Plain]) -> Done[list[str]]:
        return Done([str(getattr(got, "type", got)) for got in await run.call_all([odd(), sound()])])

    async with Runtime(":memory:", agents=[everything]) as runs:
        assert await (await runs.start(everything, Plain())).result(timeout=120) == ["CancelledError", "7"]


def _nested(effect: Any) -> Tool[[], int]:
    @tool(effect=effect, process=True)
    def nested() -> int:
        return 1

    return nested


@pytest.mark.parametrize("effect", ["read", "write"])
async def test_a_process_tool_that_no_process_can_find_is_refused_with_a_hint(effect: Any) -> None:
    nested = _nested(effect)

    @agent("caller")
    async def caller(run: Run[Plain]) -> Done[int]:
        return Done(await run.call(nested()))

    async with Runtime(":memory:", agents=[caller]) as runs:
        view = await held(await runs.start(caller, Plain()), "error")
    assert "top level of a module" in view.error


@tool(process=True)
def in_a_process() -> int:
    return 1


@tool
def in_a_thread() -> int:
    return 1


@pytest.mark.parametrize("which", ["process", "thread"])
async def test_a_body_that_cannot_be_started_was_not_performed(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R15: nothing was begun, so nothing is in doubt."""
    body = in_a_process if which == "process" else in_a_thread

    @agent("caller")
    async def caller(run: Run[Plain]) -> Done[str]:
        try:
            if which == "process":
                monkeypatch.setattr(sys, "executable", "/no/such/python")
            else:
                monkeypatch.setattr(threading.Thread, "start", _no_more_threads)
            await run.call(body())
        except CallFailed as error:
            return Done(error.type)
        finally:
            monkeypatch.undo()
        return Done("nothing")

    async with Runtime(":memory:", agents=[caller]) as runs:
        run = await runs.start(caller, Plain())
        assert await run.result(timeout=120) == ("FileNotFoundError" if which == "process" else "RuntimeError")
        (failed,) = [event async for event in run.events() if event.type == "call_failed"]
    assert not failed.effect_unknown


def _no_more_threads(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (RuntimeError(f"bad {HALF}"), "RuntimeError: bad caf"),
        (Unreadable(), "Unreadable: its text cannot be read"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
async def test_whatever_a_step_raises_holds_the_run_with_its_own_error(error: BaseException, says: str) -> None:
    @agent("thrower")
    async def thrower(run: Run[Plain]) -> None:
        raise error

    async with Runtime(":memory:", agents=[thrower]) as runs:
        view = await held(await runs.start(thrower, Plain()), "error")
    assert says in view.error
    assert view.attempt <= 2


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (CannotUndo(f"gone: {HALF}"), "impossible"),
        (Unreadable(), "failed"),
        (GeneratorExit(), "failed"),
        (asyncio.CancelledError(), "failed"),
    ],
)
async def test_whatever_an_undo_raises_the_receipt_has_an_outcome(error: BaseException, outcome: str) -> None:
    """R8, R9"""

    async def take_back(_: Performed[int, None]) -> None:
        raise error

    @tool(undo=take_back)
    async def put() -> int:
        return 1

    @agent("putter")
    async def putter(run: Run[Plain]) -> None:
        await run.call(put())
        await asyncio.sleep(60)

    async with lab([putter]) as runs:
        run = await runs.start(putter, Plain())
        await runs.until(run, call="put", point="recorded")
        await run.cancel()
        while True:
            await runs.clock.advance(60)
            try:
                receipt = await run.settled(timeout=0.2)
            except TimeoutError:
                continue
            break
    assert [one.outcome for one in receipt.undone] == [outcome]
    assert [one.call.tool for one in receipt.residue if one.call] == ["put"]


@pytest.mark.parametrize("answer", [True, False, 1, Happened, "yes", Happened("text")])
async def test_a_probe_that_does_not_say_it_plainly_does_not_know(answer: Any) -> None:
    """R15: never a blind retry, never a silent skip."""
    sent: list[int] = []

    async def was_sent(_: Performed[int, None]) -> Any:
        return answer

    @tool(probe=was_sent)
    async def send(x: int) -> int:
        sent.append(x)
        return x

    @agent("sender")
    async def sender(run: Run[Plain]) -> Done[int]:
        return Done(await run.call(send(1)))

    async with lab([sender]) as runs:
        run = await runs.start(sender, Plain())
        await runs.until(run, call="send", point="performed")
        await runs.crash()
        view = await held(run, "in_doubt")
        assert "probe" in view.waiting_for
        assert sent == [1]


async def test_a_call_that_nobody_performed_warns_and_holds_the_step() -> None:
    @tool(effect="read")
    async def look() -> int:
        return 1

    @agent("forgetful")
    async def forgetful(run: Run[Plain]) -> Done[int]:
        look()
        return Done(1)

    async with Runtime(":memory:", agents=[forgetful]) as runs:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            view = await held(await runs.start(forgetful, Plain()), "error")
    assert "NotCalled" in view.error
    assert "nobody performed: look" in str(warned[0].message)


async def test_a_write_whose_end_could_not_be_recorded_is_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """R15: a fault of ours loses no effect and repeats none."""
    sent: list[int] = []
    update = SqliteTx.update_call

    @tool
    async def send() -> int:
        sent.append(1)
        return 1

    @agent("sender")
    async def sender(run: Run[Plain]) -> Done[int]:
        return Done(await run.call(send()))

    def fails_once(tx: SqliteTx, call: CallRow) -> None:
        if call.status == "finished":
            monkeypatch.setattr(SqliteTx, "update_call", update)
            raise MemoryError
        update(tx, call)

    monkeypatch.setattr(SqliteTx, "update_call", fails_once)
    async with Runtime(":memory:", agents=[sender]) as runs:
        run = await runs.start(sender, Plain())
        view = await held(run, "error", "in_doubt")
        assert {need.kind for need in view.needs} == {"error", "doubt"}
        (doubt,) = [need for need in view.needs if need.kind == "doubt"]
        assert await run.resolve(str(doubt.call), Happened(1))
        assert await run.resume()
        assert await run.result(timeout=120) == 1
    assert sent == [1]
