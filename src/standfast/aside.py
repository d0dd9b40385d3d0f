"""Code that belongs to a call but is not its body: `before`, `probe`, `undo`.

It runs in a task of its own, may `use()` what the runtime provides, and has a bounded
time, whatever it does with its cancellation.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import TypeVar

from standfast.contained import contain
from standfast.context import current_call
from standfast.flight import Flight
from standfast.scope import stop_tasks
from standfast.tool import unperformed

T = TypeVar("T")
CUT_SECONDS = 0.5  # what does not end by then is left behind


class TookTooLong(Exception):  # noqa: N818 - it states the fact
    """The code did not end in its time."""


async def aside(call: Flight, work: Callable[[], Awaitable[T]], seconds: float | None) -> T:
    """What `work` returns; raises what it raises, or TookTooLong."""
    call.beside = True
    context = contextvars.copy_context()
    context.run(current_call.set, call)
    context.run(unperformed.set, None)

    async def body() -> T:
        return await contain(work)

    task = call.session.env.loop.create_task(body(), context=context)
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        call.ended = True  # its code may send no further request
        call.cut_tied()
        call.let_go_of_programs(cut=not task.done())
    if not task.done():
        await stop_tasks({task}, CUT_SECONDS)
        raise TookTooLong(f"it did not end within {seconds:g} s")
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    return task.result()
