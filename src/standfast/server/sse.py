"""Server-sent events: every event once, in order, from wherever the reader was; live text in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import TypeAlias

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from standfast.abc import Tx
from standfast.errors import StandfastError, UnknownRun
from standfast.events import TextDelta
from standfast.rights import Scope
from standfast.server.actors import Actor
from standfast.server.feeds import Feeds
from standfast.server.problems import Problem, problem_of
from standfast.server.reach import Client, Piece, Visitor, program_of, visitor
from standfast.server.surface import Surface
from standfast.server.telling import Everywhere, Told
from standfast.server.verbs import BIGGEST
from standfast.server.wire import delta_json, encode, span_of, told_json
from standfast.tokens import reaches

KEEP_ALIVE = 15.0
ALL_GAP = 0.05
ASK_SECONDS = 1.0  # how often a stream looks whether its reader may still read
LONGEST_PLACE = 20  # digits of a place in a record; Python reads no number of more than 4300
SEND_SECONDS = 30.0  # a reader that takes nothing for so long is gone


class Stream(StreamingResponse):
    """An endless response that ends with its reader, or with the server; a reader that is stuck is let go."""

    media_type = "text/event-stream"

    def __init__(
        self,
        surface: Surface,
        told: AsyncGenerator[bytes],
        actor: Actor,
        farewell: Callable[[str], bytes] | None = None,
    ) -> None:
        surface.readers.check(actor)
        self._counted = partial(surface.readers.one_more, actor)
        told = while_known(told, actor, farewell or _bye)
        super().__init__(told, headers={"x-accel-buffering": "no"})
        self._told = told

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if isinstance(body := message.get("body"), Piece):
                body.handed()  # before: of what is cut off in mid-send a part may have been read
            async with asyncio.timeout(SEND_SECONDS):
                await send(message)

        try:
            with self._counted():
                await super().__call__(scope, receive, sending)
        except (TimeoutError, ClientDisconnect):
            return  # its buffer is full and stays full: the connection is given up
        finally:
            await self._told.aclose()  # else it would watch on until somebody collects it


async def while_known(
    told: AsyncGenerator[bytes], actor: Actor, farewell: Callable[[str], bytes]
) -> AsyncGenerator[bytes]:
    """What is told, for as long as the actor may hear it; then why it ends."""
    coming: asyncio.Task[bytes] | None = None
    asked = 0.0
    try:
        while True:
            coming = coming or asyncio.create_task(anext(told))
            await asyncio.wait([coming], timeout=ASK_SECONDS)
            if time.monotonic() - asked >= ASK_SECONDS:
                asked = time.monotonic()
                if why := actor.ended():
                    yield farewell(why)
                    return
            if coming.done():
                said, coming = coming, None
                try:
                    yield said.result()
                except StopAsyncIteration:
                    return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await told.aclose()


def _bye(why: str) -> bytes:
    return b"event: bye\ndata: %s\n\n" % encode({"why": why})


def place_of(request: Request) -> int:
    """Where the reader was: Last-Event-ID, else ?after=."""
    given = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
    if not given.isascii() or not given.isdigit() or len(given) > LONGEST_PLACE or int(given) > BIGGEST:
        raise Problem(422, f"{given[:50]!r} is no place in a record", "give the number of the last event you have")
    return int(given)


async def run_events(surface: Surface, actor: Actor, request: Request) -> Response:
    """The events of one run."""
    run = str(request.path_params["id"])
    after = place_of(request)
    try:
        await surface.reader.view(run)
    except StandfastError as error:
        raise problem_of(error, run) from error
    who = visitor(actor, "events", program_of(request))
    return Stream(surface, _of_one(surface.feeds, run, after, who), actor)


async def _of_one(feeds: Feeds, run: str, after: int, who: Visitor) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(follow(feeds, run, after, who)) as telling:
            async for client, told in telling:
                match told:
                    case Told():
                        line = b"id: %d\nevent: %s\ndata: %s\n\n" % (told.seq, told.type.encode(), told.json)
                        yield Piece.of(line, partial(client.event, told.seq, told.span))
                    case TextDelta():
                        delta = delta_json(told) | {"type": "text_delta", "run": run}
                        yield Piece.of(b"event: text_delta\ndata: %s\n\n" % encode(delta), partial(client.delta, told))
                    case None:
                        yield b": still here\n\n"
    except StandfastError as error:  # it has begun: the status can no longer say so
        yield b"event: problem\ndata: %s\n\n" % encode(problem_of(error, run).body)


async def follow(
    feeds: Feeds, run: str, after: int, who: Visitor, keep_alive: float = KEEP_ALIVE
) -> AsyncGenerator[tuple[Client, Told | TextDelta | None]]:
    """Events and live text of a run until it has ended or the server goes; None when nothing was said for a while."""
    news = asyncio.Event()
    watch = await feeds.watch(run, after, news.set, who)
    try:
        while not feeds.closing.is_set():
            news.clear()
            while told := await feeds.next_events(watch):
                for one in told:
                    yield watch.client, one
            if watch.at_the_end:
                return
            while delta := watch.live.next():
                yield watch.client, delta
            try:
                async with asyncio.timeout(keep_alive):
                    await news.wait()
            except TimeoutError:
                yield watch.client, None
    finally:
        feeds.unwatch(watch)


async def all_events(surface: Surface, actor: Actor, request: Request) -> Response:
    """The events of all runs from now on, or from a place; the id is that place."""
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    after = None if given is None else place_of(request)
    who = visitor(actor, "all_events", program_of(request))
    return Stream(surface, _of_all(surface, after, actor.scope, who), actor)


async def _of_all(surface: Surface, after: int | None, scope: Scope | None, who: Visitor) -> AsyncGenerator[bytes]:
    yield b": here\n\n"
    begun: int | None = None
    with surface.runs.hub.waiting(None, steps=True) as waiter, Everywhere(surface.feeds.tellings, who) as places:
        while not surface.feeds.closing.is_set():
            rows: list[_Row] = []
            try:
                if begun is None:
                    begun = await surface.reader.read(lambda tx: tx.last_record())
                after = begun if after is None else after
                since = after
                rows = await surface.reader.read(lambda tx: _rows(tx, since, scope))  # noqa: B023 - awaited at once
            except UnknownRun:
                after, begun = 0, 0  # there is no store yet: everything in it will be new
            for place, body, run, told in rows:
                after = place
                for one in told if place > (begun or 0) else ():  # stops of long ago were told of then, or by nobody
                    surface.feeds.tellings.notice(run, one)
                yield Piece.of(body, partial(places.handed, run, told))
            if not rows:
                await waiter.wait(1.0)
            await asyncio.sleep(ALL_GAP)


_Row: TypeAlias = tuple[int, bytes, str, list[Told]]


def _rows(tx: Tx, after: int, scope: Scope | None) -> list[_Row]:
    rows: list[_Row] = []
    known: dict[str, bool] = {}
    for place, run, events in tx.record_of_all(after, None):
        parts, told = list[bytes](), list[Told]()
        if run not in known:
            known[run] = reaches(tx, scope, run)
        for event in events if known[run] else ():
            event.run = run
            told.append(Told(event.seq, event.type, encode(told_json(event)), span_of(event)))
            parts.append(b"event: %s\ndata: %s\n" % (event.type.encode(), told[-1].json))
        # one id a commit, on its last event: who reconnects gets whole commits
        if parts:
            parts[-1] = b"id: %d\n%s" % (place, parts[-1])
        rows.append((place, b"".join(part + b"\n" for part in parts), run, told))
    return rows
