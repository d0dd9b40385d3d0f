"""The WebSocket of pages: one socket, many runs. Answers first, then events; a slow reader slows nobody."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from importlib.metadata import version
from typing import Annotated, Any, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from standfast.arguments import MOST_LABELS
from standfast.errors import StandfastError
from standfast.json_values import is_object
from standfast.rates import Rate
from standfast.records import Status
from standfast.server.actors import STOP_VERBS, Actor, has, right_of
from standfast.server.feeds import Listing, Watch
from standfast.server.problems import Problem, failed, malformed, problem_of
from standfast.server.reach import program_of, visitor
from standfast.server.reading import LONGEST_SEARCH, MOST_IN_A_PAGE, Filter
from standfast.server.rights import MESSAGES
from standfast.server.surface import Surface
from standfast.server.verbs import EVERY_VERB, Count, Key, Named, Step
from standfast.server.wire import delta_json, encode, parse, parse_stop

log = logging.getLogger("standfast")

MOST_WATCHED = 500
MOST_ANSWERS = 200  # answers that wait to be sent: who asks without reading is let go
MOST_UNSENT = 1_000  # and while one of them is being sent
MESSAGES_A_SECOND, MESSAGES_AT_ONCE = 500.0, 3_000.0  # of one socket; stops are not counted
MOST_AT_WORK = 50  # verbs of one socket that are being carried out; stops are not counted
MOST_STOPPING = 50  # stops of one socket that are being carried out; none is refused: the next is read later
BREATH = 1.0  # seconds until the next message is read of whoever has asked for too many stops
SEND_SECONDS = 30.0
ASK_SECONDS = 1.0  # how often a socket looks whether its page may still be here


class Wanted(BaseModel):
    """The filter of a list."""

    model_config = ConfigDict(extra="forbid")

    status: Annotated[list[Status], Field(max_length=len(get_args(Status)))] | Status | None = None
    agent: Named | None = None
    labels: Annotated[dict[Named, Named], Field(max_length=MOST_LABELS)] | None = None
    needs: bool | None = None
    text: Annotated[str, Field(max_length=LONGEST_SEARCH)] = ""
    limit: Annotated[int, Field(ge=1, le=MOST_IN_A_PAGE)] = 100
    before: Named | None = None

    @property
    def filter(self) -> Filter:
        statuses = (self.status,) if isinstance(self.status, str) else self.status
        labels = tuple(sorted((self.labels or {}).items()))
        return Filter(
            None if statuses is None else tuple(statuses),
            self.agent,
            labels,
            self.needs,
            self.text,
            self.limit,
            self.before,
        )


class Op(BaseModel):
    """Anything a page may say."""

    op: Named
    n: Step | Named | None = None
    run: Named | None = None
    after: Count = 0
    filter: Wanted = Wanted()
    verb: Named = ""
    args: dict[str, Any] = {}
    request_id: Key | None = None


class Slow(Exception):
    """The reader does not read."""


class Page:
    """One open socket."""

    def __init__(self, surface: Surface, actor: Actor, socket: WebSocket, rate: Rate | None) -> None:
        self._surface = surface
        self._actor = actor
        self._socket = socket
        self._rate = rate
        self._who = visitor(actor, "page", program_of(socket))
        self._watches: dict[str, Watch] = {}
        self._listing: Listing | None = None
        self._seen_list = 0
        self._answers: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._messages = Rate(MESSAGES_A_SECOND, MESSAGES_AT_ONCE)
        self._full = asyncio.Event()  # there are more answers than are kept for somebody who does not read

    async def serve(self) -> None:
        """Until the page goes, or the server."""
        await self._socket.accept()
        self._say(await self._hello())
        reading = asyncio.create_task(self._read(), name="standfast page reads")
        writing = asyncio.create_task(self._write(), name="standfast page writes")
        closing = asyncio.create_task(self._surface.feeds.closing.wait())
        ending = asyncio.create_task(self._until_ended(), name="standfast page may")
        full = asyncio.create_task(self._full.wait())
        all_of_them = (reading, writing, closing, ending, full)
        try:
            await asyncio.wait(all_of_them, return_when=asyncio.FIRST_COMPLETED)
            writing.cancel()  # what is said now is the last word
            await asyncio.wait([writing])
            if closing.done():
                await self._bye("the server is going down", 1012)
            elif ending.done():
                await self._bye(ending.result(), 1008)
            elif full.done() or (not writing.cancelled() and isinstance(writing.exception(), Slow)):
                await self._bye("the page does not read", 1008)
        finally:
            for task in all_of_them:
                task.cancel()
            await asyncio.gather(*all_of_them, return_exceptions=True)
            for watch in self._watches.values():
                self._surface.feeds.unwatch(watch)
            if self._listing is not None:
                self._surface.feeds.leave_list(self._listing, self._news.set)

    async def _until_ended(self) -> str:
        """Why the page may be here no longer, once that is so."""
        while not (why := self._actor.ended()):  # noqa: ASYNC110 - the store tells nobody who has lost a right
            await asyncio.sleep(ASK_SECONDS)
        return why

    async def _hello(self) -> dict[str, Any]:
        return {
            "op": "hello",
            "version": version("standfast"),
            "me": self._actor.json,
            "shares": self._surface.shares,
            "now": self._surface.runs.clock.now(),
            "agents": await self._surface.agents(self._actor),
            "verbs": [verb for verb in EVERY_VERB if has(self._actor, right_of(verb))],
        }

    async def _bye(self, why: str, code: int) -> None:
        if self._socket.application_state is WebSocketState.CONNECTED:
            try:
                async with asyncio.timeout(1):
                    await self._socket.send_text(encode({"op": "bye", "why": why}).decode())
                    await self._socket.close(code, why)
            except (TimeoutError, RuntimeError, WebSocketDisconnect):
                return  # it has gone already, or does not read

    # --- what the page says ------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            raw = message.get("text") or message.get("bytes") or b""
            try:
                await self._heed(_op(raw))
            except Problem as problem:
                self._say({"op": "answer", "n": None, "problem": problem.body})

    async def _heed(self, op: Op) -> None:
        try:
            if not (op.op == "verb" and op.verb in STOP_VERBS) and not self._messages.allows(""):
                raise Problem(429, "too many messages", "wait a second; pause, cancel and force always pass")
            if op.op in MESSAGES:
                self._surface.allow(self._actor, op.op, op.run if op.op in ("watch", "unwatch") else None)
            match op.op:
                case "verb":
                    self._begin_verb(op)
                    if op.verb in STOP_VERBS:
                        await self._breathe()
                case "watch":
                    await self._watch(_run(op), op.after)
                case "unwatch":
                    watch = self._watches.pop(_run(op), None)
                    if watch is not None:
                        self._surface.feeds.unwatch(watch)
                case "list":
                    self._list(self._surface.confined(self._actor, op.filter.filter))
                case "ping":
                    self._say({"op": "pong", "n": op.n, "now": self._surface.runs.clock.now()})
                case _:
                    raise Problem(
                        422, f"{op.op[:50]!r} is nothing this server knows", "watch, unwatch, list, verb, ping"
                    )
        except Problem as problem:
            if op.op in ("watch", "unwatch") and op.run is not None:
                self._say({"op": "gone", "run": op.run, "why": problem.detail})
            else:
                self._say({"op": "answer", "n": op.n, "problem": problem.body})

    async def _watch(self, run: str, after: int) -> None:
        if run not in self._watches and len(self._watches) >= MOST_WATCHED:
            raise Problem(429, f"one socket watches at most {MOST_WATCHED} runs", "unwatch some")
        try:
            watch = await self._surface.feeds.watch(run, after, self._news.set, self._who)
        except StandfastError as error:
            raise problem_of(error, run) from error
        old = self._watches.pop(run, None)
        if old is not None:
            self._surface.feeds.unwatch(old)
        self._watches[run] = watch
        self._news.set()

    def _list(self, wanted: Filter) -> None:
        if self._listing is not None:
            self._surface.feeds.leave_list(self._listing, self._news.set)
        self._listing = self._surface.feeds.follow_list(wanted, self._news.set)
        self._seen_list = 0
        self._news.set()

    def _begin_verb(self, op: Op) -> None:
        """Verbs do not wait for each other here; a stop is begun whatever else is being done."""
        stops = op.verb in STOP_VERBS
        if not stops and (len(self._work) >= MOST_AT_WORK or (self._rate and not self._rate.allows(self._actor.name))):
            raise Problem(429, "too many requests", "wait a second; pause, cancel and force always pass")
        task = asyncio.create_task(self._verb(op), name=f"standfast {op.verb}")
        own = self._stopping if stops else self._work
        for work in (own, self._surface.work):  # what was asked is carried out, also if the page has gone
            work.add(task)
            task.add_done_callback(work.discard)

    async def _breathe(self) -> None:
        """Whoever floods the server with stops waits here, before the next message is read: nobody else does."""
        if len(self._stopping) >= MOST_STOPPING:
            await asyncio.wait(self._stopping, return_when=asyncio.FIRST_COMPLETED)
        if self._surface.turns.too_many(self._actor):
            await asyncio.sleep(BREATH)

    async def _verb(self, op: Op) -> None:
        try:
            self._say({"op": "answer", "n": op.n, "answer": await self._carried_out(op)})
        except StandfastError as error:
            self._say({"op": "answer", "n": op.n, "problem": problem_of(error, op.run).body})
        except Problem as problem:
            told = problem.more.get("answer")
            self._say(
                {"op": "answer", "n": op.n, "answer": told}
                if told
                else {"op": "answer", "n": op.n, "problem": problem.body}
            )
        except Exception as error:
            log.error("standfast: %s failed", op.verb, exc_info=error)
            self._say({"op": "answer", "n": op.n, "problem": failed(error).body})

    async def _carried_out(self, op: Op) -> dict[str, Any]:
        surface, actor = self._surface, self._actor
        if op.verb == "start":
            return {"answer": "accepted", "run": await surface.start(actor, op.args, op.request_id)}
        run = _run(op)
        if op.verb == "fork":
            return {"answer": "accepted", "run": await surface.fork(actor, run, op.args, op.request_id)}
        return await surface.verb(actor, op.verb, run, op.args, op.request_id)

    # --- what the page is told -----------------------------------------------------------------------------------

    def _say(self, message: dict[str, Any]) -> None:
        if len(self._answers) >= MOST_UNSENT:
            self._full.set()
            return
        self._answers.append(encode(message))
        self._news.set()

    async def _write(self) -> None:
        while True:
            self._news.clear()
            if len(self._answers) > MOST_ANSWERS:
                raise Slow
            while self._answers:
                await self._send(self._answers.popleft())
            busy = await self._tell_runs()
            await self._tell_list()
            if not busy:
                await self._news.wait()

    async def _tell_runs(self) -> bool:
        """A little of every run; True if one of them has more to tell."""
        busy = False
        for run, watch in list(self._watches.items()):
            name = encode(run)
            if watch.seen_view != watch.tail.view_version:
                watch.seen_view = watch.tail.view_version
                await self._send(b'{"op":"view","run":%s,"view":%s}' % (name, watch.tail.view))
            try:
                told = await self._surface.feeds.next_events(watch)
            except StandfastError as error:
                self._watches.pop(run, None)
                self._surface.feeds.unwatch(watch)
                self._say({"op": "gone", "run": run, "why": str(error)})
                continue
            for one in told:
                watch.client.event(one.seq, one.span)  # before: a part of what is cut off may have been read
                await self._send(b'{"op":"event","run":%s,"event":%s}' % (name, one.json))
                if self._answers:
                    await self._send(self._answers.popleft())
            busy = busy or watch.behind
            while not watch.behind and (delta := watch.live.next()):
                watch.client.delta(delta)
                await self._send(b'{"op":"delta","run":%s,"delta":%s}' % (name, encode(delta_json(delta))))
        return busy or bool(self._answers)

    async def _tell_list(self) -> None:
        listing = self._listing
        if listing is not None and listing.version != self._seen_list:
            self._seen_list = listing.version
            await self._send(b'{"op":"runs","runs":%s}' % listing.json)

    async def _send(self, body: bytes) -> None:
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._socket.send_text(body.decode())
        except TimeoutError:
            raise Slow from None


def _op(raw: str | bytes) -> Op:
    try:
        said = parse(raw)
    except Problem:
        said = parse_stop(raw)
        if not is_object(said) or said.get("verb") not in [*STOP_VERBS]:
            raise
    try:
        return Op.model_validate(said)
    except ValidationError as error:
        raise malformed(error) from None


def _run(op: Op) -> str:
    if op.run is None:
        raise Problem(422, f"{op.op} needs a run", 'send {"run": ID}')
    return op.run


async def page_socket(socket: WebSocket) -> None:
    """The endpoint: /ws."""
    surface = cast("Surface", socket.app.state.surface)
    task = asyncio.current_task()
    assert task is not None
    actor: Actor = socket.state.actor
    try:
        surface.readers.check(actor)
    except Problem as problem:
        await socket.send_denial_response(problem.response())
        return
    surface.pages.add(task)
    try:
        with surface.readers.one_more(actor):
            await Page(surface, actor, socket, getattr(socket.state, "rate", None)).serve()
    finally:
        surface.pages.discard(task)
