"""Synchronous functions in threads of their own, stopped by an exception thrown into them."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import ctypes
import linecache
import sys
import threading
from collections.abc import Callable
from itertools import islice
from operator import call
from pathlib import Path
from types import FrameType
from typing import Any

from standfast.bodies import Cut
from standfast.contained import shown
from standfast.context import Stopped

FIRST_REPEAT = 0.01
LONGEST_REPEAT = 1.0


class Token:
    """Tells a body that it has been cut; once stopped it stays stopped."""

    __slots__ = ("_stopped",)

    def __init__(self) -> None:
        self._stopped = False

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        self._stopped = True

    def check(self) -> None:
        if self._stopped:
            raise Stopped


class ThreadBody:
    """Runs `fn` in a thread of its own; after `cut()` its Python code is unwound by `Stopped`.

    A blocking C call ends only when it returns: `where()` names it meanwhile. What `fn` returns
    or raises arrives in `future`, and in `on_late` once nobody waits for the future any more.
    """

    future: asyncio.Future[Any]

    def __init__(
        self,
        fn: Callable[[], Any],
        *,
        name: str,
        context: contextvars.Context,
        token: Token,
        on_late: Callable[[Any, BaseException | None], None] | None = None,
    ) -> None:
        self._fn = fn
        self._context = context
        self._token = token
        self._on_late = on_late
        self._loop = asyncio.get_running_loop()
        self.future = self._loop.create_future()
        # daemon: a stuck C call must not keep the interpreter from exiting
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        # held while an exception is thrown or withdrawn. Reentrant, because an exception may land
        # in the body's thread while that holds it; taken by cut() only if free, so cut never waits
        self._lock = threading.RLock()
        self._ident = 0  # not 0: fn may be running, Stopped may be thrown
        self._over = False  # True: fn has ended, nothing may be thrown any more
        self._repeating = False
        self._returned: list[Any] = []
        self._raised: BaseException | None = None

    def start(self) -> None:
        """Start the thread; a body cut before this never runs `fn`."""
        self._thread.start()

    def cut(self) -> None:
        """Throw Stopped into the body, again and again until it ends; returns at once, from any thread."""
        self._token.stop()
        self._throw()
        if not self._over:
            self._call_in_loop(self._begin_repeats)

    def where(self) -> str:
        """What the body is doing now, such as "time.sleep called at tools.py:12 in fetch"; "" if it has ended."""
        if self._over or not self._ident:
            return ""
        frame = sys._current_frames().get(self._ident)  # pyright: ignore[reportPrivateUsage] - documented
        return _describe(frame) if frame is not None else ""

    # --- throwing --------------------------------------------------------------------------

    def _throw(self) -> None:
        if not self._lock.acquire(blocking=False):
            return  # the body is just starting or ending; a repeat follows
        try:
            if self._ident and not self._over:
                _set_async_exception(self._ident, Stopped)
        finally:
            self._lock.release()

    def _withdraw(self) -> None:
        with self._lock:
            _set_async_exception(self._ident, None)

    def _begin_repeats(self) -> None:
        if not self._repeating:
            self._repeating = True
            self._loop.call_later(FIRST_REPEAT, self._repeat, FIRST_REPEAT)

    def _repeat(self, waited: float) -> None:
        if self._over:
            return
        self._throw()
        pause = min(waited * 2, LONGEST_REPEAT)
        self._loop.call_later(pause, self._repeat, pause)

    # --- in the body's thread --------------------------------------------------------------

    def _main(self) -> None:
        # Once _over is set at most two throws can still land: the one pending then and the one
        # that holds the lock then. So the third withdrawal at the latest runs undisturbed, and
        # nothing can land in what follows.
        try:
            try:
                try:
                    self._perform()
                finally:
                    self._over = True
                    self._withdraw()
            finally:
                self._withdraw()
        except Stopped:
            self._withdraw()
        value, error = self._outcome()
        self._fn = _nothing  # what fn holds must not live as long as this object
        if not self._call_in_loop(self._settle, value, error):
            self._late(value, error)

    def _perform(self) -> None:
        try:
            with self._lock:
                self._token.check()
                self._ident = threading.get_ident()
            # C code puts the value away: no bytecode runs, so no throw can land, between
            # fn's return and the moment its value is safe
            self._context.run(self._returned.extend, map(call, (self._fn,)))
        except BaseException as error:  # noqa: BLE001 - delivered by _outcome
            self._raised = error

    def _outcome(self) -> tuple[Any, BaseException | None]:
        error = self._raised
        if self._returned:
            return self._returned.pop(), None
        if isinstance(error, Stopped) and self._token.stopped:
            return None, Cut("the body was cut before it ended by itself")
        if isinstance(error, Exception):
            return None, error
        # StopIteration ends the map quietly; these and BaseExceptions would upset whoever awaits
        escaped = RuntimeError(
            f"the body raised {shown(error)}" if error is not None else "the body raised StopIteration"
        )
        escaped.__cause__ = error
        return None, escaped

    def _call_in_loop(self, callback: Callable[..., None], *args: Any) -> bool:
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            return False
        return True

    # --- in the loop -----------------------------------------------------------------------

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            self._late(value, error)
        elif error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)

    def _late(self, value: Any, error: BaseException | None) -> None:
        if self._on_late is not None:
            self._on_late(value, error)


def _nothing() -> None:
    return None


def _set_async_exception(ident: int, exception: type[BaseException] | None) -> None:
    wrapped = ctypes.py_object(exception) if exception is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), wrapped)


def _describe(frame: FrameType) -> str:
    code = frame.f_code
    line = frame.f_lineno or code.co_firstlineno
    place = f"at {Path(code.co_filename).name}:{line} in {code.co_name}"
    called = _called_function(frame)
    return f"{called} called {place}" if called else place


def _called_function(frame: FrameType) -> str:
    """The source text of the function that the frame's current instruction calls, "" if it calls none."""
    code = frame.f_code
    positions = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None, None, None, None))
    first, last, start, end = positions
    if first is None or last is None or start is None or end is None:
        return ""
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]  # offsets count bytes; the end first: it may be the same line
    lines[0] = lines[0][start:]
    try:
        expression = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return ""  # the file has changed since it was loaded
    return ast.unparse(expression.func) if isinstance(expression, ast.Call) else ""
