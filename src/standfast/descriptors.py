"""File descriptors that are kept for stops: a flood of connections can use up all the others (R34).

A few are held open for nothing. When a connection cannot be accepted they are let go, idle connections are closed,
and whoever wants to stop a run gets in; the log says so once in a while, not once a connection.
"""

from __future__ import annotations

import asyncio
import asyncio.constants
import errno
import logging
import os
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger("standfast")

SPARE = 16
ACCEPT_AGAIN_SECONDS = 0.05  # asyncio's own second is a long time for a stop
TAKE_AGAIN_SECONDS = 1.0
SAY_SECONDS = 30.0
_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Descriptors:
    """The spare descriptors of one process that accepts connections; `make_room` closes idle ones."""

    def __init__(self, make_room: Callable[[], None], spare: int = SPARE) -> None:
        self._make_room = make_room
        self._wanted = spare
        self._spare: list[int] = []
        self._missed = 0  # connections that waited, since it was last said
        self._said = -SAY_SECONDS
        self._taking: asyncio.TimerHandle | None = None
        self._hears = self._heard  # one object, which is known again
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._delay: float = 0.0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on they are kept, and errors of accepting come here."""
        self._take()
        self._loop, self._handler = loop, loop.get_exception_handler()
        loop.set_exception_handler(self._hears)
        self._delay = _accept_again_after(ACCEPT_AGAIN_SECONDS)

    def close(self) -> None:
        """Nobody is let in any more, and the loop and asyncio are as they were."""
        if self._loop is not None:
            if self._loop.get_exception_handler() is self._hears:  # else somebody has put another over ours
                self._loop.set_exception_handler(self._handler)
            _accept_again_after(self._delay)
            self._loop = None
        if self._taking is not None:
            self._taking.cancel()
        self._let_go()

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _NONE_LEFT and "accept" in str(context.get("message"))):
            if self._handler is not None:
                self._handler(loop, context)
            else:
                loop.default_exception_handler(context)
            return
        self._let_go()
        self._make_room()
        self._missed += 1
        if time.monotonic() - self._said > SAY_SECONDS:
            self._said = time.monotonic()
            log.error(
                "standfast: no connection can be accepted just now (%s; %d times since this was last said): "
                "idle ones are closed for it. Allow this process more descriptors: ulimit -n",
                error,
                self._missed,
            )
            self._missed = 0
        if self._taking is None:
            self._taking = loop.call_later(TAKE_AGAIN_SECONDS, self._take)

    def _let_go(self) -> None:
        spare, self._spare = self._spare, []
        for fd in spare:
            os.close(fd)

    def _take(self) -> None:
        self._taking = None
        try:
            while len(self._spare) < self._wanted:
                self._spare.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            self._let_go()  # others need them now
            self._taking = asyncio.get_running_loop().call_later(TAKE_AGAIN_SECONDS, self._take)


def _accept_again_after(seconds: float) -> float:
    """How long asyncio waits after a connection that it could not accept; gives back what it was before."""
    before: float = getattr(asyncio.constants, "ACCEPT_RETRY_DELAY")  # noqa: B009 - a constant to checkers
    setattr(asyncio.constants, "ACCEPT_RETRY_DELAY", seconds)  # noqa: B010
    return before
