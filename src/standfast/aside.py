"""Code that belongs to a call but is not its body: `before`, `probe`, `undo`.

It runs in a task of its own, may `use()` what the runtime provides, and has a bounded
time, whatever it does with its cancellation. What it starts is its own (R39).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from standfast import events as ev
from standfast.contained import contain
from standfast.context import current_call
from standfast.flight import Flight
from standfast.ladder import cut_task, end_tasks
from standfast.outliving import leave_code, leave_threads, not_ended
from standfast.places import place_of_task
from standfast.scope import Attempt, current_attempt
from standfast.sleeping import sleeps_until
from standfast.stops import still_running
from standfast.tools import unperformed

if TYPE_CHECKING:
    from standfast.abc import Tx
    from standfast.events import Event
    from standfast.records import Residue
    from standfast.rows import RunRow
    from standfast.session import Session

T = TypeVar("T")

PATIENCE = 10.0  # seconds at most for what it has started and not waited for, out of the time that it has
NO_LONGER = 1.0  # for what will sleep for longer than that: it may yet be ended by what it was started for
LOOKING = 0.05  # how often it is looked whether anything but that goes on


class TookTooLong(Exception):  # noqa: N818 - it states the fact
    """The code did not end in its time."""


async def ahead(call: Flight, work: Callable[[], Awaitable[T]]) -> T:
    """What `before` returns, in the step. What it leaves going on is the attempt's, like what a call leaves."""
    attempt = current_attempt.get()
    task = _begin(call, work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        cut_task(task, call.call.tool.grace)
        call.cut_threads()
        raise
    finally:
        _over(call, cut=not task.done())
        call.beside = False
        if attempt is not None and call.threads is not None:
            attempt.pieces.take(call.threads)
    return _result(task)


async def aside(call: Flight, work: Callable[[], Awaitable[T]], seconds: float) -> T:
    """What `work` returns once all that it has started has ended; raises what it raises, or TookTooLong.

    `call.unended` says afterwards what it had started and not waited for that did not end, and was cut.
    """
    loop = call.session.env.loop
    end = loop.time() + seconds
    mine = Attempt(call.attempt, _nobody_waits)
    task = _begin(call, work, mine)
    mine.main = task
    try:
        await asyncio.wait({task}, timeout=seconds)
        in_time = task.done()
        if in_time and not task.cancelled() and task.exception() is None:
            await _rest(call, mine, min(end, loop.time() + PATIENCE))
        call.unended = "; ".join(_places(call, mine))
        left = await _cut(call, mine)
    except asyncio.CancelledError:
        call.cut_threads()
        for going in (task, *mine.others()):
            cut_task(going, call.call.tool.grace)
        if not call.session.env.crashed:
            await _cut(call, mine)
        raise
    finally:
        _over(call, cut=not task.done())
    if not in_time:
        goes_on = f", and goes on although it was cut ({'; '.join(one.why for one in left)})" if left else ""
        raise TookTooLong(f"it did not end within {seconds:g} s{goes_on}")
    return _result(task)


def _begin(call: Flight, work: Callable[[], Awaitable[T]], scope: Attempt | None = None) -> asyncio.Task[T]:
    call.beside = True
    context = contextvars.copy_context()
    context.run(current_call.set, call)
    context.run(unperformed.set, None)
    if scope is not None:
        context.run(current_attempt.set, scope)

    async def body() -> T:
        return await contain(work)

    return call.session.env.loop.create_task(body(), context=context)


def _over(call: Flight, *, cut: bool) -> None:
    call.ended = True  # its code may send no further request
    call.cut_tied()
    call.let_go_of_programs(cut=cut)


def _result(task: asyncio.Task[T]) -> T:
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()


def _going(call: Flight, mine: Attempt) -> set[asyncio.Future[Any]]:
    """The ends of what it has started."""
    threads = set[asyncio.Future[Any]]() if call.threads is None else call.threads.ends()
    return threads.union(mine.others())


def _places(call: Flight, mine: Attempt) -> list[str]:
    """The same in words."""
    threads = [] if call.threads is None else call.threads.places()
    return sorted({*map(place_of_task, mine.others()), *threads})


async def _rest(call: Flight, mine: Attempt, end: float) -> None:
    """It has returned: what it has started is part of it, and may end by itself.

    Not what sleeps beyond that time, as a library's keepalive does: then it is known sooner that it will not end.
    """
    enough = mine.loop.time() + NO_LONGER
    while (going := _going(call, mine)) and (left := end - mine.loop.time()) > 0:
        if mine.loop.time() >= enough and all((sleeps_until(one) or 0.0) > end for one in going):
            return
        await asyncio.wait(going, timeout=min(left, LOOKING))


async def _cut(call: Flight, mine: Attempt) -> list[Residue]:
    """End all that goes on of it; what outlives that is named, and known to whoever undoes the call."""
    tasks = mine.others()
    if mine.main is not None and not mine.main.done():
        tasks.add(mine.main)
    if not tasks and not call.threads:
        return []
    session, grace = call.session, call.call.tool.grace
    call.ended = True
    call.cut_tied()
    call.cut_threads()
    outlived = await end_tasks(tasks, grace, mine.spawned)
    outlived |= await end_tasks(mine.others() - outlived, grace, mine.spawned)  # begun to clean up
    left = leave_code(session, outlived)
    if call.threads is not None:
        left += leave_threads(session, await call.threads.outlive(), left)
    if left:
        await _remember(session, left)
    return left


async def _remember(session: Session, left: list[Residue]) -> None:
    def act(_: Tx, row: RunRow) -> tuple[None, list[Event], bytes | None]:
        still_running(row.doc, not_ended(session, left), session.env.lease.id)
        return None, [ev.LeftBehind(what=one.what, where=one.why) for one in left], None

    await session.write(act)


def _nobody_waits() -> None:
    """It makes no calls that could be refused."""
