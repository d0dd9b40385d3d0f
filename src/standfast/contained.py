"""What code that is not ours raises ends a call, a step or an undo, never the process that drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def contained(error: BaseException) -> Exception:
    """The error as an Exception, also for sys.exit(); a cancellation and a person's Ctrl-C are passed on.

    asyncio ends the event loop, and with it every other run, when a task raises SystemExit.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        raise error
    escaped = RuntimeError(f"the code raised {error!r}")
    escaped.__cause__ = error
    return escaped


async def contain(code: Callable[[], Awaitable[T]]) -> T:
    """What `code` returns; raises what it raises, contained."""
    try:
        return await code()
    except BaseException as error:
        said = contained(error)
        if said is error:
            raise
        raise said from error
