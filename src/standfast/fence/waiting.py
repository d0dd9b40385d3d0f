"""Requests of an async client: cut by cancelling whoever waits for them, closed where nobody does."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from standfast.errors import RequestRefused
from standfast.fence.belonging import Request
from standfast.ladder import cut_task
from standfast.passage import PAUSE_BEFORE_REFUSAL

T = TypeVar("T")
log = logging.getLogger("standfast")


class AsyncRequest(Request):
    """One request in the event loop it is sent from, which need not be the run's own."""

    def __init__(self, method: str, url: Any) -> None:
        super().__init__(method, url)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting: asyncio.Task[Any] | None = None  # who waits inside the inner transport now
        self._thrown = False  # the cancellation under way is ours
        self._stream: Any = None  # the response's, once there is one
        self._closing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Until it may be sent; raises RequestRefused."""
        try:
            door = self.belong()
        except RequestRefused:
            await asyncio.sleep(PAUSE_BEFORE_REFUSAL)
            raise
        if door is None:
            return
        if self._loop is door.loop:
            await self.admit(door)
            return
        admission = asyncio.run_coroutine_threadsafe(self.admit(door), door.loop)
        try:
            await asyncio.wrap_future(admission)
        except asyncio.CancelledError:
            self.gave_up()
            raise

    def streams(self, stream: Any, status: int) -> None:
        """The response has begun."""
        self._stream = stream
        self.status = status

    async def wait(self, work: Callable[[], Awaitable[T]]) -> T:
        """What `work` gives, unless the request is cut before or meanwhile."""
        self.check()
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._waiting = task
        try:
            return await work()
        except asyncio.CancelledError:
            if self._thrown:
                self._thrown = False
                if task.uncancel() <= before:  # nobody else cancels it: it sees a request that failed
                    raise self.was_cut() from None
            raise
        except Exception as error:
            if self.is_cut and not isinstance(error, StopAsyncIteration):
                raise self.was_cut() from error
            raise
        finally:
            self._waiting = None
            if self._thrown:
                self._thrown = False
                task.uncancel()

    def cut(self) -> None:
        """Close it now; from any thread."""
        self.mark_cut()
        if threading.get_ident() == self._thread:
            self._cut_here()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cut_here)

    def _cut_here(self) -> None:
        if self._waiting is not None:
            if self._door is not None and self._loop is self._door.loop:
                cut_task(self._waiting)  # of a step that is being ended: this is the one cancellation that it gets
            elif not self._thrown:
                self._thrown = self._waiting.cancel()  # not if it is being cut with its call anyhow
                if self._flight is None or self._flight.session.env.loop is not self._loop:
                    cut_task(self._waiting, asked=True)  # its thread is cut too, and must not ask it a second time
        elif self._stream is not None and self._closing is None and not self.complete:
            # in nobody's context: it must not be stopped together with the code whose request it closes
            self._closing = self._loop.create_task(self._close(), context=contextvars.Context())

    async def _close(self) -> None:
        try:
            await self._stream.aclose()
        except Exception:
            log.warning("standfast: closing %s failed", self.name, exc_info=True)
        finally:
            self.ended()


class AsyncFence:
    """An async transport that lets through what the current run may send."""

    def __init__(self, inner: Any, stream_type: Callable[[Any, AsyncRequest], Any], keep: object = None) -> None:
        self.inner = inner
        self._stream_type = stream_type
        self._keep = keep  # a client that would close the transport when it is freed

    async def handle_async_request(self, request: Any) -> Any:
        tied = AsyncRequest(request.method, request.url)
        await tied.begin()
        try:
            response = await tied.wait(lambda: self.inner.handle_async_request(request))
        except BaseException as error:
            tied.failed(error)
            raise
        tied.streams(response.stream, response.status_code)
        if not tied.came_whole(response):
            response.stream = self._stream_type(response.stream, tied)
        return response

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def __aenter__(self) -> AsyncFence:
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.inner.__aexit__(*error)


class AsyncBody:
    """The body of a response, readable until its request is cut."""

    def __init__(self, inner: Any, request: AsyncRequest) -> None:
        self._inner = inner
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        request = self._request
        chunks = aiter(self._inner)
        try:
            while True:
                try:
                    chunk: bytes = await request.wait(chunks.__anext__)
                except StopAsyncIteration:
                    break
                request.took(chunk)
                yield chunk
        except GeneratorExit:
            raise  # whoever reads it has had enough: it closes the response, or leaves it to the end of the step
        except BaseException as error:
            request.failed(error)
            raise
        request.complete = True
        request.ended()

    async def aclose(self) -> None:
        try:
            await self._inner.aclose()
        finally:
            self._request.ended()
