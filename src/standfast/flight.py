"""A call under way: its body, its caller, and how it can be cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from standfast import events as ev
from standfast.bodies.guard import guard
from standfast.bodies.marks import call_mark
from standfast.bodies.threads import Token
from standfast.clock import boot_id, uptime
from standfast.context import Stopped
from standfast.ladder import cut_task
from standfast.owning import Pieces
from standfast.places import place_of_task
from standfast.records import CallRef, Channel, EndedAs, InFlight, Moment
from standfast.tools import Call
from standfast.voice import Progressed, Speech

if TYPE_CHECKING:
    from standfast.rows import CallRow
    from standfast.session import Session


@dataclass(slots=True)
class Outcome:
    """How a body ended."""

    kind: Literal["finished", "failed", "timed_out", "not_performed", "cut"]
    raw: bytes = b""
    error: str = ""
    message: str = ""


@dataclass(slots=True)
class Heard:
    """What has come from a provider so far."""

    tokens: int = 0
    estimated: bool = False
    last_byte_at: float | None = None
    last_byte_uptime: float | None = None
    characters: dict[Channel, int] = field(default_factory=dict[Channel, int])  # that the call has said of it


class Body(Protocol):
    """Code of a call that runs outside the event loop."""

    def cut(self) -> None: ...

    def where(self) -> str: ...


class Tied(Protocol):
    """Something of a call that must not outlive it: a request. Cut from whatever thread."""

    def cut(self) -> None: ...


_tying = threading.Lock()  # a call's first requests may come from two of its threads at once


class Flight:
    """One call between admission and record."""

    __slots__ = (
        *("abandoned", "attempt", "beside", "body", "call", "cleaning", "cutting", "done", "ended", "facts", "gone"),
        *("heard", "id", "mark", "over", "passage", "progressed", "ref", "row", "scope", "threads"),
        *("resting", "session", "speech", "spoiled", "take", "task", "tied", "timed_out", "token", "unended"),
        "unwound",
    )

    def __init__(
        self,
        session: Session,
        id: str,  # noqa: A002 - the word users know
        call: Call[Any],
        ref: CallRef,
        attempt: int,
        row: CallRow | None,
        *,
        beside: bool = False,
    ) -> None:
        self.session = session
        self.id = id
        self.call = call
        self.ref = ref
        self.attempt = attempt
        self.scope = session.attempt  # what it leaves going on when it ends by itself is the attempt's
        self.take = 0  # how often it has begun anew
        self.row = row
        self.done: asyncio.Future[Outcome] | None = None  # None: the body runs in its caller's task
        self.task: asyncio.Task[Any] | None = None  # what to cancel
        self.body: Body | None = None
        self.token = Token()
        self.cutting = False  # by a stop, or with its step: for good
        self.timed_out = False  # the try under way is cut because its time is up; another may follow
        self.resting: asyncio.Task[None] | None = None  # the wait before its next try
        self.cleaning = False  # people see that it was cut and has not ended
        self.ended = False
        self.gone = False  # left behind, and ended at last
        self.unwound = False  # its body ran in its caller's task, was cut and has ended; its threads may not have
        self.abandoned = False  # outlived its deadline: whatever it still does is kept out of the run
        self.facts: Sequence[str] = ()  # held before it: its own effect may change them
        self.speech: Speech | None = None  # made when it says something
        self.progressed: Progressed | None = None  # made when it tells how far it is
        self.heard: Heard | None = None  # of a model
        self.over: asyncio.Future[None] | None = None  # made by whoever waits for its end
        self.passage = False  # a request that no call made: recorded and counted, never replayed
        self.beside = beside  # before, probe, undo, a reading of a fact: outside the gate, cut only with its own code
        self.spoiled = False  # a stop refused or cut one of its requests: what its body makes of that is no result
        self.unended = ""  # what code beside it had started that did not end, and was cut
        self.tied: set[Tied] | None = None  # requests under way that must not outlive it
        self.mark = ""  # of its programs, once it has started one
        self.threads: Pieces | None = None  # work in executors, once it has started some or was cut

    @property
    def repeatable(self) -> bool:
        """May it be cut and issued again?"""
        return self.call.tool.effect in ("read", "idempotent")

    @property
    def waits(self) -> bool:
        """Is it only waiting (for a person, for time, for a child), so that cutting it costs nothing?"""
        return self.call.tool.kind in ("ask", "sleep", "child")

    @property
    def at_once(self) -> bool:
        """Is it a stream that a pause closes without any grace?"""
        return self.call.tool.kind == "model"

    @property
    def is_child(self) -> bool:
        return self.call.tool.kind == "child"

    def cut(self, *, asked: bool = False) -> None:
        """Ask it to end, once, and again after its grace; returns at once. `asked`: its own code raises that here."""
        if self.cutting or self.ended:
            return
        self.cutting = True
        self.end_rest()
        if not self.timed_out:  # or it is cleaning up already, and is not disturbed
            self._end_try(asked=asked)

    def time_is_up(self) -> None:
        """Ask the try under way to end; a stop that comes meanwhile still holds when it has ended."""
        self.timed_out = True
        self._end_try()

    def _end_try(self, *, asked: bool = False) -> None:
        self.token.stop()
        if self.body is not None:
            self.body.cut()
        elif self.task is not None:
            cut_task(self.task, self.call.tool.grace, asked=asked)
        self.cut_tied()
        self.cut_threads()
        self.session.in_loop(self.session.cleans_up, self)
        if self.mark:  # those too that nobody waits for
            self.session.in_loop(self.session.programs.sweep, self.mark)

    @property
    def being_cut(self) -> bool:
        """By a stop or because its time is up: what it does now is clean-up."""
        return self.cutting or self.timed_out

    def end_rest(self) -> None:
        """Nothing of it is under way between two tries: whoever stops it need not wait for the next."""
        if self.resting is not None:
            self.session.in_loop(self.resting.cancel)

    def try_anew(self) -> None:
        """Its last try has failed, or was cut because its time was up: that cut is not the next one's."""
        if self.token.stopped:
            self.token, self.threads = Token(), None
        if self.done is not None:  # else its caller's task is the one to cancel in each try
            self.task, self.body = None, None

    def tie(self, request: Tied) -> None:
        """From now on the request is cut with this call; whoever ties looks afterwards whether it was too late."""
        with _tying:
            tied = self.tied
            if tied is None:
                tied = self.tied = set()
        tied.add(request)

    def untie(self, request: Tied) -> None:
        if self.tied is not None:
            self.tied.discard(request)

    def cut_tied(self) -> None:
        """The call is cut or has ended: nothing of it goes on."""
        for request in tuple(self.tied or ()):
            request.cut()

    def cut_threads(self) -> None:
        """Work that its body has handed to executors is cut like a sync tool; from the loop's thread or any other.

        So is what it begins from now on, to clean up, or by a timer or callback that nobody has taken back.
        """
        self._own_threads().cut(self.call.tool.grace)

    async def threads_end(self) -> None:
        """A call that was cut has not ended before its threads have; nothing of it begins after that."""
        self.cut_threads()
        await self._own_threads().end()

    def close(self) -> bool:
        """It was cut and its body has ended: nothing of it begins any more; False if its threads go on."""
        return self._own_threads().close()

    def _own_threads(self) -> Pieces:
        with _tying:
            if self.threads is None:
                self.threads = Pieces(self.session.env.loop)
            return self.threads

    @property
    def _may_begin_nothing(self) -> bool:
        """It was cut, and has ended or was left behind."""
        return self.token.stopped and self.threads is not None and self.threads.closed

    def let_go_of_programs(self, *, cut: bool) -> None:
        """The call is over: what its programs left running goes on, unless the call was cut."""
        if not self.mark:
            return
        if cut:
            self.session.programs.sweep(self.mark, over=True)
        else:
            guard.close(self.mark)

    def until_over(self) -> asyncio.Future[None]:
        """Done when the call has ended and its end is on the way to the store."""
        if self.over is None:
            self.over = self.session.env.loop.create_future()
            if self.ended:
                self.over.set_result(None)
        return self.over

    def outcome(self, word: EndedAs) -> InFlight:
        """How it ended, for a receipt."""
        heard = self.heard or Heard()
        threads = self.threads.by_itself if word == "in_doubt" and self.threads is not None else None
        return InFlight(self.ref, word, heard.tokens, heard.estimated, heard.last_byte_at, threads)

    @property
    def is_stream(self) -> bool:
        """Does a provider answer it?"""
        return self.at_once or self.heard is not None

    def stream_ended(self, word: EndedAs) -> ev.StreamEnded:
        """When the last byte of its provider came, for the record of a stop."""
        heard = self.heard or Heard()
        at = heard.last_byte_at
        return ev.StreamEnded(
            call=self.id,
            tool=self.call.tool.name,
            outcome=word,
            last_byte=None if at is None else Moment(at, heard.last_byte_uptime, boot_id() or None),
            characters=dict(heard.characters),
            attempt=self.attempt,
            take=self.take,
        )

    def where(self) -> str:
        """What it is doing now, for people."""
        if self.body is None and not self.threads:
            return place_of_task(self.task) if self.task is not None else ""
        body = "" if self.body is None else self.body.where()
        return "; ".join(filter(None, (body, self.threads.where() if self.threads else "")))

    # --- context.CallContext ------------------------------------------------------------------

    @property
    def key(self) -> str:
        return self.id

    @property
    def stop_token(self) -> Token:
        return self.token

    @property
    def in_process_tool(self) -> bool:
        return False

    def begin_program(self, *, clean_up: bool = False) -> str:
        if self.abandoned or self._may_begin_nothing or (self.being_cut and not clean_up):
            self.spoiled = self.spoiled or self.abandoned or self.cutting
            raise Stopped("no program is started for a call that has been cut")
        session = self.session
        mark = self.mark or call_mark(session.programs.mark, self.id, session.env.lease.id, beside=self.beside)
        if not self.mark and not self.ended:  # what a call starts when it is over is nobody's to guard
            self.mark = mark
            guard.open(mark)
        session.in_loop(session.programs.may_be_left)
        return mark

    def pieces(self) -> Pieces | None:
        by_itself = self.ended and not self.token.stopped and not self.abandoned and not self.beside
        if by_itself and self.scope is not None:
            return self.scope.pieces  # it has left something going on
        return self._own_threads()

    @property
    def time_left(self) -> float | None:
        return self.threads.time_left if self.token.stopped and self.threads is not None else None

    def use(self, type_: type[Any]) -> Any:
        return self.session.env.use(type_)

    def say(self, text: str, channel: Channel = "text") -> None:
        heard = self.heard
        if heard is not None:
            heard.characters[channel] = heard.characters.get(channel, 0) + len(text)
        self.session.in_loop(self.session.voice.say, self, text, channel)

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None:
        self.session.in_loop(self.session.spend, input_tokens, output_tokens, cost)

    def progress(self, fraction: float, text: str) -> None:
        self.session.in_loop(self.session.voice.progress, self, fraction, text)

    # --- context.ModelContext -----------------------------------------------------------------

    @property
    def run_id(self) -> str:
        return self.session.row.id

    @property
    def planted(self) -> str:
        guard = self.call.guard
        return "" if guard is None else guard.planted(self.session.row.id)

    def begin_anew(self) -> None:
        self.session.voice.begin_anew(self)
        self.take += 1
        if self.heard is not None:
            self.heard.characters = {}

    def hear(self, tokens: int, *, estimated: bool, just_now: bool = True) -> None:
        heard = self.heard = self.heard or Heard()
        heard.tokens, heard.estimated = tokens, estimated
        if just_now:
            self.byte_came()

    def byte_came(self) -> None:
        heard = self.heard
        if heard is None:
            heard = self.heard = Heard()
        heard.last_byte_at, heard.last_byte_uptime = self.session.env.store.now(), uptime()

    async def wait_before_retry(self, seconds: float, why: str, tries: int) -> bool:
        self.session.waits_for_retry(self, seconds, why, tries)
        await self.session.env.clock.back_off(seconds)
        self.session.waits_no_longer(self)
        return self.session.may_go_on(self)
