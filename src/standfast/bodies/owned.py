"""Functions that a call or a step has handed to an executor of the event loop, as its owner sees them (R39)."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread as pools
import contextvars
import functools
import socket
import threading
from collections.abc import Callable, MutableMapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Literal, cast

from standfast.bodies.unwinding import Unwinding
from standfast.context import Stopped, current_call
from standfast.from_threads import Giver
from standfast.handed_tasks import CUT, comes_of_the_cut
from standfast.owning import Pieces, in_loop
from standfast.places import place_of_thread
from standfast.records import ByItself
from standfast.scope import current_attempt

_joined_at_exit: MutableMapping[threading.Thread, Any] = cast("Any", pools)._threads_queues


def _change_threads(pool_: ThreadPoolExecutor, thread: threading.Thread, *, there: bool) -> None:
    """Put a thread into the lists of a pool, or take it out.

    Under the pool's own locks, and never into a set that a `shutdown` in another thread may go through just now.
    """
    pool: Any = pool_
    with pool._shutdown_lock, cast("Any", pools)._global_shutdown_lock:
        if there and not pool._shutdown:
            pool._threads = pool._threads | {thread}
            _joined_at_exit[thread] = pool._work_queue
        elif not there:
            pool._threads = pool._threads - {thread}
            _joined_at_exit.pop(thread, None)


class _Here(threading.local):
    work: OwnedThread | None = None  # what this thread of a pool runs


_here = _Here()


def giver() -> Giver:
    """Who hands something to the loop, from this thread."""
    work, call = _here.work, current_call.get()
    cut = (work is not None and work.is_cut) or (call is not None and call.stop_token.stopped)
    return Giver(work, cut)


def owner() -> Pieces | None:
    """What the call or the attempt whose code this is has started; None outside any."""
    call, attempt = current_call.get(), current_attempt.get()
    if call is not None:
        return call.pieces()
    return attempt.pieces if attempt is not None else None


class OwnedThread(Unwinding):
    """Runs `fn` in a thread of a pool; after `cut()` its Python code is unwound, and the pool's thread goes on."""

    kind: Literal["thread", "task"] = "thread"

    def __init__(
        self,
        fn: Callable[[], Any],
        owner: Pieces,
        pool: Callable[[], Executor | None],
    ) -> None:
        super().__init__(owner.loop)  # the code that waits for fn may run in another one
        self.over: asyncio.Future[None] = owner.loop.create_future()
        self._fn = fn
        self._name = name_of(fn)
        self.call: object = current_call.get()
        self._within = current_call.get(), current_attempt.get()
        self._pool = pool
        self._thread: threading.Thread | None = None
        self._withdrawn = False
        self._left = False
        self.by_itself: ByItself | None = None
        self.handed_by: object = None

    # --- for the owner, in its loop ---------------------------------------------------------------

    def cut(self, grace: float) -> None:
        self.withdraw()
        if not self.over.done():
            self._throw_once(grace)

    @property
    def is_cut(self) -> bool:
        return self._cut

    def withdraw(self) -> None:
        """It will never begin, unless it has begun; from any thread."""
        with self._lock:
            self._withdrawn = True
            begun = bool(self._ident)
        if not begun:
            in_loop(self._loop, self._ended)

    def where(self) -> str:
        place = place_of_thread(self._ident) if self._ident and not self._over else ""
        return f"{self._name} in a thread: {place}" if place else f"{self._name} in a thread"

    def leave(self) -> None:
        """Its pool starts another thread in its place, and does not wait for this one."""
        pool, thread = self._pool(), self._thread
        with self._lock:  # whoever ends waits for it: nothing is put back before it was taken out
            if self._over or thread is None:
                return
            self._left = True
            if isinstance(pool, ThreadPoolExecutor):
                _change_threads(pool, thread, there=False)

    def _ended(self) -> None:
        if not self.over.done():
            self.over.set_result(None)
        if self._ladder is not None:
            self._ladder.end()

    # --- in the pool's thread ---------------------------------------------------------------------

    def __call__(self) -> Any:
        call, attempt = self._within
        vars_ = (current_call.set(call), current_attempt.set(attempt))  # run_in_executor copies no context
        self._thread = threading.current_thread()
        before, _here.work = _here.work, self
        returned, raised = self._guarded(self._begin, self._fn)
        _here.work = before
        current_call.reset(vars_[0])
        current_attempt.reset(vars_[1])
        if returned:
            self.by_itself = "finished"
        elif raised is not None and not (self._cut and comes_of_the_cut(raised)):
            self.by_itself = "failed"
        self._fn = _nothing  # what fn holds must not live as long as this object
        if self._left:
            self._return()
        self._call_in_loop(self._ended)
        if returned:
            return returned[0]
        if raised is None or (isinstance(raised, CUT) and self._cut):
            raise asyncio.CancelledError("the thread was cut with its call or step")
        raise raised

    def _begin(self) -> None:
        if self._withdrawn:
            raise Stopped

    def _return(self) -> None:
        """It was left behind and has ended after all: its thread is one of the pool's again."""
        pool, thread = self._pool(), self._thread
        if isinstance(pool, ThreadPoolExecutor) and thread is not None:
            _change_threads(pool, thread, there=True)


class ForeignWork:
    """Work in an executor that was passed: waited for and named, never cut, because it may be somebody else's."""

    kind: Literal["thread", "task"] = "thread"

    def __init__(
        self,
        name: str,
        owner: Pieces,
    ) -> None:
        self.over: asyncio.Future[None] = owner.loop.create_future()
        self.call: object = current_call.get()
        self._name = name
        self._loop = owner.loop
        self._future: Future[Any] | None = None
        self._cut = False
        self.by_itself: ByItself | None = None
        self.handed_by: object = None

    def handed(self, future: Future[Any] | None) -> None:
        """To its executor, which will set this future; None: it did not take the work."""
        if future is None:
            in_loop(self._loop, self._ended)
            return
        self._future = future
        if self._cut:  # meanwhile, from another thread
            future.cancel()
        future.add_done_callback(self._done)

    def cut(self, grace: float) -> None:
        del grace
        self._cut = True
        if self._future is not None:
            self._future.cancel()  # if it has not begun

    def where(self) -> str:
        return f"{self._name} in an executor of its own"

    def leave(self) -> None:
        """Whoever made the executor decides who waits for it."""

    def _done(self, future: Future[Any]) -> None:
        if not future.cancelled():
            self.by_itself = "finished" if future.exception() is None else "failed"
        in_loop(self._loop, self._ended)

    def _ended(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


def name_of(fn: Callable[..., Any]) -> str:
    """A function as people know it, through what asyncio and frameworks wrap around it."""
    fn = unwrapped(fn)
    return getattr(fn, "__qualname__", "") or type(fn).__qualname__


def unwrapped(fn: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(fn, functools.partial):
        in_context = isinstance(getattr(fn.func, "__self__", None), contextvars.Context)
        fn = fn.args[0] if in_context and fn.args else fn.func
    return fn


def resolves_names(fn: Callable[..., Any]) -> bool:
    """Is this a look at the name service? It has no effect, and nobody can end it: it is forgotten."""
    fn = unwrapped(fn)
    return fn in (socket.getaddrinfo, socket.getnameinfo) or getattr(fn, "__name__", "") == "_getaddrinfo_debug"


def _nothing() -> None:
    return None
