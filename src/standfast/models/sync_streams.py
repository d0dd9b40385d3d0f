"""A stream of a synchronous SDK client, read in a thread of its own and cut by shutting its socket.

Closing such a stream from another thread does not wake a read that waits: a silent stream stays open until the
next byte. Shutting the socket does. Before the answer's headers the socket is known from the connection being made;
a connection that was kept alive from an earlier request does not show it, so requests ask for one of their own.
"""

from __future__ import annotations

import asyncio
import contextvars
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from standfast.context import ModelContext, current_call

AHEAD = 256  # events that the thread may read before somebody takes them
HOLD_OUT = 10.0  # seconds; longer than the runtime waits before it names what does not end


class SyncStream:
    """Events of a sync stream as an async iterator."""

    def __init__(self, client: Any, ask: Callable[[Any], Any]) -> None:
        self.cannot_cut = ""
        self._ask = ask
        self._client = _with_trace(client, self._note_connection)
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Condition()
        self._events: deque[Any] = deque()
        self._network: Any = None  # the connection that serves this request, once it is known
        self._cut = False
        self._ended = False
        self._error: Exception | None = None
        self._response: Any = None
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        context = contextvars.copy_context()  # a transport may ask whose request this is
        self._thread = threading.Thread(target=context.run, args=(self._main,), name="standfast-model", daemon=True)

    # --- in the event loop -------------------------------------------------------------------------

    async def open(self) -> Any:
        """The response, once its headers are here."""
        self._thread.start()
        while self._response is None and not self._ended:
            await self._wait()
        if self._response is None and self._error is not None:
            raise self._error
        return self._response

    def __aiter__(self) -> SyncStream:
        return self

    async def __anext__(self) -> Any:
        while True:
            with self._lock:
                if self._events:
                    event = self._events.popleft()
                    self._lock.notify()
                    return event
                ended = self._ended
            if ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            await self._wait()

    async def close(self) -> None:
        """Cut the stream if it has not ended; `cannot_cut` says why, as long as that has not worked."""
        if not self._thread.ident:
            return
        with self._lock:
            self._cut = True
            self._events.clear()
            self._lock.notify()
            network = self._network
        shut = network is not None and _shut(network)
        self.cannot_cut = "" if shut else "its synchronous client does not show its socket"
        cancelled = await self._until_gone(HOLD_OUT)
        if self._gone.is_set():
            self.cannot_cut = ""
        elif shut:
            self.cannot_cut = "its socket is shut, but its synchronous client still waits"
        if cancelled is not None:
            raise cancelled

    async def _until_gone(self, seconds: float) -> asyncio.CancelledError | None:
        """Until the thread has ended: a request that goes on must not look as if it had been cut."""
        end = self._loop.time() + seconds
        cancelled: asyncio.CancelledError | None = None
        while not self._gone.is_set() and (left := end - self._loop.time()) > 0:
            try:
                await asyncio.wait_for(self._gone.wait(), left)
            except TimeoutError:
                break
            except asyncio.CancelledError as error:
                cancelled = error
        return cancelled

    async def _wait(self) -> None:
        await self._news.wait()
        self._news.clear()

    # --- in the thread -----------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            with self._ask(self._client) as stream:
                self._opened(stream.response)
                for event in stream:
                    if not self._put(event):
                        break
        except Exception as error:  # noqa: BLE001 - it is raised again where the stream is read
            self._error = error
        self._ended = True
        self._tell(self._news, self._gone)

    def _opened(self, response: Any) -> None:
        network = response.extensions.get("network_stream")
        with self._lock:
            self._response = response
            self._network = None if str(response.http_version) == "HTTP/2" else network  # others' streams are on it
            cut = self._cut
        if cut and self._network is not None:
            _shut(self._network)
        self._tell(self._news)

    def _put(self, event: Any) -> bool:
        call = current_call.get()
        if call is not None:
            cast("ModelContext", call).byte_came()  # also of what nobody will take any more
        with self._lock:
            self._lock.wait_for(lambda: self._cut or len(self._events) < AHEAD)
            if self._cut:
                return False
            self._events.append(event)
            first = len(self._events) == 1
        if first:
            self._tell(self._news)
        return True

    def _note_connection(self, name: str, info: dict[str, Any]) -> None:
        """From the transport: a connection was made for this request."""
        if name.endswith(("connect_tcp.complete", "connect_unix_socket.complete", "start_tls.complete")):
            with self._lock:
                self._network = info.get("return_value")
                cut = self._cut
            if cut and self._network is not None:
                _shut(self._network)

    def _tell(self, *events: asyncio.Event) -> None:
        try:
            for event in events:
                self._loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more


def _with_trace(client: Any, note: Callable[[str, dict[str, Any]], None]) -> Any:
    """The client, a copy of the user's, with its requests telling us which connection they are on."""
    prepare = getattr(client, "_prepare_request", None)
    if prepare is None:
        return client

    def traced(request: Any) -> None:
        prepare(request)
        request.extensions = {**request.extensions, "trace": note}

    client._prepare_request = traced
    return client


def _shut(network: Any) -> bool:
    found = network.get_extra_info("socket")
    if found is None:
        return False
    sock = cast("socket.socket", found)
    try:
        # closed with a reset: a provider that waits for room to send would not notice a polite end
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
    return True
