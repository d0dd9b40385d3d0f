"""The record of each stop, read from a run's events (R31).

Nothing here is measured: every time and every count was written when it happened, and is only put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

from standfast import events as ev
from standfast.abc import Tx
from standfast.errors import Misuse
from standfast.events import Event
from standfast.records import Channel, ClientReach, HeldBack, Moment, Span, Status
from standfast.rows import RunRow
from standfast.said_texts import Range, SaidTexts, TextKey, gaps, key_of, merged
from standfast.stop_shapes import (
    CutStream,
    Handed,
    Marked,
    Reached,
    Received,
    StopRecord,
    StopVerb,
    Telling,
    Tripped,
    Withheld,
    settled_words,
    since_accepted,
)

__all__ = [
    "CutStream",
    "Handed",
    "Marked",
    "Moment",
    "Reached",
    "Received",
    "StopRecord",
    "StopVerb",
    "Telling",
    "Tripped",
    "Withheld",
    "settled_words",
    "since_accepted",
    "stop_records",
    "stops_of",
]

Asking: TypeAlias = ev.PauseAsked | ev.CancelAsked | ev.RunHalted | ev.TakenOver | ev.RewindAsked


def stop_records(events: Iterable[Event]) -> tuple[StopRecord, ...]:
    """The stops of a run, oldest first, from its events in order; an event that comes again changes nothing."""
    assembling = _Assembling()
    seen = 0
    for event in events:
        if event.seq > seen:
            seen = event.seq
            assembling.take(event)
    return assembling.records()


def stops_of(tx: Tx, row: RunRow) -> tuple[StopRecord, ...]:
    """The stops of a run, from the store; Misuse if they were deleted: none would read as never stopped."""
    if row.doc.forgotten:
        hint = "whether and how it was stopped is not known any more; `standfast verify` shows who deleted that"
        raise Misuse(f"run {row.id} {row.doc.forgotten}", hint=hint)
    return stop_records(_record(tx, row))


def _record(tx: Tx, row: RunRow) -> Iterator[Event]:
    after = 0
    while rows := tx.record(row.n, after):
        after = rows[-1][0]
        for _, events in rows:
            for event in events:
                event.run = row.id
                yield event


@dataclass(slots=True)
class _Found:
    """A stop whose events are being read."""

    begun: Asking
    trips: list[ev.TripwireTripped]
    streams: dict[TextKey, ev.StreamEnded]
    end: tuple[int, Moment, Status] | None = None
    status: Status = "pausing"
    tellings: dict[str, ev.ClientsReached] = field(default_factory=dict[str, ev.ClientsReached])
    left: dict[str, None] = field(default_factory=dict[str, None])  # what still ran, in order
    marks: list[ev.OutputSuspected] = field(default_factory=list[ev.OutputSuspected])


class _Assembling:
    """Reads events one by one."""

    def __init__(self) -> None:
        self._stops: list[_Found] = []
        self._open: list[_Found] = []
        self._texts = SaidTexts()
        self._trips: dict[tuple[str, int, Channel, int], ev.TripwireTripped] = {}
        # What the run itself stops for, a trip say, stands before the event with which that stop is accepted.
        self._early_trips: list[ev.TripwireTripped] = []
        self._early_streams: dict[TextKey, ev.StreamEnded] = {}
        self._tools: dict[str, str] = {}

    def take(self, event: Event) -> None:
        match event:
            case ev.PauseAsked() | ev.CancelAsked() | ev.RunHalted() | ev.TakenOver() | ev.RewindAsked():
                self._begin(event)
            case ev.RunPaused() | ev.RunQueued() | ev.RunCancelled() | ev.RunDone() | ev.RunFailed():
                self._settle(event)
            case ev.CallStarted():
                self._tools[event.call] = event.tool
            case ev.CallCut() if event.outcome == "still_running":
                self._left(self._tools.get(event.call, event.call))
            case ev.LeftBehind():
                self._left(event.what)
            case ev.OutputSuspected():
                for stop in self._open[-1:]:
                    stop.marks.append(event)
            case ev.StreamEnded():
                if event.outcome == "still_running":
                    self._left(event.tool)
                key: TextKey = (event.call, event.attempt, event.take, "text")
                for streams in [stop.streams for stop in self._open] or [self._early_streams]:
                    streams[key] = event
            case ev.TripwireTripped():
                self._trips[event.call, event.attempt, event.channel, event.start] = event
                if event.action != "flag":
                    self._early_trips.append(event)
            case ev.TextFlushed():
                self._texts.add(event)
            case ev.ClientsReached():
                for stop in self._stops:
                    if stop.begun.seq == event.stop:
                        stop.tellings.setdefault(event.server, event)
            case ev.StepFinished() | ev.StepSetBack() | ev.RunReleased() | ev.RunClaimed():
                self._forget_early()
            case _:
                pass

    def _begin(self, event: Asking) -> None:
        found = _Found(event, list(self._early_trips), dict(self._early_streams), status=event.status)
        for older in self._open:  # streams that an older stop has cut: this one came before they were let go
            found.streams |= older.streams
        self._stops.append(found)
        if event.status == "paused":  # it stood still already
            found.end = event.seq, _moment(event), event.status
        else:
            self._open.append(found)
        self._forget_early()

    def _settle(self, event: ev.RunPaused | ev.RunQueued | ev.RunCancelled | ev.RunDone | ev.RunFailed) -> None:
        if isinstance(event, ev.RunCancelled):
            for one in event.receipt.in_flight:
                if one.outcome == "still_running":
                    self._left(one.call.tool)
        for stop in self._open:
            stop.end = event.seq, _moment(event), event.status
            stop.status = event.status
        self._open = []
        self._forget_early()

    def _left(self, what: str) -> None:
        """Named once: "crunch", and not "crunch is still running" as well."""
        for stop in self._open:
            if not any(what == known or what.startswith(f"{known} ") for known in stop.left):
                stop.left[what] = None

    def _forget_early(self) -> None:
        self._early_trips, self._early_streams = [], {}

    def records(self) -> tuple[StopRecord, ...]:
        return tuple(self._record(number, stop) for number, stop in enumerate(self._stops, 1))

    def _record(self, number: int, stop: _Found) -> StopRecord:
        begun = stop.begun
        accepted = begun.accepted or _moment(begun)
        seq, settled, _ = stop.end or (None, None, None)
        trips = self._trips_of(stop)
        handed = _Handed(self._texts)
        return StopRecord(
            run=begun.run,
            number=number,
            seq=begun.seq,
            verb=_verb(begun),
            trigger="operator" if isinstance(begun, ev.RunHalted) else begun.trigger,
            by=begun.by,
            reason=begun.reason,
            route=begun.route,
            by_token=begun.by_token,
            asked=begun.asked or accepted,
            accepted=accepted,
            settled=settled,
            settled_seq=seq,
            status=stop.status,
            in_flight=tuple(begun.in_flight),
            still_running=tuple(stop.left),
            streams=tuple(map(_stream, stop.streams.values())),
            clients=tuple(_reached(told, one, handed) for told in stop.tellings.values() for one in told.clients),
            texts=handed.texts([one for told in stop.tellings.values() for one in told.clients]),
            told=tuple(
                Telling(
                    server=told.server,
                    at=_moment(told),
                    clients=len(told.clients),
                    left_out=told.left_out,
                    fetched=told.fetched,
                )
                for told in stop.tellings.values()
            ),
            held_back=(*_kept_in(trips), *self._not_handed_over(stop)),
            marks=tuple(
                Marked(call=m.call, offset=m.offset, by=m.by, by_token=m.by_token, reason=m.reason) for m in stop.marks
            ),
            trips=tuple(map(_tripped, trips)),
        )

    def _trips_of(self, stop: _Found) -> list[ev.TripwireTripped]:
        """Those of the calls that it cut, as they were told last."""
        calls = {(one.call, one.attempt) for one in stop.streams.values()}
        calls |= {(trip.call, trip.attempt) for trip in stop.trips}
        return [trip for trip in self._trips.values() if (trip.call, trip.attempt) in calls]

    def _not_handed_over(self, stop: _Found) -> Iterator[Withheld]:
        """What calls that the stop cut have said and no counted connection was handed.

        Nothing is claimed where somebody may have had it all the same: clients left out, still behind, or who had read
        elsewhere up to where they joined; and whoever fetched it.
        """
        tellings = stop.tellings.values()
        clients = [one for told in tellings for one in told.clients]
        if not tellings or any(told.left_out or told.fetched for told in tellings):
            return
        if any(one.after or (one.seq < told.settled and one.left is None) for told in tellings for one in told.clients):
            return
        tries = {(one.call, one.attempt) for one in stop.streams.values()}
        for key in self._texts.of_calls(call for call, _ in tries):
            spans = [span for one in clients for span in one.spans if key_of(span) == key]
            unsure = any(one.left_out and key not in map(key_of, one.spans) for one in clients)
            if key[:2] not in tries or unsure:
                continue
            text = self._texts.text(key)
            for start, end in gaps(len(text), [(span.start, span.end) for span in spans]):
                yield _withheld(key, start, text[start:end])


class _Handed:
    """What the clients of one stop were handed: each text is put together once, and each span of it hashed once."""

    def __init__(self, texts: SaidTexts) -> None:
        self._texts = texts
        self._whole: dict[TextKey, str] = {}
        self._received: dict[Span, Received] = {}

    def received(self, span: Span) -> Received:
        known = self._received.get(span)
        if known is None:
            text = self._text(key_of(span))[span.start : span.end]
            known = self._received[span] = Received(
                call=span.call,
                attempt=span.attempt,
                take=span.take,
                channel=span.channel,
                start=span.start,
                characters=span.end - span.start,
                recorded=len(text),
                digest=sha256(text.encode()).hexdigest(),
            )
        return known

    def texts(self, clients: Iterable[ClientReach]) -> tuple[Handed, ...]:
        """Every character that one of them had, once."""
        ranges: dict[TextKey, list[Range]] = {}
        for span in dict.fromkeys(span for one in clients for span in one.spans):
            ranges.setdefault(key_of(span), []).append((span.start, span.end))
        return tuple(
            Handed(call=call, attempt=attempt, take=take, channel=channel, start=start, text=text)
            for (call, attempt, take, channel), found in ranges.items()
            for start, end in merged(found)
            if (text := self._text((call, attempt, take, channel))[start:end])
        )

    def _text(self, key: TextKey) -> str:
        if key not in self._whole:
            self._whole[key] = self._texts.text(key)
        return self._whole[key]


def _reached(told: ev.ClientsReached, one: ClientReach, handed: _Handed) -> Reached:
    return Reached(
        server=told.server,
        client=one.client,
        by=one.by,
        by_token=one.by_token,
        way=one.way,
        program=one.program,
        since=one.since,
        after=one.after,
        seq=one.seq,
        behind=one.seq < told.settled,
        last_byte=one.last_byte,
        after_accepted=one.after_accepted,
        at_least=one.at_least,
        left=one.left,
        texts=tuple(map(handed.received, one.spans)),
        left_out=one.left_out,
    )


def _withheld(key: TextKey, start: int, text: str) -> Withheld:
    call, attempt, take, channel = key
    return Withheld(
        call=call,
        attempt=attempt,
        take=take,
        channel=channel,
        start=start,
        characters=len(text),
        digest=sha256(text.encode()).hexdigest(),
        why="not_handed_over",
    )


def _kept_in(trips: Iterable[ev.TripwireTripped]) -> Iterator[Withheld]:
    for trip in trips:
        held = list(trip.held_beside)
        if trip.held_back:
            start = trip.start if trip.held_from is None else trip.held_from
            held.insert(0, HeldBack(trip.channel, start, trip.held_back, trip.digest))
        for one in held:
            yield Withheld(
                call=trip.call,
                attempt=trip.attempt,
                take=trip.take,
                channel=one.channel,
                start=one.start,
                characters=one.characters,
                digest=one.digest,
                why="tripwire",
            )


def _moment(event: Asking | ev.Stamped) -> Moment:
    return Moment(event.at, event.uptime, event.boot)


def _verb(event: Asking) -> StopVerb:
    match event:
        case ev.PauseAsked():
            return "pause"
        case ev.CancelAsked():
            return "cancel"
        case ev.RunHalted():
            return "halt"
        case ev.TakenOver():
            return "take_over"
        case ev.RewindAsked():
            return "rewind"


def _stream(event: ev.StreamEnded) -> CutStream:
    return CutStream(
        call=event.call,
        tool=event.tool,
        attempt=event.attempt,
        take=event.take,
        outcome=event.outcome,
        last_byte=event.last_byte,
        characters=dict(event.characters),
    )


def _tripped(trip: ev.TripwireTripped) -> Tripped:
    return Tripped(
        call=trip.call,
        attempt=trip.attempt,
        channel=trip.channel,
        kind=trip.kind,
        variant=trip.variant,
        start=trip.start,
        end=trip.end,
        action=trip.action,
        held_back=trip.held_back,
        held_from=trip.held_from,
        digest=trip.digest,
    )
