"""How code is ended that may have something to clean up, or may not want to be ended (R39).

It is asked once, at once. Then it has its grace, undisturbed, for its own `finally` and `async with`. Code that goes on
after that is asked again at growing intervals, never in a busy loop. Code that outlives these too is named, and left
behind by the caller. Tasks, threads and the code of steps all end this way.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

from standfast.from_threads import handed

FIRST_REPEAT = 0.05
LONGEST_REPEAT = 1.0
INSISTING = 1.0  # after its grace, code is asked again for so long before it counts as still running
CODE_GRACE = 2.0  # for the clean-up of a step's own code, and of tasks that it started
STALL = 0.1  # seconds: a timer that is later than this shows that the loop stood still
SPREADING = 2  # turns of the loop until a cancelled task has cancelled the tasks that it waits for


class Ladder:
    """One thing that is being ended. The first request is made by the caller, all later ones by the ladder."""

    __slots__ = (
        *("_ask", "_asking", "_begun", "_due", "_loop", "_over", "_parked", "_pause", "_quiet_until"),
        *("_spare", "_wait", "asked", "grace"),
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ask: Callable[[], object], over: Callable[[], bool], grace: float
    ) -> None:
        self._loop = loop
        self._ask = ask
        self._over = over
        self.grace = grace
        self._begun = False
        self._quiet_until = 0.0
        self._due = loop.time()
        self._spare = grace  # so much of what it loses while the loop stands still is given back
        self._pause = FIRST_REPEAT
        self._asking: asyncio.TimerHandle | None = None
        self._wait = 0.0  # before a task that waits at the gate is asked again
        self._parked: asyncio.TimerHandle | None = None
        self.asked = False  # a task: it has been cancelled, so what it does now is clean-up

    def begin(self) -> None:
        """The first request has been made; in the loop's thread."""
        if not self._begun and not self._over():
            self._begun = True
            self._due = self._loop.time()
            self.allow(self.grace)
            self._climb()

    def allow(self, seconds: float) -> None:
        """Let it clean up undisturbed for so long from now on, at least; from any thread."""
        self._quiet_until = max(self._quiet_until, self._loop.time() + seconds)

    @property
    def quiet(self) -> float:
        """For how long it may go on undisturbed."""
        return self._quiet_until - self._loop.time()

    @property
    def deadline(self) -> float:
        """When it counts as still running, by the loop's clock."""
        return self._quiet_until + INSISTING

    def end(self) -> None:
        """It has ended: nothing is asked of it any more."""
        for handle in (self._asking, self._parked):
            if handle is not None:
                handle.cancel()

    def park(self) -> None:
        """It waits for what it will never get, so it is not cleaning up: it is asked again at once.

        Code that comes back again and again is asked at growing intervals.
        """
        self._parked = self._loop.call_later(self._wait, self._ask)
        self._wait = min(max(self._wait * 2, FIRST_REPEAT), LONGEST_REPEAT)

    def leave_park(self) -> None:
        """It goes on with something else, which may be clean-up."""
        if self._parked is not None:
            self._parked.cancel()

    def _climb(self) -> None:
        if self._over():
            return
        self._give_back(self._loop.time() - self._due)
        quiet = self.quiet
        if quiet <= 0:
            self._ask()
            quiet = self._pause
            self._pause = min(self._pause * 2, LONGEST_REPEAT)
        self._due = self._loop.time() + quiet
        self._asking = self._loop.call_later(quiet, self._climb)

    def _give_back(self, late: float) -> None:
        """While other code blocks the loop nobody can clean up: that is not taken from the time that it has."""
        if late > STALL and self._spare > 0:
            lost = min(late, self._spare)
            self._spare -= lost
            self.allow(lost)


# --- tasks ---------------------------------------------------------------------------------------------------

T = TypeVar("T")

_ladders: WeakKeyDictionary[asyncio.Task[Any], Ladder] = WeakKeyDictionary()
_passed: WeakKeyDictionary[asyncio.Task[Any], float] = WeakKeyDictionary()  # when a task being cut passed on its end
_asking = threading.local()  # .task: whom a ladder cancels just now; a ContextVar would be copied into callbacks


class RunTask(asyncio.Task[T]):
    """A task of a run. A cancellation that others pass on to it does not disturb a clean-up that is under way.

    A stop cuts a task and its parent, each once. But the parent passes its own on to those it waits for (`gather`,
    `TaskGroup`, `wait_for`, whoever cancels in a `finally`, also a thread): they would be cancelled twice, the second
    time in their clean-up. A timer of the task's own (`asyncio.timeout`) cancels it all the same.
    """

    stopping: Callable[[], bool] = staticmethod(lambda: False)  # is what it belongs to being stopped?

    def cancel(self, msg: Any | None = None) -> bool:
        """False if it has been cut already and is cleaning up: then whoever waits for it gets theirs when it ends."""
        by = getattr(_asking, "task", None) or _current_task()
        giver = handed()
        if by is self or (by is None and not giver):
            return super().cancel(msg)
        ladder, theirs = _ladders.get(self), ladder_of(by)
        if ladder is not None and ladder.asked and ladder.quiet > 0:
            if theirs is not None:
                theirs.allow(ladder.quiet + theirs.grace)  # it waits for this clean-up before its own begins
            return False
        # A step may pass on the end of one call before the others are cut; a thread that is cut gives up what it
        # waited for. What a thread cancels before that, as logic of its own, is no part of a stop.
        if theirs is not None or self.stopping() or (by is None and giver is not None and giver.cut):
            _passed[self] = self.get_loop().time()
        return super().cancel(msg)


def _current_task() -> asyncio.Task[Any] | None:
    loop = asyncio._get_running_loop()
    return None if loop is None else asyncio.current_task(loop)


def _cancel(task: asyncio.Task[Any]) -> None:
    """By a ladder: what the task passes on at once is part of this."""
    before = getattr(_asking, "task", None)
    _asking.task = task
    try:
        task.cancel()
    finally:
        _asking.task = before


def ladder_of(task: asyncio.Task[Any] | None) -> Ladder | None:
    """The ladder of a task that is being ended; None if it is not."""
    return None if task is None else _ladders.get(task)


def cut_task(task: asyncio.Task[Any], grace: float = CODE_GRACE, *, asked: bool = False) -> None:
    """Cancel a task, once, however often this is called; `asked`: another part has done that already."""
    if task.done() or task in _ladders:
        return
    ladder = _new_ladder(task, grace)
    if not asked and not _was_passed_on(task, grace):
        _cancel(task)
    ladder.asked = True
    ladder.begin()


def grant(task: asyncio.Task[Any], seconds: float) -> None:
    """It is begun as part of a clean-up, and may take so long; then it is cancelled."""
    if not task.done() and task not in _ladders:
        _new_ladder(task, seconds).begin()


def _new_ladder(task: asyncio.Task[Any], grace: float) -> Ladder:
    here = ref(task)  # the ladder must not keep its task alive: it is found by it

    def cancel() -> None:
        live = here()
        if live is not None:
            _cancel(live)

    def over() -> bool:
        live = here()
        return live is None or live.done()

    ladder = _ladders[task] = Ladder(task.get_loop(), cancel, over, grace)
    task.add_done_callback(lambda _: ladder.end())
    return ladder


async def end_tasks(
    tasks: Iterable[asyncio.Task[Any]],
    grace: float = CODE_GRACE,
    depth: Mapping[asyncio.Task[Any], int] | None = None,
) -> set[asyncio.Task[Any]]:
    """Cut tasks and wait for their ends; those that outlive their deadlines are left behind and given back.

    A task that is cancelled often cancels those it waits for, and a second cancellation would cut their clean-up.
    So tasks are cut in the order of their `depth`, and one that its parent has cancelled is not cancelled again.
    """
    tasks = tuple(tasks)
    before = {task: task.cancelling() for task in tasks}  # code may have swallowed cancellations of its own
    generations: dict[int, list[asyncio.Task[Any]]] = {}
    for task in tasks:
        generations.setdefault(0 if depth is None else depth.get(task, 0), []).append(task)
    for _, generation in sorted(generations.items()):
        for task in generation:
            cut_task(task, grace, asked=task.cancelling() > before[task])
        for _ in range(SPREADING):
            await asyncio.sleep(0)
    left = {t for generation in generations.values() for t in generation if not t.done()}
    return await _outlive(left)


def _was_passed_on(task: asyncio.Task[Any], grace: float) -> bool:
    """Has another task cancelled it a moment ago, because of the stop that it is now to be cut for?"""
    passed = _passed.get(task)
    return passed is not None and task.get_loop().time() - passed < grace


async def _outlive(left: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    loop = asyncio.get_running_loop()
    outlived: set[asyncio.Task[Any]] = set()
    while left:
        now = loop.time()
        deadlines = {task: _ladders[task].deadline for task in left}
        outlived |= {task for task in left if deadlines[task] <= now}
        left = left - outlived
        if left:
            _, left = await asyncio.wait(left, timeout=min(deadlines[task] for task in left) - now)
    for task in outlived:
        leave_behind(task)
    return outlived


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
