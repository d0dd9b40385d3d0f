"""Unwinding Python code from another thread, by an exception thrown into the one that it runs in."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
from collections.abc import Callable
from operator import call
from typing import Any

from standfast.bodies.inner_loops import InnerLoop, main_task
from standfast.context import Stopped
from standfast.ladder import Ladder

SOON = 0.01  # code that is just starting or ending could not be thrown at
MOST_WAITS = 50  # code that does nothing but start threads is thrown at in the end, and so is a loop that is busy
STARTING_FRAMES = 4  # Thread.start waits in an Event, which waits in a Condition


class Unwinding:
    """Code that is unwound by `Stopped`, wherever it is; the thread that it runs in goes on afterwards.

    It is thrown once, and again only if the code goes on for more than its grace after that: its `finally` is its own.
    A blocking C call ends only when it returns. Of code that runs an event loop, the main task is cancelled instead.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # held while an exception is thrown or withdrawn. Reentrant, because an exception may land
        # in the code's thread while that holds it; taken by a throw only if free, so a throw never waits
        self._lock = threading.RLock()
        self._ident = 0  # not 0: the code may be running, Stopped may be thrown
        self._over = False  # True: the code has ended, nothing may be thrown any more
        self._cut = False
        self._ladder: Ladder | None = None  # made by the first throw
        self._thrown: type[Stopped] = Stopped
        self._waited = 0  # times that a throw was put off because the code was starting a thread
        self._inner: InnerLoop | None = None  # asked by the first throw

    # --- from any thread -------------------------------------------------------------------------

    def _throw_once(self, grace: float) -> None:
        """The first throw, and the ladder after it."""
        if self._cut:
            return
        self._cut = True
        ladder = self._ladder = Ladder(self._loop, self._throw, lambda: self._over, grace)
        self._thrown = self._landing(ladder, grace)
        thrown = self._throw()
        if not self._over:
            self._call_in_loop(self._climb, ladder, thrown)

    def _throw(self) -> bool:
        """False if it must be tried again: the code is just starting or ending, starts a thread, or runs a loop."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._ident and not self._over:
                if self._waited < MOST_WAITS and _starts_a_thread(self._ident):
                    self._waited += 1
                    return False
                asked = self._inner_loop().asked()
                if asked is not None:
                    return asked
                _set_async_exception(self._ident, self._thrown)
        finally:
            self._lock.release()
        return True

    def _inner_loop(self) -> InnerLoop:
        """The loop that the code runs, asked to end by now."""
        if self._inner is None:
            assert self._ladder is not None
            self._inner = InnerLoop(main_task(self._ident), self._ladder)
        return self._inner

    def _landing(self, ladder: Ladder, grace: float) -> type[Stopped]:
        """What is thrown until it lands. It may have to wait for a blocking C call: clean-up begins where it lands.

        Python makes the exception from its class when it lands, in the code's thread.
        """
        code = self

        class Landed(Stopped):
            def __init__(self, *args: object) -> None:
                code._thrown = Stopped
                ladder.allow(grace)
                super().__init__(*args)

        Landed.__name__ = Landed.__qualname__ = Stopped.__name__
        Landed.__module__ = Stopped.__module__
        return Landed

    def _climb(self, ladder: Ladder, thrown: bool) -> None:
        if self._over:
            return
        if not thrown and not self._throw():
            self._loop.call_later(SOON, self._climb, ladder, False)
            return
        ladder.begin()

    def _call_in_loop(self, callback: Callable[..., None], *args: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            return False
        return True

    # --- in the thread of the code ---------------------------------------------------------------

    def _guarded(self, begin: Callable[[], None], fn: Callable[[], Any]) -> tuple[list[Any], BaseException | None]:
        """What `fn` returned, in a list, or raised; nothing is thrown any more. `begin` may refuse by raising."""
        # Once _over is set at most two throws can still land: the one pending then and the one
        # that holds the lock then. So the third withdrawal at the latest runs undisturbed, and
        # nothing can land in what follows.
        returned: list[Any] = []
        raised: list[BaseException] = []
        try:
            try:
                try:
                    self._perform(begin, fn, returned, raised)
                finally:
                    self._over = True
                    self._withdraw()
            finally:
                self._withdraw()
        except Stopped:
            self._withdraw()
        return returned, raised[0] if raised else None

    def _perform(
        self, begin: Callable[[], None], fn: Callable[[], Any], returned: list[Any], raised: list[BaseException]
    ) -> None:
        try:
            with self._lock:
                begin()
                self._ident = threading.get_ident()
            # C code puts the value away: no bytecode runs, so no throw can land, between
            # fn's return and the moment its value is safe
            returned.extend(map(call, (fn,)))
        except BaseException as error:  # noqa: BLE001 - handed on by the caller
            raised.append(error)

    def _withdraw(self) -> None:
        with self._lock:
            _set_async_exception(self._ident, None)


def _starts_a_thread(ident: int) -> bool:
    """Until Python 3.12 a new thread goes by the identity of the one that starts it, and would be thrown at instead."""
    if sys.version_info >= (3, 12):
        return False
    frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage] - documented
    for _ in range(STARTING_FRAMES):
        if frame is None:
            return False
        if frame.f_code is threading.Thread.start.__code__:
            return frame.f_locals["self"].ident is None  # with an identity of its own, it is safe
        frame = frame.f_back
    return False


def _set_async_exception(ident: int, exception: type[BaseException] | None) -> None:
    wrapped = ctypes.py_object(exception) if exception is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), wrapped)
