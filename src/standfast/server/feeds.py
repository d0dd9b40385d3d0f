"""What changes in runs, read once and shared by everybody who watches.

A watcher holds a place in the record, never a queue of events: however slowly it reads, it costs
the same, and it misses nothing. Only live text can be lost, and that is in the record soon after.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from standfast.abc import Tx
from standfast.control import load
from standfast.errors import StandfastError, StoreDamaged
from standfast.events import Event, TextDelta
from standfast.hub import Waiter
from standfast.records import ENDED
from standfast.runtime import Runtime
from standfast.said_texts import LiveText
from standfast.server.reach import Client, Visitor
from standfast.server.reading import Filter, Reader
from standfast.server.telling import Tellings, Told
from standfast.server.wire import encode, span_of, told_json
from standfast.shapes import view_json
from standfast.views import readable_view

log = logging.getLogger("standfast")

GAP = 0.015  # between two readings, however fast runs write
VIEW_GAP = 0.1
LIST_GAP = 0.25
STALE = 1.0  # what a run waits for is told in seconds: looked at again this often while it is live
RECENT = 1_000  # events of a run that are kept for those who are nearly up to date
RECENT_BYTES = 4_000_000
MOST_DELTAS = 500
AT_ONCE = 200


class Watch:
    """One reader's place in one run."""

    def __init__(self, tail: Tail, client: Client, after: int, poke: Callable[[], None]) -> None:
        self.tail = tail
        self.client = client  # what was handed over; `after` is what was taken to be
        self.after = after
        self.poke = poke
        self.seen_view = 0  # which version of the view it was shown
        self.live = LiveText(MOST_DELTAS)

    @property
    def behind(self) -> bool:
        """Are there events that it has not been given?"""
        return self.after < self.tail.seq

    @property
    def at_the_end(self) -> bool:
        """Has it been given the run's last event?"""
        return self.tail.ended and not self.behind


@dataclass(slots=True, eq=False)
class Tail:
    """The end of one run's record, and the run as it is there."""

    run: str
    n: int
    seq: int
    ended: bool
    trouble: StandfastError | None = None  # why its record cannot be read
    view: bytes = b""
    view_key: bytes = b""  # the view without its clocks
    view_version: int = 0
    viewed_at: float = 0.0
    view_due: bool = True
    recent: deque[Told] = field(default_factory=deque[Told])
    recent_bytes: int = 0
    watches: set[Watch] = field(default_factory=set[Watch])

    def keep(self, told: list[Told]) -> None:
        """For those who are nearly up to date; a few large events push the older ones out."""
        for one in told:
            if len(self.recent) == RECENT:
                self.recent_bytes -= len(self.recent.popleft().json)
            self.recent.append(one)
            self.recent_bytes += len(one.json)
        while self.recent_bytes > RECENT_BYTES and self.recent:
            self.recent_bytes -= len(self.recent.popleft().json)

    def poke(self) -> None:
        for watch in self.watches:
            watch.poke()


class Listing:
    """One reading of the list for everybody with the same filter."""

    def __init__(self, wanted: Filter) -> None:
        self.wanted = wanted
        self.json = b""
        self.key = b""
        self.version = 0
        self.read_at = 0.0
        self.pokes: set[Callable[[], None]] = set()


_News: TypeAlias = tuple[Tail, list[Told], tuple[bytes, bytes] | None, bool]


class Feeds:
    """Everybody who watches runs of one store, in one event loop."""

    def __init__(self, runs: Runtime, reader: Reader) -> None:
        self.runs = runs
        self._reader = reader
        self._tails: dict[str, Tail] = {}
        self._listings: dict[Filter, Listing] = {}
        self._task: asyncio.Task[None] | None = None
        self._waiter: Waiter | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed = True
        self.closing = asyncio.Event()
        self.tellings = Tellings(runs, reader)
        self.trouble = ""

    @property
    def watched(self) -> int:
        """How many readers there are."""
        listing = sum(len(listing.pokes) for listing in self._listings.values())
        return listing + sum(len(tail.watches) for tail in self._tails.values())

    # --- watching one run -----------------------------------------------------------------------------

    async def watch(self, run: str, after: int, poke: Callable[[], None], who: Visitor) -> Watch:
        """Follow a run from a place in its record; UnknownRun if there is none."""
        tail = self._tails.get(run)
        if tail is None:
            n, seq, ended = await self._reader.read(lambda tx: _place(tx, run))
            tail = self._tails.setdefault(run, Tail(run, n, seq, ended))
        watch = Watch(tail, self.tellings.enter(who, run, after), after, poke)
        tail.watches.add(watch)
        tail.view_due = True
        self._begin()
        return watch

    def unwatch(self, watch: Watch) -> None:
        """Nobody reads it any more."""
        watch.tail.watches.discard(watch)
        self.tellings.leave(watch.client)
        self._let_go(watch.tail)

    def _let_go(self, tail: Tail) -> None:
        """Nobody watches a run, and nobody who left is remembered: it is no longer followed."""
        if not tail.watches and self._tails.get(tail.run) is tail and not self.tellings.lingers(tail.run):
            del self._tails[tail.run]
            self.tellings.forget(tail.run)

    async def next_events(self, watch: Watch, limit: int = AT_ONCE) -> list[Told]:
        """What this reader has not been given yet, in order, and its place moves behind it."""
        if watch.tail.trouble is not None:
            raise watch.tail.trouble
        if not watch.behind:
            return []
        recent, after = watch.tail.recent, watch.after
        if recent and recent[0].seq <= after + 1:
            skipped = after + 1 - recent[0].seq
            told = list(islice(recent, skipped, skipped + limit))
        else:
            n, upto = watch.tail.n, watch.tail.seq
            told = await self._reader.read(lambda tx: _told(tx, watch.tail.run, n, after, limit, upto))
        for one in told:
            watch.after = one.seq
            if one.span is not None:
                watch.live.recorded(one.span)
        return told

    def delta(self, run: str, delta: TextDelta) -> None:
        """Live text, from whatever thread it is said in."""
        if run in self._tails and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pass_on, run, delta)

    def _pass_on(self, run: str, delta: TextDelta) -> None:
        tail = self._tails.get(run)
        if tail is not None:
            for watch in tail.watches:
                watch.live.waiting.append(delta)
                watch.poke()

    # --- the list -----------------------------------------------------------------------------------------

    def follow_list(self, wanted: Filter, poke: Callable[[], None]) -> Listing:
        """The list of runs, now and whenever it has changed."""
        listing = self._listings.setdefault(wanted, Listing(wanted))
        listing.pokes.add(poke)
        self._begin()
        return listing

    def leave_list(self, listing: Listing, poke: Callable[[], None]) -> None:
        """Nobody reads it any more."""
        listing.pokes.discard(poke)
        if not listing.pokes and self._listings.get(listing.wanted) is listing:
            del self._listings[listing.wanted]

    # --- the one task that reads ---------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._waiter is not None:
            self._waiter.poke()
        if self._task is None or self._task.done():
            self._loop = asyncio.get_running_loop()
            if self.delta not in self.runs.hub.taps:
                self.runs.hub.taps.append(self.delta)
            self._task = self._loop.create_task(self._follow(), name="standfast feeds")

    async def _follow(self) -> None:
        with self.runs.hub.waiting(None, steps=True) as self._waiter:
            while (self._tails or self._listings) and not self.closing.is_set():
                try:
                    await self._read_tails()
                    await self._read_lists()
                    self.trouble = ""
                except Exception as error:  # noqa: BLE001 - whatever it is, those who watch must not hang for ever
                    self._report(error)
                    await asyncio.sleep(STALE)
                await asyncio.sleep(GAP)
                due = any(tail.view_due for tail in self._tails.values()) or (self._changed and self._listings)
                await self._waiter.wait(VIEW_GAP if due else STALE)
                self._changed = True

    def _report(self, error: Exception) -> None:
        """Readers wait while the store cannot be read; /readyz and the log say why, once."""
        trouble = f"{type(error).__name__}: {error}"
        if trouble != self.trouble:
            self.trouble = trouble
            unexpected = None if isinstance(error, StandfastError) else error
            log.error("standfast: what runs do cannot be told just now: %s", trouble, exc_info=unexpected)

    async def _read_tails(self) -> None:
        now = time.monotonic()
        tails = list(self._tails.values())
        if not tails:
            return
        doing = {tail.run: self.runs.doing(tail.run) for tail in tails}
        wall = self.runs.clock.now()

        def look(tx: Tx) -> list[_News]:
            return [news for tail in tails if (news := _news(tx, tail, now, wall, doing[tail.run])) is not None]

        for tail, told, view, ended in await self._reader.read(look):
            self._tell(tail, told, view, ended, now)
        for tail in tails:
            self._let_go(tail)

    def _tell(self, tail: Tail, told: list[Told], view: tuple[bytes, bytes] | None, ended: bool, now: float) -> None:
        news = bool(told)
        if told:
            tail.keep(told)
            tail.seq = told[-1].seq
            for one in told:
                self.tellings.notice(tail.run, one)
            self._reader.forget(tail.run)
        tail.view_due = view is None and (news or tail.view_due)
        tail.ended = ended
        if view is not None:
            tail.viewed_at = now
            if view[1] != tail.view_key:
                tail.view, tail.view_key = view
                tail.view_version += 1
                news = True
        if news or ended:
            tail.poke()

    async def _read_lists(self) -> None:
        now = time.monotonic()
        due = [each for each in self._listings.values() if now - each.read_at >= LIST_GAP] if self._changed else []
        for listing in due:
            try:
                views = await self._reader.found(listing.wanted)
            except StoreDamaged as error:  # of one run: whoever asks for others is told of them
                self._report(error)
                continue
            listing.read_at = now
            bodies = [view_json(view) for view in views]
            key = b"\n".join(map(view_key, bodies))
            if key != listing.key or not listing.version:
                listing.json, listing.key = encode(bodies), key
                listing.version += 1
                for poke in list(listing.pokes):
                    poke()
        if len(due) == len(self._listings):
            self._changed = False

    async def close(self) -> None:
        """Everybody who watches is told to go."""
        self.closing.set()
        if self.delta in self.runs.hub.taps:
            self.runs.hub.taps.remove(self.delta)
        for tail in self._tails.values():
            tail.poke()
        for listing in self._listings.values():
            for poke in list(listing.pokes):
                poke()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def _news(tx: Tx, tail: Tail, now: float, wall: float, doing: str) -> _News | None:
    """What is new in one run; one that cannot be read says so, and hides no other."""
    try:
        told = _told(tx, tail.run, tail.n, tail.seq, AT_ONCE, None)
        stale = not tail.ended and now - tail.viewed_at >= STALE and bool(tail.watches)
        due = stale or ((told or tail.view_due) and (now - tail.viewed_at >= VIEW_GAP or not tail.view))
        if not told and not due:
            return None
        row = tx.run_n(tail.n)
        if row is None:
            return tail, told, None, tail.ended
        seen = told[-1].seq if told else tail.seq
        ended = row.status in ENDED and (seen >= row.seq or bool(row.doc.forgotten))
        if not due:
            return tail, told, None, ended
        view = view_json(readable_view(tx, (row.id, row.agent, row.status), wall, doing))
    except StoreDamaged as error:
        tail.trouble = error
        return tail, [], None, True
    return tail, told, (encode(view), view_key(view)), ended


def view_key(view: dict[str, Any]) -> bytes:
    """What has to differ for a view to be told again: its clocks go on anyway."""
    return encode(view | {"elapsed": 0, "paused_for": 0})


def _place(tx: Tx, run: str) -> tuple[int, int, bool]:
    row = load(tx, run)
    return row.n, row.seq, row.status in ENDED


def _told(tx: Tx, run: str, n: int, after: int, limit: int, upto: int | None) -> list[Told]:
    events: list[Event] = [event for _, events in tx.record(n, after, limit) for event in events]
    told: list[Told] = []
    for event in events:
        if upto is not None and event.seq > upto:
            break
        event.run = run
        told.append(Told(event.seq, event.type, encode(told_json(event)), span_of(event)))
    return told
