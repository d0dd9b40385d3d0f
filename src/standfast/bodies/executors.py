"""Learning which threads code of a run starts through its event loop or anyio, and what these hand back (R39).

The loop's own methods are wrapped, not its executor: a user's executor keeps its size and the names of its threads, and
one that is set or passed at any time is seen too. What is started outside any attempt takes the plain way.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextvars import Context
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from standfast.bodies.owned import ForeignWork, OwnedThread, giver, name_of, owner, resolves_names
from standfast.bodies.standing_in import StandIn
from standfast.from_threads import hand
from standfast.owning import Pieces
from standfast.scope import current_attempt

ANYIO = "anyio._backends._asyncio"
ENDED = "no thread is started for a call or step that was stopped and has ended"
_lock = threading.Lock()  # loops of several threads may be watched


class LoopWatch:
    """Wraps two methods of one loop, for as long as a runtime drives runs there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: Any = loop
        self._plain: Callable[..., asyncio.Future[Any]] = loop.run_in_executor
        self._plain_soon: Callable[..., asyncio.Handle] = loop.call_soon_threadsafe
        self.users = 0
        self._stands = StandIn(loop, "run_in_executor")
        self._stands.put(self._run_in_executor)
        self._stands_soon = StandIn(loop, "call_soon_threadsafe")
        self._stands_soon.put(self._call_soon_threadsafe)

    def remove(self) -> None:
        self._stands.remove()
        self._stands_soon.remove()

    def _call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        attempt = current_attempt.get() if context is None else context.get(current_attempt)
        if attempt is None or not self._stands_soon.active or asyncio._get_running_loop() is self._loop:
            return self._plain_soon(callback, *args, context=context)
        return self._plain_soon(hand, giver(), callback, *args, context=context)

    def _run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        mine = owner() if self._stands.active else None
        if mine is None or resolves_names(func):
            return self._plain(executor, func, *args)
        if executor is not None:
            return self._foreign(executor, mine, func, *args)
        piece = OwnedThread(partial(func, *args) if args else func, mine, self._default)
        if not mine.add(piece):
            return self._refused()
        try:
            handed = _from_a_daemon(lambda: self._plain(None, piece))
        except BaseException:
            piece.withdraw()
            raise
        handed.add_done_callback(partial(_seen, piece))
        return handed

    def _foreign(self, executor: Executor, mine: Pieces, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        piece = ForeignWork(name_of(func), mine)
        if not mine.add(piece):
            return self._refused()
        try:
            future = executor.submit(func, *args)
        except BaseException:
            piece.handed(None)
            raise
        piece.handed(future)
        return asyncio.wrap_future(future, loop=self._loop)

    def _refused(self) -> asyncio.Future[Any]:
        """Cancelled a turn later: code that swallows this and asks again does not keep the loop from its other work."""
        refused: asyncio.Future[Any] = self._loop.create_future()
        self._loop.call_soon_threadsafe(refused.cancel, ENDED)
        return refused

    def _default(self) -> Executor | None:
        found: Executor | None = getattr(self._loop, "_default_executor", None)
        return found


def _seen(piece: OwnedThread, handed: asyncio.Future[Any]) -> None:
    piece.withdraw()
    if piece.is_cut and not handed.cancelled():
        handed.exception()  # nobody need wait for what was cut


def _from_a_daemon(submit: Callable[[], asyncio.Future[Any]]) -> asyncio.Future[Any]:
    """A thread that a pool starts now is a daemon, like the one that asks for it: one left behind keeps nobody waiting.

    At its end the interpreter waits for the threads of pools all the same, by the pools' own list.
    """
    me: Any = threading.current_thread()
    was = me._daemonic
    me._daemonic = True
    try:
        return submit()
    finally:
        me._daemonic = was


_watches: dict[asyncio.AbstractEventLoop, LoopWatch] = {}


def watch_threads(loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
    """From now on threads have owners; gives back what ends that."""
    with _lock:
        watch = _watches.get(loop)
        if watch is None:
            watch = _watches[loop] = LoopWatch(loop)
        watch.users += 1
        _anyio.begin()
    return partial(_unwatch, loop, watch)


def _unwatch(loop: asyncio.AbstractEventLoop, watch: LoopWatch) -> None:
    with _lock:
        _anyio.end()
        watch.users -= 1
        if not watch.users:
            watch.remove()
            _watches.pop(loop, None)


class _Anyio(MetaPathFinder):
    """Wraps anyio's worker threads, now or when anyio is first imported: nobody else should pay for the import."""

    def __init__(self) -> None:
        self._users = 0
        self._stands: StandIn | None = None
        self._asking = threading.local()  # .now: this thread asks the other finders

    def begin(self) -> None:
        self._users += 1
        if self._users == 1:
            module = sys.modules.get(ANYIO)
            if module is not None and hasattr(module, "AsyncIOBackend"):
                self._wrap(module)
            else:
                sys.meta_path.insert(0, self)

    def end(self) -> None:
        self._users -= 1
        if self._users:
            return
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self._stands is not None:
            self._stands.remove()
            self._stands = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the others find, with a loader that wraps. Who only asks, or fails to import, changes nothing."""
        del path, target
        if fullname != ANYIO or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                self._loaded(module)

            setattr(spec.loader, "exec_module", exec_module)  # noqa: B010 - a method, to a type checker
        return spec

    def _loaded(self, module: ModuleType) -> None:
        with _lock:
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            if self._users and self._stands is None:  # the last runtime may have left meanwhile
                self._wrap(module)

    def _wrap(self, module: Any) -> None:
        backend = module.AsyncIOBackend
        call = backend.run_sync_in_worker_thread
        stands = self._stands = StandIn(backend, "run_sync_in_worker_thread")

        async def run_sync_in_worker_thread(
            cls: Any, func: Callable[..., Any], args: tuple[Any, ...], *rest: Any, **options: Any
        ) -> Any:
            del cls
            mine = owner() if stands.active else None
            if mine is None or resolves_names(func):
                return await call(func, args, *rest, **options)
            piece = OwnedThread(partial(func, *args), mine, lambda: None)
            if not mine.add(piece):
                await asyncio.sleep(0)
                raise asyncio.CancelledError(ENDED)
            try:
                return await call(piece, (), *rest, **options)
            finally:
                piece.withdraw()

        stands.put(classmethod(run_sync_in_worker_thread))


_anyio = _Anyio()
