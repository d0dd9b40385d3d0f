"""Connections that ask nothing: strangers can open them, so they are few and short, and hold no descriptors for long.

A stop needs a connection too. Where there are too many idle ones the oldest goes, and the newest is let in.
"""

from __future__ import annotations

import asyncio
import resource
import time
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

HEAD_SECONDS = 10.0  # for a request's line and headers to come
MOST_IDLE = 500
IDLE_SHARE = 4  # and no more than one in so many of the descriptors that this process may have
SPARED_SECONDS = 0.1  # who has just come is about to ask
LONGEST_HEAD = 65_536  # bytes of a request's line and headers


class Idle:
    """The connections without a request, the oldest first."""

    def __init__(self, most: int = MOST_IDLE, seconds: float = HEAD_SECONDS) -> None:
        self._most = most
        self.seconds = seconds
        self._waiting: dict[Connection, float] = {}  # and since when

    def add(self, one: Connection) -> None:
        """It waits from now on; somebody else may have to go for it."""
        self._waiting.pop(one, None)
        self._waiting[one] = time.monotonic()
        if len(self._waiting) > self._most:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.transport.close()

    def make_room(self) -> None:
        """Descriptors have run out: those go that had time enough to ask something."""
        since = time.monotonic() - SPARED_SECONDS
        for one in [one for one, at in self._waiting.items() if at < since]:
            del self._waiting[one]
            one.transport.abort()

    def remove(self, one: Connection) -> None:
        """It asks something, or has gone."""
        self._waiting.pop(one, None)


class Connection(H11Protocol):
    """uvicorn's own, which otherwise waits for ever for the end of a request's headers."""

    idle: Idle

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._is_socket = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._asks() or self._is_socket:
            self._stop_waiting()
        elif self._deadline is None and not self.transport.is_closing():
            self._wait()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._is_socket = True  # another protocol's from now on
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._asks() and not self.transport.is_closing():
            self.idle.add(self)  # how long it may be kept is uvicorn's to say

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _asks(self) -> bool:
        """Is a request being answered?"""
        cycle: Any = self.cycle  # None before the first one, whatever its type says
        return cycle is not None and not cycle.response_complete

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(self.idle.seconds, self.transport.close)
        self.idle.add(self)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.idle.remove(self)


class Socket(WebSocketsSansIOProtocol):
    """uvicorn's own, which otherwise logs an error for everybody who is refused with a reason."""

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True


def most_idle() -> int:
    """How many may be idle: where there are few descriptors, most of them are for those who ask something."""
    may_have, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_IDLE if may_have == resource.RLIM_INFINITY else max(1, min(MOST_IDLE, may_have // IDLE_SHARE))


def connections(most: int | None = None, seconds: float = HEAD_SECONDS) -> type[Connection]:
    """The protocol of one server."""

    class Ours(Connection):
        idle = Idle(most_idle() if most is None else most, seconds)

    return Ours
