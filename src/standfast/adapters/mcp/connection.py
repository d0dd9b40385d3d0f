"""One session with a server, owned by one task of its own: what is cut elsewhere never breaks it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

from standfast.adapters.mcp.backend import Backend, Nonsense, OnProgress, Refusal, Session, request_id
from standfast.errors import StandfastError, ToolServerFailed
from standfast.records import Json

log = logging.getLogger("standfast.mcp")

MOST_GIVEN_UP = 100  # answers that are still listened for after their calls were given up
LOST = -32000  # the SDK's code, and words, for an answer that will never come
BROKEN = ("Connection closed", "SSE stream")
FORGOTTEN = ("Session terminated", "Session not found")  # a server that was started anew: nothing was done there
HEARTBEAT = 5.0  # how often a server over HTTP is asked whether it lives, while calls are in flight
STRAY_GRACE = 5.0  # how soon a server that printed something in the midst of a call must answer a ping


class Transport(Protocol):
    """How a server is reached."""

    @property
    def silent(self) -> bool:
        """True if the end of the other side may go unnoticed."""
        ...

    @property
    def ended(self) -> asyncio.Future[str] | None:
        """Done when the server has gone, with the reason; None where only the session can tell."""
        ...

    @property
    def pid(self) -> int | None: ...

    async def kill(self, why: str) -> None: ...

    def complaints(self) -> str: ...


Open = Callable[[Backend, Callable[[str], None]], AbstractAsyncContextManager[tuple[Any, Any, Transport]]]


class NotTaken(ToolServerFailed):
    """The server was started anew, or had gone, and has not taken the call."""


@dataclass(eq=False)
class Asked:
    """A tool call on the wire."""

    tool: str
    say: Callable[[str], None]
    answer: asyncio.Future[Json]
    id: int | str | None = None  # None until the request is being written
    sent: bool = False
    task: asyncio.Task[None] | None = None


@dataclass(eq=False)
class Connection:
    """A live session. Calls of all runs share it; each is a task of the connection."""

    server: str  # its name, for people
    backend: Backend
    open_transport: Open
    on_tools_changed: Callable[[], None]
    session: Session | None = None
    info: Json = field(default_factory=dict[str, Any])
    lost: str | None = None  # why it is of no use any more
    _transport: Transport | None = None
    _owner: asyncio.Task[None] | None = None
    _asked: set[Asked] = field(default_factory=set[Asked])
    _given_up: deque[Asked] = field(default_factory=deque[Asked])
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set[asyncio.Task[Any]])

    @property
    def alive(self) -> bool:
        return self.lost is None and self.session is not None

    @property
    def in_flight(self) -> int:
        return len(self._asked)

    @property
    def pid(self) -> int | None:
        return None if self._transport is None else self._transport.pid

    # --- life ---------------------------------------------------------------------------------------

    async def open(self, seconds: float) -> None:
        """Until the server has answered the handshake; ToolServerFailed says what went wrong."""
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner = self.spawn(self._own())
        waits: set[asyncio.Future[Any]] = {self._ready, self._owner}
        done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            said = "" if self._transport is None else self._transport.complaints()
            self._lose(f"it did not answer the handshake within {seconds:g} s{said}")
            await self.close()
        elif not self._ready.done():
            self._lose("it ended during the handshake")
        if self.lost is not None:
            raise ToolServerFailed(
                f"the MCP server {self.server} cannot be used: {self.lost}",
                hint="start it by hand to see what it says; start_timeout= gives a slow one more time",
            )

    async def _own(self) -> None:
        """Enter and leave the SDK's session here, in one task, as its task groups demand."""
        try:
            async with self.open_transport(self.backend, self._stray) as (read, write, transport):
                self._transport = transport
                try:
                    await self._speak(read, write, transport)
                except Exception as error:  # noqa: BLE001 - told here: what the closing of the transport adds is less
                    self._lose(_why(error, transport))
        except asyncio.CancelledError:
            self._lose("its session was cancelled")
            if not self._closing.is_set():
                raise
        except BaseException as error:  # noqa: BLE001 - whatever the SDK raises means that the server is lost
            self._lose(_why(error, self._transport))
        finally:
            self._lose("it was closed")
            self.session = None

    async def _speak(self, read: Any, write: Any, transport: Transport) -> None:
        async with self.backend.session(read, _Tap(write), self) as session:
            try:
                self.info = await session.initialize()
            except Exception as error:
                self._lose(_why(error, transport))  # before the session is left, of which the server's end comes
                raise
            self.session = session
            self._ready.set_result(None)
            await self._until_over(transport)

    async def _until_over(self, transport: Transport) -> None:
        closing = asyncio.ensure_future(self._closing.wait())
        beat: asyncio.Task[None] | None = None
        waits: set[asyncio.Future[Any]] = {closing}
        if transport.ended is not None:
            waits.add(transport.ended)
        try:
            while not closing.done() and self.lost is None:
                done, _ = await asyncio.wait(
                    waits, timeout=HEARTBEAT if transport.silent else None, return_when=asyncio.FIRST_COMPLETED
                )
                if transport.ended is not None and transport.ended.done():
                    self._lose(transport.ended.result())
                elif not done and self._asked and (beat is None or beat.done()):
                    beat = self.spawn(self._heartbeat())
        finally:
            closing.cancel()

    async def _heartbeat(self) -> None:
        """A server over HTTP that has gone takes the streams of its calls with it, and says nothing."""
        session = self.session
        if session is None:
            return
        answer = await _outcome(session.ping())
        if isinstance(answer, Refusal) and self._forgotten(answer):  # any other answer shows that it lives
            self._lose("it was started anew, and no longer knows this session")
            self._closing.set()

    def _forgotten(self, refusal: Refusal) -> bool:
        """HTTP's 404, as the SDKs tell it; a tool may use such words too, but not this code."""
        over_http = self._transport is not None and self._transport.silent
        return over_http and abs(refusal.code) == 32600 and refusal.message.startswith(FORGOTTEN)

    def _lose(self, why: str) -> None:
        """Every call in flight learns now that no answer will come."""
        if self.lost is not None:
            return
        self.lost = why
        for asked in list(self._asked):
            kind = NotTaken if asked.id is None else ToolServerFailed
            self._answer(asked, kind(f"the MCP server {self.server} was lost: {why}"))

    async def kill(self, why: str) -> None:
        """End the server process, and whatever it has started."""
        if self._transport is not None:
            await self._transport.kill(why)
        self._lose(why)

    async def close(self) -> None:
        """Leave the session; calls in flight fail."""
        self._closing.set()
        owner = self._owner
        if owner is not None and not owner.done():
            if not self._ready.done():
                owner.cancel()
            await asyncio.wait({owner}, timeout=10.0)
            if not owner.done():
                owner.cancel()
                await asyncio.wait({owner}, timeout=5.0)
        self._lose("it was closed")
        tasks = [task for task in self._tasks if not task.done() and task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5.0)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of the connection: no run's context, so that no run's stop reaches it."""
        task = asyncio.get_running_loop().create_task(work, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StandfastError):
            log.warning("standfast: the MCP server %s: %s", self.server, error)
        elif error is not None:
            self._lose(_why(error, self._transport))

    # --- requests -------------------------------------------------------------------------------------

    async def list_tools(self, seconds: float) -> list[Json]:
        """The server's tools, as it describes them."""
        session = self.session
        if session is None or self.lost is not None:
            raise ToolServerFailed(f"the MCP server {self.server} was lost: {self.lost}")
        listing = self.spawn(_outcome(session.list_tools()))
        assert self._owner is not None
        waits: set[asyncio.Future[Any]] = {listing, self._owner}
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        why = self._why_lost(f"no answer within {seconds:g} s")
        if listing.done() and not listing.cancelled():
            found: list[Json] | Exception = listing.result()
            if not isinstance(found, Exception):
                return found
            why = self._why_lost(str(found))
        raise ToolServerFailed(
            f"the MCP server {self.server} does not tell its tools: {why}", hint="start it by hand to see what it says"
        )

    def _why_lost(self, otherwise: str) -> str:
        return self.lost or otherwise

    def ask(self, tool: str, arguments: Json, meta: Json, on_progress: OnProgress, say: Callable[[str], None]) -> Asked:
        """Send a tool call; its answer is a future of the connection, which no cut of a caller touches."""
        asked = Asked(tool, say, asyncio.get_running_loop().create_future())
        asked.answer.add_done_callback(_seen)
        self._asked.add(asked)
        if self.lost is not None:
            self._answer(asked, NotTaken(f"the MCP server {self.server} was lost: {self.lost}"))
        else:
            asked.task = self.spawn(self._ask(asked, arguments, meta, on_progress))
        return asked

    async def _ask(self, asked: Asked, arguments: Json, meta: Json, on_progress: OnProgress) -> None:
        assert self.session is not None
        _being_sent.set(asked)
        outcome = await _outcome(self.session.call_tool(asked.tool, arguments, meta, on_progress))
        if isinstance(outcome, Refusal) and self._forgotten(outcome):
            outcome = self._untaken("it no longer knows this session")
        elif isinstance(outcome, Exception) and not asked.sent:
            outcome = self._untaken("its connection was closed")
        elif isinstance(outcome, anyio.BrokenResourceError | anyio.ClosedResourceError):
            outcome = ToolServerFailed(f"the MCP server {self.server} was lost: {self.lost or 'the stream was closed'}")
        elif isinstance(outcome, Refusal) and outcome.code == LOST and outcome.message.startswith(BROKEN):
            assert self._owner is not None
            await asyncio.wait({self._owner}, timeout=1.0)  # how the session ended tells more than a closed stream
            outcome = ToolServerFailed(f"the MCP server {self.server} was lost: {self.lost or outcome.message}")
        self._answer(asked, outcome)

    def _untaken(self, why: str) -> NotTaken:
        """The server has not seen this call, and this connection is of no use."""
        self._lose(why)
        self._closing.set()
        return NotTaken(f"the MCP server {self.server} was lost: {why}")

    def _answer(self, asked: Asked, outcome: Json | Exception) -> None:
        self._asked.discard(asked)
        if asked.answer.done():
            return
        if isinstance(outcome, Exception):
            asked.answer.set_exception(outcome)
        else:
            asked.answer.set_result(outcome)

    def give_up(self, asked: Asked) -> None:
        """Nobody waits for this answer any more; it is listened for a while, so that the server may still send it."""
        self._asked.discard(asked)
        self._given_up.append(asked)
        if len(self._given_up) > MOST_GIVEN_UP:
            oldest = self._given_up.popleft()
            if oldest.task is not None:
                oldest.task.cancel()

    # --- backend.Handlers -------------------------------------------------------------------------------

    def tools_changed(self) -> None:
        self.on_tools_changed()

    def logged(self, text: str) -> None:
        """A log line belongs to no call; with one call in flight it is that call's."""
        if len(self._asked) == 1:
            next(iter(self._asked)).say(text + "\n")

    def _stray(self, text: str) -> None:
        """It printed something that is no message: astray, or in place of an answer?"""
        for asked in self._asked:
            asked.say(f"[{self.server} printed: {text}]\n")
        if self._asked and self.session is not None:
            _ = self.spawn(self._still_speaks(self.session, text))

    async def _still_speaks(self, session: Session, text: str) -> None:
        # Not cancelled when the time is up: major 1 loses its session if an answer meets its request's cancellation.
        ping = self.spawn(_outcome(session.ping()))
        await asyncio.wait({ping}, timeout=STRAY_GRACE)
        if not ping.done():
            await self.kill(f"it answered something that is no MCP message, and no ping: {text}")


_being_sent: contextvars.ContextVar[Asked | None] = contextvars.ContextVar("standfast_mcp_asked", default=None)


class _Tap:
    """The session's way out, where a call learns the id of its request: neither major tells it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def send(self, message: Any, /) -> None:
        asked = _being_sent.get()
        if asked is not None and asked.id is None:
            asked.id = request_id(message)
        await self._inner.send(message)
        if asked is not None:
            asked.sent = True

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _Tap:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._inner.__aexit__(*error)


async def _outcome(request: Awaitable[Any]) -> Any:
    """What came of a request, as a value: a task that fails would end the connection."""
    try:
        return await request
    except (Refusal, Nonsense, anyio.BrokenResourceError, anyio.ClosedResourceError) as answer:
        return answer


def _seen(answer: asyncio.Future[Json]) -> None:
    if not answer.cancelled():
        answer.exception()  # whoever was interested has been told


def _why(error: BaseException, transport: Transport | None) -> str:
    """The innermost reason, in words."""
    if transport is not None and transport.ended is not None and transport.ended.done():
        return transport.ended.result()
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    if inner:
        return _why(inner[0], transport)
    said = "" if transport is None else transport.complaints()
    return f"{type(error).__name__}: {error}{said}" if str(error) else f"{type(error).__name__}{said}"
