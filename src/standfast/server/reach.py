"""What one connection has been handed of one run: counted just before it goes out, at little cost.

Handed to the connection is not seen, nor even received: what the network still holds, or a tab in the background never
draws, is counted all the same. So it is the most that anybody can have read there.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection

from standfast.clock import boot_id, moment, uptime
from standfast.events import TextDelta
from standfast.records import Channel, ClientReach, Moment, Span, Way
from standfast.said_texts import TextKey
from standfast.ways import token_of

if TYPE_CHECKING:
    from standfast.server.actors import Actor
    from standfast.server.telling import Telling

MOST_TEXTS = 8  # calls, tries and channels of which a client's place is known, the newest
MOST_TIMES = 512  # pieces whose times are known
LONGEST_PROGRAM = 120


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who a connection belongs to."""

    by: str | None
    way: Way
    program: str = ""
    by_token: str = ""  # the token that they have shown
    id: str = field(default_factory=lambda: f"client-{secrets.token_hex(6)}")


@dataclass(frozen=True, slots=True)
class Handed:
    """How far a client had got."""

    seq: int
    last_byte: Moment | None
    spans: tuple[Span, ...]
    left_out: int
    times: tuple[tuple[float, float, int], ...]
    left: Moment | None


class Piece(bytes):
    """Something for a reader of a stream, and what to note as it is handed to the connection."""

    handed: Callable[[], None]

    @classmethod
    def of(cls, body: bytes, handed: Callable[[], None]) -> Piece:
        piece = cls(body)
        piece.handed = handed
        return piece


def visitor(actor: Actor, way: Way, program: str) -> Visitor:
    """The same person or program, as the record of stops names its connection."""
    return Visitor(actor.name, way, program, token_of(actor.route))


def program_of(connection: HTTPConnection) -> str:
    """What a client calls itself."""
    return connection.headers.get("user-agent", "")[:LONGEST_PROGRAM]


class Client:
    """One connection's place in what one run says."""

    def __init__(self, who: Visitor, run: str, after: int, now: Callable[[], float]) -> None:
        self.who = who
        self.run = run
        self.after = after
        self.seq = after
        self.since = moment(now())
        self.left: Moment | None = None
        self.tellings: list[Telling] = []  # that wait for this client to be given the end of a stop
        self._now = now
        self._texts: dict[TextKey, list[list[int]]] = {}
        self._left_out = 0
        self._times: deque[tuple[float, float, int]] = deque(maxlen=MOST_TIMES)  # wall, uptime, characters
        self._key: TextKey | None = None
        self._end = [0, 0]  # the range that is being added to

    @property
    def has_text(self) -> bool:
        """Was it handed anything that the run said?"""
        return bool(self._texts)

    def now(self) -> Moment:
        """This moment, by its server's clocks."""
        return moment(self._now())

    def text(self, call: str, attempt: int, take: int, channel: Channel, start: int, characters: int) -> None:
        """A piece of text was handed over, as it was said or out of the record."""
        key = (call, attempt, take, channel)
        if key == self._key and self._end[1] == start:
            self._end[1] += characters
            self._times.append((self._now(), uptime(), characters))
        elif new := self._add(key, start, start + characters):
            self._times.append((self._now(), uptime(), new))

    def delta(self, delta: TextDelta) -> None:
        """Live text was handed over."""
        self.text(delta.call_id, delta.attempt, delta.take, delta.channel, delta.offset, len(delta.text))

    def event(self, seq: int, span: Span | None = None) -> None:
        """An event of the record was handed over."""
        if span is not None:
            self.text(span.call, span.attempt, span.take, span.channel, span.start, span.end - span.start)
        self.seq = max(self.seq, seq)
        for telling in tuple(self.tellings):
            if self.seq >= telling.seq:
                telling.keep(self)

    def _add(self, key: TextKey, start: int, end: int) -> int:
        """How many characters of it are new to this client."""
        if key not in self._texts and len(self._texts) >= MOST_TEXTS:
            self._texts.pop(next(iter(self._texts)))
            self._left_out += 1
        known = self._texts.pop(key, [])  # put back below, as the newest
        new = (end - start) - sum(max(0, min(end, b) - max(start, a)) for a, b in known)
        merged: list[list[int]] = []
        for a, b in sorted([*known, [start, end]]):
            if merged and a <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], b)
            else:
                merged.append([a, b])
        self._texts[key] = merged
        self._key, self._end = key, merged[-1]
        return new

    def handed(self) -> Handed:
        """What it has been handed by now."""
        last = self._times[-1] if self._times else None
        return Handed(
            self.seq,
            None if last is None else Moment(last[0], last[1], boot_id() or None),
            tuple(Span(*key, start, end) for key, ranges in self._texts.items() for start, end in ranges),
            self._left_out,
            tuple(self._times),
            self.left,
        )

    def reach(self, handed: Handed, accepted: Moment) -> ClientReach:
        """The same, for the record of a stop that was accepted then."""
        after, at_least = _after(handed.times, accepted)
        return ClientReach(
            client=self.who.id,
            by=self.who.by,
            by_token=self.who.by_token,
            way=self.who.way,
            program=self.who.program,
            since=self.since,
            after=self.after,
            seq=handed.seq,
            last_byte=handed.last_byte,
            after_accepted=after,
            at_least=at_least,
            left=handed.left,
            spans=handed.spans,
            left_out=handed.left_out,
        )


def _after(times: tuple[tuple[float, float, int], ...], accepted: Moment) -> tuple[int, bool]:
    """Characters handed over after a moment; True if there may have been more, earlier than is remembered."""
    same = accepted.uptime is not None and accepted.boot is not None and accepted.boot == boot_id()
    later = [one for one in times if (one[1] > (accepted.uptime or 0.0) if same else one[0] > accepted.at)]
    return sum(characters for _, _, characters in later), len(later) == MOST_TIMES
