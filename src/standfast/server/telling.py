"""After a stop has settled, a server writes into the run's record what each of its clients had been handed (R31).

Once a stop and server, also of a run that has ended. It waits a moment for clients that have not been given the end of
the stop yet; nobody waits for it. A server that dies before has told nothing: then nobody knows who its clients were.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic_core import from_json

from standfast import events as ev
from standfast.abc import Tx
from standfast.control import saved
from standfast.errors import StandfastError
from standfast.events import Event
from standfast.records import Span
from standfast.runtime import Runtime
from standfast.server.reach import Client, Handed, Visitor
from standfast.server.reading import Reader
from standfast.stop_records import StopRecord, stop_records

log = logging.getLogger("standfast")

WAIT_SECONDS = 1.0  # for clients that are behind
AGAIN_SECONDS = (0.5, 2.0, 10.0)  # when the store cannot be written to
MOST_CLIENTS = 100  # that are named
MOST_GONE = 32  # clients of one run that are remembered after they have left
MOST_LINGERING = 50  # runs that are followed although all of their clients have left
MOST_FETCHED = 1_000  # runs whose answered requests are counted
MOST_EVERYWHERE = 200  # runs of which a stream of all events is known to have text
LOOK_BACK = 1_000  # events before the end of a stop, in which it was most likely accepted

SETTLING: Final = frozenset({"run_paused", "run_queued", "run_cancelled", "run_done", "run_failed"})
ASKING: Final = frozenset({"pause_asked", "cancel_asked", "run_halted", "taken_over", "rewind_asked"})


@dataclass(frozen=True, slots=True)
class Told:
    """An event as it goes over the wire."""

    seq: int
    type: str
    json: bytes
    span: Span | None = None  # the text it hands over


class Telling:
    """One end of a stop, and how far each client had got with it."""

    def __init__(self, seq: int, clients: list[Client]) -> None:
        self.seq = seq
        self.clients = clients
        self.handed: dict[Client, Handed] = {}
        self.complete = asyncio.Event()
        for client in clients:
            if client.left is not None or client.seq >= seq:
                self.handed[client] = client.handed()
            else:
                client.tellings.append(self)
        self._look()

    def keep(self, client: Client) -> None:
        """The client has been given the end of the stop, or has gone: what it has now is what it had."""
        client.tellings.remove(self)
        self.handed[client] = client.handed()
        self._look()

    def _look(self) -> None:
        if len(self.handed) == len(self.clients):
            self.complete.set()

    def close(self) -> None:
        """Nobody waits any longer for those who are behind."""
        for client in self.clients:
            if client not in self.handed:
                self.keep(client)


@dataclass(slots=True)
class _Known:
    """The clients of one run."""

    here: dict[Client, None] = field(default_factory=dict[Client, None])
    gone: deque[Client] = field(default_factory=lambda: deque[Client](maxlen=MOST_GONE))
    gone_left_out: int = 0
    settled: int = 0  # the last end of a stop that was noticed
    telling: int = 0  # how many are being told


class Tellings:
    """Everybody to whom this server hands what runs say."""

    def __init__(self, runs: Runtime, reader: Reader) -> None:
        self.server = f"server-{secrets.token_hex(6)}"
        self._runs = runs
        self._reader = reader
        self._known: dict[str, _Known] = {}
        self._fetched: dict[str, int] = {}
        self._fetched_forgotten = 0  # of runs that are not counted any more
        self._work: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    # --- who is here --------------------------------------------------------------------------------

    def enter(self, who: Visitor, run: str, after: int) -> Client:
        """Somebody is handed what a run says, from here on."""
        client = Client(who, run, after, self._runs.clock.now)
        self._known.setdefault(run, _Known()).here[client] = None
        return client

    def leave(self, client: Client) -> None:
        """They are handed nothing any more; what they had is remembered until the call that spoke has ended."""
        known = self._known.get(client.run)
        if known is None or client not in known.here:
            return
        del known.here[client]
        client.left = client.now()
        for telling in tuple(client.tellings):
            telling.keep(client)
        if client.has_text:
            known.gone_left_out += len(known.gone) == MOST_GONE
            known.gone.append(client)
        self._forget_if_empty(client.run, known)

    def lingers(self, run: str) -> bool:
        """Is a run followed on, for clients that have left in the midst of what it says?"""
        known = self._known.get(run)
        if known is None or not (known.gone or known.telling):
            return False
        lingering = [id_ for id_, one in self._known.items() if one.gone and not one.here]
        return run in lingering[-MOST_LINGERING:] or bool(known.telling)

    def forget(self, run: str) -> None:
        """Nobody follows the run any more."""
        known = self._known.get(run)
        if known is not None:
            self._forget_gone(known)
            self._forget_if_empty(run, known)

    def _forget_gone(self, known: _Known) -> None:
        known.gone.clear()
        known.gone_left_out = 0

    def _forget_if_empty(self, run: str, known: _Known) -> None:
        if not known.here and not known.gone and not known.telling:
            self._known.pop(run, None)

    def fetched(self, run: str) -> None:
        """A request was answered with what a run has said."""
        self._fetched[run] = self._fetched.pop(run, 0) + 1
        if len(self._fetched) > MOST_FETCHED:
            oldest = next(iter(self._fetched))
            self._fetched_forgotten = max(self._fetched_forgotten, self._fetched.pop(oldest))

    def times_fetched(self, run: str) -> int:
        """How often; of a run that is not counted any more it may have been as many as of any of those."""
        return self._fetched.get(run, 0) + self._fetched_forgotten

    # --- what is noticed ------------------------------------------------------------------------------

    def notice(self, run: str, told: Told) -> None:
        """An event of a run that is followed: perhaps the end of a stop."""
        known = self._known.get(run)
        if known is None or told.seq <= known.settled:
            return
        if told.type == "step_finished":
            if not known.telling:  # who left before has nothing of what is being said now
                self._forget_gone(known)
                self._forget_if_empty(run, known)
        elif told.type in SETTLING or (told.type in ASKING and from_json(told.json)["status"] == "paused"):
            known.settled = told.seq
            telling = Telling(told.seq, [*known.here, *known.gone])
            left_out = known.gone_left_out
            self._forget_gone(known)
            if telling.clients:
                known.telling += 1
                task = asyncio.get_running_loop().create_task(self._tell(run, known, telling, left_out))
                self._work.add(task)
                task.add_done_callback(self._work.discard)

    async def _tell(self, run: str, known: _Known, telling: Telling, left_out: int) -> None:
        try:
            await self._until(telling.complete, WAIT_SECONDS)
            telling.close()
            for seconds in (*AGAIN_SECONDS, None):
                try:
                    await self._write(run, telling, left_out)
                    return
                except StandfastError as error:
                    if seconds is None or self._closing.is_set():
                        log.error("standfast: what clients had of run %s could not be recorded: %s", run, error)
                        return
                    await self._until(self._closing, seconds)
        finally:
            known.telling -= 1
            self._forget_if_empty(run, known)

    async def _until(self, event: asyncio.Event, seconds: float) -> None:
        """Until it is set, the time is up, or the server goes."""
        waits = [asyncio.create_task(one.wait()) for one in {event, self._closing}]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in waits:
            one.cancel()

    async def _write(self, run: str, telling: Telling, left_out: int) -> None:
        stops = await self._reader.read(lambda tx: _ended_at(tx, run, telling.seq))
        events = [self._event(run, stop, telling, left_out) for stop in stops]

        def write(tx: Tx) -> None:
            row = tx.run(run)
            if row is None or row.doc.forgotten:
                return
            known = {
                (event.server, event.stop)
                for _, later in tx.record(row.n, telling.seq)
                for event in later
                if isinstance(event, ev.ClientsReached)
            }
            fresh: list[Event] = [event for event in events if (event.server, event.stop) not in known]
            if fresh:
                saved(tx, row, fresh)

        if events:
            await self._runs.control(write)
            self._reader.forget(run)

    def _event(self, run: str, stop: StopRecord, telling: Telling, left_out: int) -> ev.ClientsReached:
        named = telling.clients[:MOST_CLIENTS]
        return ev.ClientsReached(
            server=self.server,
            stop=stop.seq,
            settled=telling.seq,
            clients=[client.reach(telling.handed[client], stop.accepted) for client in named],
            left_out=left_out + len(telling.clients) - len(named),
            fetched=self.times_fetched(run),
        )

    async def close(self) -> None:
        """What is to be told is told now."""
        self._closing.set()
        if self._work:
            await asyncio.wait(self._work, timeout=WAIT_SECONDS)


class Everywhere:
    """The places of one stream of all events: a client of every run that it was handed text of."""

    def __init__(self, tellings: Tellings, who: Visitor) -> None:
        self._tellings = tellings
        self._who = who
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> Everywhere:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            self._tellings.leave(client)

    def handed(self, run: str, told: Sequence[Told]) -> None:
        """Events of a run were handed over."""
        for one in told:
            client = self._clients.pop(run, None)
            if client is None and one.span is None:
                continue
            client = client or self._tellings.enter(self._who, run, one.seq - 1)
            self._clients[run] = client  # as the newest
            client.event(one.seq, one.span)
        if len(self._clients) > MOST_EVERYWHERE:
            self._tellings.leave(self._clients.pop(next(iter(self._clients))))


def _ended_at(tx: Tx, run: str, seq: int) -> list[StopRecord]:
    """The stops that ended with this event."""
    row = tx.run(run)
    if row is None:
        return []
    back = LOOK_BACK
    while True:
        start = max(0, seq - back)
        found = [stop for stop in stop_records(_events(tx, row.n, start, seq)) if stop.settled_seq == seq]
        if found or not start:
            return found
        back *= 8


def _events(tx: Tx, n: int, after: int, upto: int) -> list[Event]:
    events: list[Event] = []
    while after < upto and (rows := tx.record(n, after)):
        after = rows[-1][0]
        events += [event for _, some in rows for event in some if event.seq <= upto]
    return events
