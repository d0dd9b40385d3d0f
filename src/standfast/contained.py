"""What code that is not ours raises ends a call, a step or an undo, never the process that drives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from standfast.odd_text import mended

T = TypeVar("T")


def contained(error: BaseException, task: asyncio.Task[Any] | None = None) -> Exception:
    """The error as an Exception, also for sys.exit(); a cancellation and a person's Ctrl-C are passed on.

    asyncio ends the event loop, and with it every other run, when a task raises SystemExit. A GeneratorExit is passed
    on where code is thrown away, not where it is raised by code that runs in `task`.
    """
    if isinstance(error, Exception):
        return error
    thrown_away = isinstance(error, GeneratorExit) and not _runs(task)
    if thrown_away or isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        raise error
    escaped = RuntimeError(f"the code raised {shown(error)}")
    escaped.__cause__ = error
    return escaped


def _runs(task: asyncio.Task[Any] | None) -> bool:
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:  # no loop: nothing runs any more
        return False


def shown(error: BaseException) -> str:
    """The error as code would write it, if it can be had."""
    try:
        return mended(repr(error))
    except Exception:  # noqa: BLE001 - it is not ours, and may raise anything
        return type(error).__name__


def text_of(error: BaseException) -> str:
    """What an error says of itself, fit to be stored: a text that cannot be had must not take the run along."""
    try:
        text = str(error)
    except Exception as worse:  # noqa: BLE001 - it is not ours, and may raise anything
        text = f"its text cannot be read ({type(worse).__name__})"
    return mended(text)


async def contain(code: Callable[[], Awaitable[T]]) -> T:
    """What `code` returns; raises what it raises, contained."""
    task = asyncio.current_task()
    try:
        return await code()
    except BaseException as error:
        said = contained(error, task)
        if said is error:
            raise
        raise said from error
