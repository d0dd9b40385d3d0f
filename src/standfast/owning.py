"""Work that a call or an attempt has started in threads of an executor, and what these have handed to its event loop.

It is cut with its owner, waited for, and named (R39).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Literal, Protocol

from standfast.ladder import CODE_GRACE, INSISTING
from standfast.records import ByItself


class Piece(Protocol):
    """One function in somebody else's thread, or a coroutine that a thread has handed over."""

    over: asyncio.Future[None]  # of its owner's loop; done once the function has ended, or will never begin
    call: object  # whose code has begun it; None: a step's
    handed_by: object  # a coroutine: the function whose thread has handed it over, if that is a piece too

    @property
    def kind(self) -> Literal["thread", "task"]: ...

    @property
    def by_itself(self) -> ByItself | None:
        """How it ended, if it came to its own end; None: it goes on, or was cut short."""
        ...

    def cut(self, grace: float) -> None:
        """Ask it to end; returns at once."""
        ...

    def where(self) -> str:
        """What it is doing now, for people."""
        ...

    def leave(self) -> None:
        """Go on without it: nobody waits for its thread any more, not even the end of the program."""
        ...


class Pieces:
    """Those of one owner that have not ended.

    The owner waits for them in its event loop, `loop`. They are added from any thread: code of a call may run a loop of
    its own, or have a library do that.
    """

    __slots__ = ("_asked", "_closed", "_grace", "_lock", "_quiet_until", "_running", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop if loop is not None else asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._running: set[Piece] = set()
        self._asked: tuple[Piece, ...] = ()  # those that were running when the owner was cut
        self._grace = CODE_GRACE
        self._quiet_until: float | None = None  # not None: the owner was cut, and may clean up until then
        self._closed = False  # the owner was cut and has ended, or is no longer waited for

    def __bool__(self) -> bool:
        return bool(self._running)

    @property
    def closed(self) -> bool:
        """May nothing begin any more?"""
        return self._closed

    @property
    def time_left(self) -> float | None:
        """For what is begun now: None if the owner has not been cut; 0 if it may not begin any more."""
        if self._closed:
            return 0.0
        return None if self._quiet_until is None else max(0.0, self._quiet_until - self.loop.time())

    def add(self, piece: Piece) -> bool:
        """From now on it ends with its owner; what an owner begins to clean up with has the grace that is left.

        False: it must not begin. Its owner has ended, or has no time left.
        """
        with self._lock:
            if self.time_left == 0:
                return False
            self._running.add(piece)
        if in_loop(self.loop, self._follow, piece):
            return True
        self._discard(piece)  # the loop of its owner has been closed
        return False

    def _follow(self, piece: Piece) -> None:
        piece.over.add_done_callback(lambda _: self._discard(piece))
        left = self.time_left
        if left is not None:
            self.loop.call_later(left, piece.cut, self._grace)

    def _discard(self, piece: Piece) -> None:
        with self._lock:
            self._running.discard(piece)

    def take(self, others: Pieces) -> None:
        """Their owner has ended by itself: they are this one's now."""
        taken = others._now()
        with self._lock:
            self._running.update(taken)
        for piece in taken:
            others._discard(piece)
            self._follow(piece)

    def cut(self, grace: float = CODE_GRACE) -> None:
        """Ask all of them to end, once, however often this is called; from any thread."""
        with self._lock:
            if self._quiet_until is not None:
                return
            self._grace = grace
            self._quiet_until = self.loop.time() + grace
            running = self._asked = tuple(self._running)
        for piece in running:
            piece.cut(grace)

    @property
    def by_itself(self) -> ByItself | None:
        """How all that was running when the owner was cut has ended by itself; None if anything was cut short.

        A thread that waits for what it has handed over is cut short however that ends: it tells nothing.
        """
        waiting = {piece.handed_by for piece in self._asked}
        ends = {piece.by_itself for piece in self._asked if piece.by_itself or piece not in waiting}
        if not ends or None in ends:
            return None
        return "failed" if "failed" in ends else "finished"

    async def end(self) -> None:
        """Until none is left, however long that takes; then nothing begins any more."""
        while not self.close():
            await asyncio.wait({piece.over for piece in self._now()})

    async def outlive(self) -> list[Piece]:
        """Cut them and wait as long as they may take; those that go on are left behind."""
        self.cut()
        assert self._quiet_until is not None
        while (running := self._now()) and (left := self._quiet_until + INSISTING - self.loop.time()) > 0:
            await asyncio.wait({piece.over for piece in running}, timeout=left)
        return self.leave()

    def close(self) -> bool:
        """Nothing begins any more; False if there are some that have not ended."""
        with self._lock:
            self._closed = self._closed or not self._running
            return not self._running

    def leave(self) -> list[Piece]:
        """Go on without those that have not ended; nothing begins any more."""
        with self._lock:
            self._closed = True
        left = list(self._now())
        for piece in left:
            piece.leave()
        return left

    def ends(self) -> set[asyncio.Future[Any]]:
        """What to wait for until each of them has ended."""
        return {piece.over for piece in self._now()}

    def places(self, kind: Literal["thread", "task"] | None = None) -> list[str]:
        """What each of them is doing now."""
        return sorted(piece.where() for piece in self._now() if kind in (None, piece.kind))

    def where(self) -> str:
        """The same in one text."""
        return "; ".join(self.places())

    def _now(self) -> tuple[Piece, ...]:
        with self._lock:
            return tuple(self._running)


def in_loop(loop: asyncio.AbstractEventLoop, act: Callable[..., None], *args: Any) -> bool:
    """Do something in a loop's thread: at once if that is this one; False if the loop has been closed."""
    if asyncio._get_running_loop() is loop:
        act(*args)
        return True
    try:
        loop.call_soon_threadsafe(act, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise
        return False
    return True
