"""What was said in a run, read from its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from standfast import events as ev
from standfast.abc import Tx
from standfast.guarding import Action, TripKind
from standfast.records import Channel
from standfast.rows import RunRow, Withheld


@dataclass(frozen=True, slots=True)
class Trip:
    """Where a call gave its instructions away; `withheld` is what a tripwire kept in, for whoever reads the store."""

    channel: Channel
    kind: TripKind
    variant: str
    start: int
    end: int
    action: Action
    held_back: int = 0
    withheld: str = ""


@dataclass(frozen=True, slots=True)
class Said:
    """What one try of a call said; `partial` if it was cut, failed, or has not ended. A reply's call is "reply".

    `marks`: after so many characters somebody stopped the run because this looked suspicious.
    """

    call: str
    text: str
    partial: bool
    reasoning: str = ""
    tool: str = ""
    attempt: int = 0
    marks: tuple[int, ...] = ()
    trips: tuple[Trip, ...] = ()
    take: int = 0  # how often the call had begun anew in this attempt


@dataclass(slots=True)
class _Try:
    call: str
    attempt: int
    take: int = 0
    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    partial: bool = True
    trips: dict[tuple[Channel, int], Trip] = field(default_factory=dict[tuple[Channel, int], "Trip"])


class Transcript:
    """What was said, from a run's events one by one, in order."""

    def __init__(self, withheld: Sequence[Withheld] = ()) -> None:
        self._withheld = withheld
        self._tries: list[_Try] = []
        self._last: dict[str, _Try] = {}
        self._tools: dict[str, str] = {}
        self._whole: set[str] = set()
        self._marks: list[ev.OutputSuspected] = []

    def take(self, event: ev.Event) -> None:
        """The next event."""
        if isinstance(event, ev.CallStarted):
            self._tools[event.call] = event.tool
        elif isinstance(event, ev.TextFlushed):
            _add(event, self._tries, self._last)
        elif isinstance(event, ev.TripwireTripped):
            _mark(event, self._withheld, self._tries, self._last)
        elif isinstance(event, ev.CallFinished):
            self._whole.add(event.call)
        elif isinstance(event, ev.OutputSuspected):
            self._marks.append(event)
        elif isinstance(event, ev.Replied):
            text = "\n".join([event.text, *event.lines])
            self._tries.append(_Try("reply", event.attempt, text=[text], partial=False))

    def said(self) -> list[Said]:
        """Everything so far."""
        for call in self._whole & self._last.keys():  # the text of one commit stands behind the end of its call
            self._last[call].partial = False
        # Nothing is said anew after a cancel: it is the last try; its last words stand behind the mark.
        marks: dict[int, list[int]] = {}
        for mark in self._marks:
            if mark.call in self._last:
                marks.setdefault(id(self._last[mark.call]), []).append(mark.offset)
        return [
            Said(
                *(t.call, "".join(t.text), t.partial, "".join(t.reasoning), self._tools.get(t.call, ""), t.attempt),
                tuple(marks.get(id(t), ())),
                tuple(t.trips.values()),
                t.take,
            )
            for t in self._tries
        ]


def transcript_of(tx: Tx, row: RunRow) -> list[Said]:
    """Everything that calls of the run have said, in order."""
    found = Transcript(row.doc.withheld)
    after = 0
    while rows := tx.record(row.n, after):
        for seq, events in rows:
            after = seq
            for event in events:
                found.take(event)
    return found.said()


def for_clients(said: list[Said]) -> list[Said]:
    """The same without what a tripwire has kept in."""
    return [replace(one, trips=tuple(replace(mark, withheld="") for mark in one.trips)) for one in said]


def _mark(event: ev.TripwireTripped, withheld: Sequence[Withheld], tries: list[_Try], last: dict[str, _Try]) -> None:
    known = last.get(event.call)
    place = (event.attempt, event.take)
    if known is None or (known.attempt, known.take) != place:  # it has said nothing that a transcript shows
        known = last[event.call] = _Try(event.call, *place)
        tries.append(known)
    where = (event.call, event.attempt, event.channel, event.start)
    kept = "".join(w.text for w in withheld if (w.call, w.attempt, w.channel, w.start) == where)
    known.trips[event.channel, event.start] = Trip(
        *(event.channel, event.kind, event.variant, event.start, event.end, event.action, event.held_back, kept)
    )


def _add(event: ev.TextFlushed, tries: list[_Try], last: dict[str, _Try]) -> None:
    """Offset 0 begins a new try, unless this try has only said something on another channel so far."""
    if event.channel == "tool_call":
        return
    known = last.get(event.call)
    said = [] if known is None else known.text if event.channel == "text" else known.reasoning
    place = (event.attempt, event.take)
    if known is None or (known.attempt, known.take) != place or (not event.offset and said):
        known = last[event.call] = _Try(event.call, *place)
        tries.append(known)
    (known.text if event.channel == "text" else known.reasoning).append(event.text)
