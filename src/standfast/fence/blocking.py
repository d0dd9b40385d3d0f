"""Requests of a sync client: cut by shutting down the socket that their thread waits for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from standfast.errors import RequestRefused
from standfast.fence.belonging import Request
from standfast.passage import PAUSE_BEFORE_REFUSAL

ADMISSION_SECONDS = 30.0  # a loop that is silent so long is blocked, perhaps by whoever waits for this thread


class SyncRequest(Request):
    """One request in the thread it is sent from."""

    def __init__(self, method: str, url: Any) -> None:
        super().__init__(method, url)
        self._lock = threading.Lock()  # a connection that went back to the pool must not be shut down any more
        self._connection: Any = None  # a network stream of httpcore's: what to shut down

    def begin(self) -> None:
        """Until it may be sent; raises RequestRefused."""
        try:
            door = self.belong()
        except RequestRefused:
            time.sleep(PAUSE_BEFORE_REFUSAL)
            raise
        if door is None:
            return
        if threading.get_ident() == door.thread:
            raise RequestRefused(
                f"{self.name} would block the event loop, and with it every stop: it was not sent",
                hint="use the async client, or await asyncio.to_thread(...), or send it in a tool's body",
            )
        admission = asyncio.run_coroutine_threadsafe(self.admit(door), door.loop)
        try:
            admission.result(ADMISSION_SECONDS)
        except concurrent.futures.CancelledError:
            time.sleep(PAUSE_BEFORE_REFUSAL)
            raise RequestRefused(f"its step was stopped: {self.name} was not sent") from None
        except BaseException as error:
            admission.cancel()
            self.gave_up()
            if isinstance(error, TimeoutError) and not admission.done():
                raise RequestRefused(
                    f"the event loop did not answer for {ADMISSION_SECONDS:g} s: {self.name} was not sent",
                    hint="it is blocked: nothing may wait for a thread without await",
                ) from error
            raise

    @contextmanager
    def at_work(self) -> Generator[None]:
        """This thread works for the request: the connections it uses are what a cut shuts down."""
        self.check()
        _at_work.request = self
        try:
            yield
        except Exception as error:
            if self.is_cut:
                raise self.was_cut() from error
            raise
        finally:
            _at_work.request = None
        self.check()  # a connection that was shut down can look like one that came to its end

    def uses(self, connection: Any) -> None:
        with self._lock:
            self._connection = connection
        self.check()

    def cut(self) -> None:
        """Close it now; from any thread."""
        self.mark_cut()
        with self._lock:
            if self._connection is not None:
                _shut_down(self._connection)

    def failed(self, error: BaseException) -> None:
        self._let_go()
        super().failed(error)

    def ended(self) -> None:
        self._let_go()
        super().ended()

    def _let_go(self) -> None:
        with self._lock:
            self._connection = None


class _AtWork(threading.local):
    request: SyncRequest | None = None


_at_work = _AtWork()


def _shut_down(connection: Any) -> None:
    sock = connection.get_extra_info("socket")
    if not isinstance(sock, socket.socket):
        return  # not a network: a transport of the user's own, which cannot be cut
    try:
        # the plain socket's own method: TLS would first take its object away from the thread that reads
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return  # the other side, or its own thread, was quicker


class Noting:
    """A network backend of httpcore's that tells each request which connection it uses."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def connect_tcp(self, *args: Any, **kwargs: Any) -> Any:
        return _noting(self._inner.connect_tcp(*args, **kwargs))

    def connect_unix_socket(self, *args: Any, **kwargs: Any) -> Any:
        return _noting(self._inner.connect_unix_socket(*args, **kwargs))

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class NotingStream:
    """A connection that tells whoever uses it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def note(self) -> None:
        request = _at_work.request
        if request is not None:
            request.uses(self._inner)

    def read(self, *args: Any, **kwargs: Any) -> bytes:
        self.note()
        data: bytes = self._inner.read(*args, **kwargs)
        return data

    def write(self, *args: Any, **kwargs: Any) -> None:
        self.note()
        self._inner.write(*args, **kwargs)

    def close(self) -> None:
        self._inner.close()

    def start_tls(self, *args: Any, **kwargs: Any) -> Any:
        self.note()
        return _noting(self._inner.start_tls(*args, **kwargs))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _noting(connection: Any) -> NotingStream:
    """A new connection, unless its request was cut while it was being made."""
    noting = NotingStream(connection)
    try:
        noting.note()
    except BaseException:
        noting.close()
        raise
    return noting


def note_connections(transport: Any) -> None:
    """Let the requests of an ordinary transport know their connections, also before the response has begun."""
    pool = getattr(transport, "_pool", None)
    backend = getattr(pool, "_network_backend", None)
    if pool is not None and backend is not None and not isinstance(backend, Noting):
        pool._network_backend = Noting(backend)


class SyncFence:
    """A sync transport that lets through what the current run may send."""

    def __init__(self, inner: Any, stream_type: Callable[[Any, SyncRequest], Any], keep: object = None) -> None:
        self.inner = inner
        self._stream_type = stream_type
        self._keep = keep  # a client that would close the transport when it is freed
        note_connections(inner)

    def handle_request(self, request: Any) -> Any:
        tied = SyncRequest(request.method, request.url)
        tied.begin()
        response: Any = None
        try:
            with tied.at_work():
                response = self.inner.handle_request(request)
                connection = response.extensions.get("network_stream")
                if connection is not None:
                    tied.uses(connection)
        except BaseException as error:
            if response is not None:
                response.close()
            tied.failed(error)
            raise
        tied.status = response.status_code
        if not tied.came_whole(response):
            response.stream = self._stream_type(response.stream, tied)
        return response

    def close(self) -> None:
        self.inner.close()

    def __enter__(self) -> SyncFence:
        self.inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.inner.__exit__(*error)


class SyncBody:
    """The body of a response, readable until its request is cut."""

    def __init__(self, inner: Any, request: SyncRequest) -> None:
        self._inner = inner
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        request = self._request
        chunks = iter(self._inner)
        try:
            while True:
                with request.at_work():
                    chunk: bytes | None = next(chunks, None)
                if chunk is None:
                    break
                request.took(chunk)
                yield chunk
        except GeneratorExit:
            raise  # whoever reads it has had enough: it closes the response
        except BaseException as error:
            request.failed(error)
            raise
        request.complete = True
        request.ended()

    def close(self) -> None:
        try:
            self._inner.close()
        finally:
            self._request.ended()
