"""Synchronous functions in threads of their own, stopped by an exception thrown into them."""

from __future__ import annotations

import ast
import asyncio
import contextvars
import linecache
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from standfast.bodies import Cut
from standfast.bodies.unwinding import Unwinding
from standfast.contained import shown
from standfast.context import Stopped
from standfast.handed_tasks import CUT
from standfast.ladder import CODE_GRACE


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


class ThreadBody(Unwinding):
    """Runs `fn` in a thread of its own; after `cut()` its Python code is unwound by `Stopped`.

    `where()` names a blocking C call meanwhile. What `fn` returns or raises arrives in `future`, and in `on_late` once
    nobody waits for the future any more.
    """

    future: asyncio.Future[Any]

    def __init__(
        self,
        fn: Callable[[], Any],
        *,
        name: str,
        context: contextvars.Context,
        token: Token,
        grace: float = CODE_GRACE,
        on_late: Callable[[Any, BaseException | None], None] | None = None,
    ) -> None:
        super().__init__(asyncio.get_running_loop())
        self._fn: Callable[[], Any] = partial(context.run, fn)
        self._token = token
        self._grace = grace
        self._on_late = on_late
        self.future = self._loop.create_future()
        # daemon: a stuck C call must not keep the interpreter from exiting
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; a body cut before this never runs `fn`."""
        self._thread.start()

    def cut(self) -> None:
        """Throw Stopped into the body, and again after its grace until it ends; returns at once, from any thread."""
        self._token.stop()
        self._throw_once(self._grace)

    def where(self) -> str:
        """What the body is doing now, such as "time.sleep called at tools.py:12 in fetch"; "" if it has ended."""
        if self._over or not self._ident:
            return ""
        frame = sys._current_frames().get(self._ident)  # pyright: ignore[reportPrivateUsage] - documented
        return _describe(frame) if frame is not None else ""

    # --- in the body's thread --------------------------------------------------------------

    def _main(self) -> None:
        returned, raised = self._guarded(self._token.check, self._fn)
        value, error = self._outcome(returned, raised)
        self._fn = _nothing  # what fn holds must not live as long as this object
        if not self._call_in_loop(self._settle, value, error):
            self._late(value, error)

    def _outcome(self, returned: list[Any], error: BaseException | None) -> tuple[Any, BaseException | None]:
        if returned:
            return returned.pop(), None
        if isinstance(error, CUT) and self._token.stopped:
            return None, Cut("the body was cut before it ended by itself")
        if isinstance(error, Exception):
            return None, error
        # StopIteration ends the map quietly; these and BaseExceptions would upset whoever awaits
        escaped = RuntimeError(
            f"the body raised {shown(error)}" if error is not None else "the body raised StopIteration"
        )
        escaped.__cause__ = error
        return None, escaped

    # --- in the loop -----------------------------------------------------------------------

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self._ladder is not None:
            self._ladder.end()
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
