"""One attempt at steps: what its code has started, and how all of it is ended."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from standfast.context import CallContext, current_call
from standfast.from_threads import handed
from standfast.handed_tasks import own_handed
from standfast.ladder import CODE_GRACE, INSISTING, RunTask, cut_task, end_tasks, grant, ladder_of, leave_behind
from standfast.owning import Pieces


class Attempt:
    """One try at steps by one task: what it started, and whether it may still act.

    `number` rises with every step; a Run that carries an older number is refused.
    """

    __slots__ = (
        *("begin_program", "broken", "closed", "loop", "main", "main_parked", "number", "on_park", "over"),
        *("_left", "_quiet_until", "calling", "parked", "pieces", "refused", "spawned", "stopping", "used"),
    )

    def __init__(self, number: int, on_park: Callable[[], None]) -> None:
        self.number = number
        self.closed = False
        self.broken = False  # its code was cancelled: what it returns, if it swallows that, is no end of a step
        self.refused = False  # a request of its code was refused or cut by a stop: it reaches no boundary
        self.stopping = False  # what it has in flight is being cut
        self.over = False  # it was stopped, and all of it has ended or is named: nothing of it begins any more
        self.loop = asyncio.get_running_loop()
        self._quiet_until: float | None = None  # not None: it is being ended, and may clean up until then
        self._left: set[asyncio.Task[Any]] = set()  # named: they would not end
        self.main: asyncio.Task[Any] | None = None
        self.parked = 0
        self.calling = 0  # calls that have not returned, the parked ones too, but none that waits for a person
        self.main_parked = False
        self.on_park = on_park
        self.begin_program: Callable[[], str] = str  # gives the mark of a program that its code is about to start
        self.pieces = Pieces()  # work that code of this attempt handed to executors
        self.used: set[asyncio.Task[Any]] = set()  # tasks that used this attempt's Run
        # tasks that code of this attempt started, each with its depth below the main one
        self.spawned: dict[asyncio.Task[Any], int] = {}

    async def park(self) -> None:
        """Never returns: a refused call waits here until its task is cancelled; at once if it is being ended."""
        task = asyncio.current_task()
        main = task is self.main
        self.parked += 1
        self.main_parked = self.main_parked or main
        self.on_park()
        ladder = ladder_of(task)
        if ladder is not None:
            ladder.park()
        try:
            await self.loop.create_future()
        finally:
            if ladder is not None:
                ladder.leave_park()
            self.parked -= 1
            self.main_parked = self.main_parked and not main

    @property
    def busy(self) -> bool:
        """Is a call on its way, be it in its body, or before and after that in the store?"""
        return self.calling > self.parked

    def spoil(self) -> None:
        """A stop refused or cut a request: whatever the code makes of that, it is no end of a step."""
        self.broken = True
        self.refused = True

    def others(self) -> set[asyncio.Task[Any]]:
        """Tasks beside the main one that are still going."""
        return {t for t in self.used.union(self.spawned) if t is not self.main and not t.done()}

    async def suspend(self) -> list[asyncio.Task[Any]]:
        """Close, cut everything of this attempt, and give back what does not end."""
        self.closed = True
        self.stopping = True
        self._quiet_until = self.loop.time() + CODE_GRACE
        self.pieces.cut()  # first: a task may wait for its thread, whatever comes
        tasks = self.others()
        if self.main is not None and not self.main.done():
            tasks.add(self.main)
            self.broken = True
        return await self._end(tasks)

    async def end(self) -> list[asyncio.Task[Any]]:
        """After `suspend`: cut what clean-up has begun since, and give back what does not end. Nothing begins any more.

        A timer or a callback that nobody has taken back may still try, in the context of this attempt.
        """
        left = await self._end(self.others() - self._left)
        self.over = True
        return left

    async def cut_others(self) -> list[asyncio.Task[Any]]:
        """The step has ended by itself: the same for all but the main task, which goes on with the next."""
        self.pieces.cut()
        return await self._end(self.others())

    async def _end(self, tasks: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        current = asyncio.current_task()
        tasks -= {current}
        left = await end_tasks(tasks, depth=self.spawned)
        end = self.loop.time() + CODE_GRACE + INSISTING  # clean-up that begins task after task is not waited for
        while (begun := self.others() - self._left - left - {current}) and self.loop.time() < end:
            left |= await end_tasks(begun, depth=self.spawned)
        for task in begun:
            leave_behind(task)
        left |= begun
        self._left |= left
        return list(left)

    def own(self, task: asyncio.Task[Any], parent: asyncio.Task[Any] | None, call: CallContext | None = None) -> None:
        """From now on the task is ended with this attempt.

        A task that is started by code in its clean-up is part of that, and has as much time; so is one that a callback
        starts meanwhile. In such a task a database's driver tells the server that a query was cancelled.
        """
        self.spawned[task] = 1 + (0 if parent is None else self.spawned.get(parent, 0))
        task.add_done_callback(self.disown)
        left = self._time_left(parent, call)
        if left is not None and left > 0:
            grant(task, left)
        elif left is not None:
            cut_task(task, 0.0)  # before it has begun

    def _time_left(self, parent: asyncio.Task[Any] | None, call: CallContext | None) -> float | None:
        """For a task that is begun now: None if what begins it is not being ended; 0 if it may not begin."""
        if self.over:
            return 0.0
        ladder = ladder_of(parent)
        if ladder is not None:
            return max(ladder.quiet, 0.0)
        if call is not None:
            return call.time_left
        if parent is not None or not self.stopping:
            return None
        return CODE_GRACE if self._quiet_until is None else max(self._quiet_until - self.loop.time(), 0.0)

    def disown(self, task: asyncio.Task[Any]) -> None:
        """The task is ended by rules of its own, or has ended."""
        self.spawned.pop(task, None)


current_attempt: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("standfast_attempt", default=None)
begun_by = WeakKeyDictionary[asyncio.Future[Any], CallContext]()  # tasks that code of a call has started


class TaskWatch:
    """Notes which tasks an agent's code starts, so that they can be stopped with it.

    A task factory, because Python 3.11 has no other way to learn a task's context.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._before: Any = None

    def install(self) -> None:
        self._before = self._loop.get_task_factory()
        self._loop.set_task_factory(self._factory)

    def remove(self) -> None:
        if self._loop.get_task_factory() == self._factory:
            self._loop.set_task_factory(self._before)

    def _factory(self, loop: asyncio.AbstractEventLoop, coro: Any, **kwargs: Any) -> asyncio.Future[Any]:
        context = kwargs.get("context")
        attempt = current_attempt.get() if context is None else context.get(current_attempt)
        task: asyncio.Task[Any]
        if self._before is not None:
            task = self._before(loop, coro, **kwargs)
        else:
            task = asyncio.Task(coro, loop=loop, **kwargs) if attempt is None else _task_of(attempt, coro, loop, kwargs)
        if attempt is not None and attempt.loop is loop:
            call = current_call.get() if context is None else context.get(current_call)
            if call is not None:
                begun_by[task] = call
            parent = asyncio.current_task(loop)
            mine = call.pieces() if call is not None and parent is None and handed() else None
            if call is not None and mine is not None and mine is not attempt.pieces:
                own_handed(task, mine, call)
            else:
                attempt.own(task, parent, call)
        return task


def _task_of(attempt: Attempt, coro: Any, loop: asyncio.AbstractEventLoop, kwargs: dict[str, Any]) -> RunTask[Any]:
    task = RunTask[Any](coro, loop=loop, **kwargs)
    task.stopping = lambda: attempt.stopping
    return task
