"""Coroutines that the threads of a call have handed to the event loop: they are the call's, as its threads are (R39).

Mostly their thread waits for them (`asyncio.run_coroutine_threadsafe`, `anyio.from_thread.run`), in C code that no
exception reaches. So it can only end once they have.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any, Literal

from standfast.context import CallContext, Stopped
from standfast.from_threads import handed
from standfast.ladder import cut_task, grant, leave_behind
from standfast.owning import Pieces, in_loop
from standfast.places import place_of_task
from standfast.records import ByItself

CHAIN = 100  # errors that others caused
CUT = (Stopped, asyncio.CancelledError, concurrent.futures.CancelledError)  # the last: whoever waits for what was cut


class HandedTask:
    """The task of such a coroutine. It is cancelled with its call, and has the call's grace."""

    kind: Literal["thread", "task"] = "task"

    def __init__(self, task: asyncio.Task[Any], call: CallContext) -> None:
        giver = handed()
        self.over: asyncio.Future[None] = task
        self.call: object = call
        self.handed_by = None if giver is None else giver.work
        self._task = task
        self._cut = False

    @property
    def by_itself(self) -> ByItself | None:
        task = self._task
        if not task.done() or task.cancelled():
            return None
        error = task.exception()
        if error is None:  # one that caught its cancellation may have left out the rest, unless it took that back
            return None if task.cancelling() else "finished"
        return None if self._cut and comes_of_the_cut(error) else "failed"

    def cut(self, grace: float) -> None:
        self._cut = True
        in_loop(self._task.get_loop(), cut_task, self._task, grace)

    def where(self) -> str:
        return place_of_task(self._task)

    def leave(self) -> None:
        leave_behind(self._task)


def own_handed(task: asyncio.Task[Any], mine: Pieces, call: CallContext) -> None:
    """The task is cut with its call, and waited for; what is begun to clean up has the time that is left."""
    left = mine.time_left
    if not mine.add(HandedTask(task, call)):
        cut_task(task, 0.0)  # before it has begun
    elif left is not None:
        grant(task, left)


def comes_of_the_cut(error: BaseException) -> bool:
    """Is it what was thrown, or an error that code made of that?"""
    found: BaseException | None = error
    for _ in range(CHAIN):
        if found is None or isinstance(found, CUT):
            break
        found = found.__cause__ or found.__context__
    return isinstance(found, CUT)
