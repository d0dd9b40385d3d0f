"""Stopping code that may not want to be stopped.

A task is cancelled at once, and again at growing intervals while it swallows the
cancellation; never in a busy loop. What outlives its deadline is named and left behind.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
from collections.abc import Callable, Iterable
from typing import Any

FIRST_REPEAT = 0.05
LONGEST_REPEAT = 1.0
SUSPEND_DEADLINE = 2.0


class Attempt:
    """One try at steps by one task: what it started, and whether it may still act.

    `number` rises with every step; a Run that carries an older number is refused.
    """

    __slots__ = (
        *("broken", "closed", "loop", "main", "main_parked", "number", "on_park", "parked", "refused"),
        *("spawned", "used"),
    )

    def __init__(self, number: int, on_park: Callable[[], None]) -> None:
        self.number = number
        self.closed = False
        self.broken = False  # its code was cancelled: what it returns, if it swallows that, is no end of a step
        self.refused = False  # a request of its code was refused or cut by a stop: it reaches no boundary
        self.loop = asyncio.get_running_loop()
        self.main: asyncio.Task[Any] | None = None
        self.parked = 0
        self.main_parked = False
        self.on_park = on_park
        self.used: set[asyncio.Task[Any]] = set()  # tasks that used this attempt's Run
        self.spawned: set[asyncio.Task[Any]] = set()  # tasks that code of this attempt started

    async def park(self) -> None:
        """Never returns: a refused call waits here until its task is cancelled."""
        main = asyncio.current_task() is self.main
        self.parked += 1
        self.main_parked = self.main_parked or main
        self.on_park()
        try:
            await self.loop.create_future()
        finally:
            self.parked -= 1
            self.main_parked = self.main_parked and not main

    def spoil(self) -> None:
        """A stop refused or cut a request: whatever the code makes of that, it is no end of a step."""
        self.broken = True
        self.refused = True

    def others(self) -> set[asyncio.Task[Any]]:
        """Tasks beside the main one that are still going."""
        return {t for t in self.used | self.spawned if t is not self.main and not t.done()}

    async def suspend(self, deadline: float = SUSPEND_DEADLINE) -> list[asyncio.Task[Any]]:
        """Close, cancel everything of this attempt, and give back what does not end."""
        self.closed = True
        tasks = {t for t in self.used | self.spawned if not t.done()}
        if self.main is not None and not self.main.done():
            tasks.add(self.main)
            self.broken = True
        current = asyncio.current_task()
        if current is not None:
            tasks.discard(current)
        return list(await stop_tasks(tasks, deadline))


current_attempt: contextvars.ContextVar[Attempt | None] = contextvars.ContextVar("standfast_attempt", default=None)


async def stop_tasks(tasks: Iterable[asyncio.Task[Any]], deadline: float) -> set[asyncio.Task[Any]]:
    """Cancel tasks at growing intervals; give back those that outlived the deadline."""
    loop = asyncio.get_running_loop()
    left = {t for t in tasks if not t.done()}
    end = loop.time() + deadline
    pause = FIRST_REPEAT
    while left and loop.time() < end:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=min(pause, max(0.0, end - loop.time())))
        pause = min(pause * 2, LONGEST_REPEAT)
    for task in left:
        leave_behind(task)
    return left


def insist(task: asyncio.Task[Any], pause: float = FIRST_REPEAT) -> None:
    """Cancel a task now, and again at growing intervals until it ends."""
    if task.done():
        return
    task.cancel()
    task.get_loop().call_later(pause, insist, task, min(pause * 2, LONGEST_REPEAT))


def leave_behind(task: asyncio.Task[Any]) -> None:
    """Let go of a task that will not end, so that the program can still end.

    `asyncio.run` waits for every task it knows; `_unregister_task` is asyncio's documented
    way (see "Extending asyncio") to take one out. And it is never freed while it goes on: code
    that swallows everything swallows the GeneratorExit of its destructor too, and would spin there.
    """
    if task.done():
        return
    asyncio._unregister_task(task)
    quiet: Any = task
    quiet._log_destroy_pending = False
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))
    task.add_done_callback(lambda t: ctypes.pythonapi.Py_DecRef(ctypes.py_object(t)))


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
        task: asyncio.Task[Any]
        if self._before is not None:
            task = self._before(loop, coro, **kwargs)
        else:
            task = asyncio.Task(coro, loop=loop, **kwargs)
        context = kwargs.get("context")
        attempt = current_attempt.get() if context is None else context.get(current_attempt)
        if attempt is not None:
            attempt.spawned.add(task)
            task.add_done_callback(attempt.spawned.discard)
        return task
