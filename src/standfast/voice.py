"""What calls say while they run: live to whoever looks, durable soon after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from standfast import events as ev
from standfast.arguments import shortened
from standfast.events import TextDelta
from standfast.guarding import Trip, Watch
from standfast.records import Channel
from standfast.redaction import Places, Stream
from standfast.tripping import close_at_once, must_end, note_excused, note_trips

if TYPE_CHECKING:
    import asyncio

    from standfast.commit import StepCommit
    from standfast.flight import Flight
    from standfast.session import Session

FLUSH_SECONDS = 0.25
FLUSH_CHARACTERS = 4096
MOST_SAID = 4_000_000  # characters that one call of a tool says; a model has a limit of its own
MOST_PROGRESS = 1_000  # events of one call that tell how far it is
LEFT_OUT = "\n… [it said more than is kept of one call: what followed is left out]"


@dataclass(slots=True)
class Progressed:
    """The last event that told how far a call is, the commit it is in, and how many there were."""

    commit: StepCommit
    event: ev.CallProgress
    count: int


@dataclass(slots=True)
class Speech:
    """What one call has said: how much of it is on its way to the store, and what is not yet."""

    said: dict[Channel, int] = field(default_factory=dict[Channel, int])  # characters so far, by channel
    kept: dict[Channel, int] = field(default_factory=dict[Channel, int])  # how many of them are on their way
    unsaid: list[tuple[Channel, str]] = field(default_factory=list[tuple[Channel, str]])
    waiting: int = 0  # characters of `unsaid`
    given: int = 0  # characters that a tool has said, those left out too
    timer: asyncio.TimerHandle | None = None
    streams: dict[Channel, Stream] = field(default_factory=dict[Channel, Stream])  # without secrets
    flushed: dict[Channel, Places] = field(default_factory=dict[Channel, Places])  # nor those of pieces joined
    trips: dict[tuple[Channel, int], int] = field(default_factory=dict[tuple[Channel, int], int])  # where they began
    watch: Watch | None = None  # stands before all this, if the call is guarded
    tripped: bool = False  # and closed for it: nothing more is heard

    def place(self, channel: Channel, place: int, *, is_end: bool = False) -> int:
        """Where a character that the call said stands in what is told and recorded of it."""
        stream, flushed = self.streams.get(channel), self.flushed.get(channel)
        if stream is not None:
            place = stream.places.place(place, is_end=is_end)
        return place if flushed is None else flushed.place(place, is_end=is_end)

    def trip(self, trip: Trip) -> Trip:
        """The trip in what is told; one that is told again begins where it did."""
        start = self.trips.setdefault((trip.channel, trip.start), self.place(trip.channel, trip.start))
        return replace(trip, start=start, end=self.place(trip.channel, trip.end, is_end=True))

    def pieces(self) -> Iterator[tuple[Channel, str]]:
        """What is unsaid, in order, text of one channel in one piece."""
        channel: Channel = "text"
        parts: list[str] = []
        for of, text in self.unsaid:
            if of != channel and parts:
                yield channel, "".join(parts)
                parts = []
            channel = of
            parts.append(text)
        if parts:
            yield channel, "".join(parts)


class Voice:
    """Collects what the calls of one run say."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def say(self, flight: Flight, text: str, channel: Channel = "text") -> None:
        """Text of a call; a crash loses no more than a quarter of a second of it."""
        if not text or flight.ended:
            return
        speech = flight.speech = flight.speech or self._begin(flight)
        if not flight.at_once:
            text = self._within(speech, text)
        if speech.watch is not None:
            self._overheard(flight, speech, speech.watch, speech.watch.hear(channel, text), channel)
        elif not speech.tripped:
            self._let_out(flight, speech, text, channel)

    @staticmethod
    def _within(speech: Speech, text: str) -> str:
        """As much of it as is kept. No error: one in the midst of a write would leave its effect unknown."""
        left = MOST_SAID - speech.given
        speech.given += len(text)
        if len(text) <= left:
            return text
        return text[:left] + LEFT_OUT if left >= 0 else ""

    def _begin(self, flight: Flight) -> Speech:
        guard = flight.call.guard
        if guard is None:
            return Speech()
        row = self._session.row
        return Speech(watch=guard.watch(row.id, marks_only=flight.id in row.doc.tripwire_ok))

    def _overheard(self, flight: Flight, speech: Speech, watch: Watch, text: str, channel: Channel) -> None:
        if text:
            self._let_out(flight, speech, text, channel)
        if trips := watch.trips():
            ends = must_end(self._session, flight, trips)
            # The words come before what is said about them; all of them, if these are the last.
            if ends:
                self.flush(flight)
            else:
                self._write(flight, speech)
            note_trips(self._session, flight, watch, [speech.trip(one) for one in trips], speech.said)
            if ends:
                speech.watch, speech.tripped = None, True
                close_at_once(self._session, flight)

    def _let_out(self, flight: Flight, speech: Speech, text: str, channel: Channel) -> None:
        """Without secrets, which may take a moment to be told from other words."""
        redactor = self._session.env.redactor
        if redactor is not None:
            stream = speech.streams.get(channel)
            if stream is None:
                stream = speech.streams[channel] = Stream(redactor)
            text = stream.feed(text)
        if text:
            self._say(flight, speech, text, channel)

    def _say(self, flight: Flight, speech: Speech, text: str, channel: Channel) -> None:
        offset = speech.said.get(channel, 0)
        speech.said[channel] = offset + len(text)
        hub = self._session.env.hub
        if hub.heard:
            hub.delta(
                self._session.row.id,
                TextDelta(flight.id, offset, text, channel, attempt=flight.attempt, take=flight.take),
            )
        speech.unsaid.append((channel, text))
        speech.waiting += len(text)
        if speech.waiting >= FLUSH_CHARACTERS:
            self._write(flight, speech)
        elif speech.timer is None:
            speech.timer = self._session.env.loop.call_later(FLUSH_SECONDS, self._write, flight, speech)

    def begin_anew(self, flight: Flight) -> None:
        """The call is tried again: what it says from now on stands in place of what it said."""
        self.end(flight)
        flight.speech = None

    def end(self, flight: Flight) -> None:
        """The call says nothing more: what was held back is let out, and what was let pass is said."""
        speech = flight.speech
        if speech is not None and speech.watch is not None:
            watch, speech.watch = speech.watch, None
            for channel, text in watch.end():
                self._let_out(flight, speech, text, channel)
            self.flush(flight)
            note_trips(self._session, flight, watch, [speech.trip(one) for one in watch.trips()], speech.said)
            note_excused(self._session, flight, watch)
        self.flush(flight)

    def flush(self, flight: Flight) -> None:
        """Write all that was said since the last flush, for nothing more may come."""
        speech = flight.speech
        if speech is None:
            return
        for channel, stream in speech.streams.items():
            if rest := stream.finish():
                self._say(flight, speech, rest, channel)
        self._write(flight, speech)

    def _write(self, flight: Flight, speech: Speech) -> None:
        if speech.timer is not None:
            speech.timer.cancel()
            speech.timer = None
        if not speech.unsaid:
            return
        redactor = self._session.env.redactor
        for channel, text in speech.pieces():
            offset = speech.kept.get(channel, 0)
            if redactor is not None:  # a secret may be whole only now
                text = speech.flushed.setdefault(channel, Places()).without_secrets(redactor, text)
            self._session.note(
                ev.TextFlushed(
                    call=flight.id,
                    offset=offset,
                    text=text,
                    attempt=flight.attempt,
                    channel=channel,
                    take=flight.take,
                )
            )
            speech.said[channel] = speech.kept[channel] = offset + len(text)
        speech.unsaid.clear()
        speech.waiting = 0

    def progress(self, flight: Flight, fraction: float, text: str) -> None:
        """How far a call is: the newest of what it tells between two commits."""
        if flight.ended:
            return
        text = shortened(text)
        known = flight.progressed
        if known is not None and known.commit is self._session.pending:
            known.event.fraction, known.event.text = fraction, text
        elif known is None or known.count < MOST_PROGRESS:
            event = ev.CallProgress(call=flight.id, fraction=fraction, text=text)
            self._session.note(event)
            flight.progressed = Progressed(self._session.commit(), event, 1 if known is None else known.count + 1)
