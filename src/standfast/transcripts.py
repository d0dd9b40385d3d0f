"""What was said in a run, read from its record."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from standfast import events as ev
from standfast.abc import Tx
from standfast.guarding import Action, TripKind
from standfast.records import Channel
from standfast.rows import RunRow


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


@dataclass(slots=True)
class _Try:
    call: str
    attempt: int
    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    partial: bool = True
    marks: list[int] = field(default_factory=list[int])
    trips: dict[tuple[Channel, int], Trip] = field(default_factory=dict[tuple[Channel, int], "Trip"])


def transcript_of(tx: Tx, row: RunRow) -> list[Said]:
    """Everything that calls of the run have said, in order."""
    tries: list[_Try] = []
    last: dict[str, _Try] = {}
    tools: dict[str, str] = {}
    whole: set[str] = set()
    marks: list[ev.OutputSuspected] = []
    after = 0
    while rows := tx.record(row.n, after):
        for seq, events in rows:
            after = seq
            for event in events:
                if isinstance(event, ev.CallStarted):
                    tools[event.call] = event.tool
                elif isinstance(event, ev.TextFlushed):
                    _add(event, tries, last)
                elif isinstance(event, ev.TripwireTripped):
                    _mark(event, row, tries, last)
                elif isinstance(event, ev.CallFinished):
                    whole.add(event.call)
                elif isinstance(event, ev.OutputSuspected):
                    marks.append(event)
                elif isinstance(event, ev.Replied):
                    text = "\n".join([event.text, *event.lines])
                    tries.append(_Try("reply", event.attempt, [text], partial=False))
    for call in whole & last.keys():  # the text of one commit stands behind the end of its call
        last[call].partial = False
    for mark in marks:  # nothing is said anew after a cancel: it is the last try; its last words stand behind the mark
        if mark.call in last:
            last[mark.call].marks.append(mark.offset)
    return [
        Said(
            *(t.call, "".join(t.text), t.partial, "".join(t.reasoning), tools.get(t.call, ""), t.attempt),
            tuple(t.marks),
            tuple(t.trips.values()),
        )
        for t in tries
    ]


def for_clients(said: list[Said]) -> list[Said]:
    """The same without what a tripwire has kept in."""
    return [replace(one, trips=tuple(replace(mark, withheld="") for mark in one.trips)) for one in said]


def _mark(event: ev.TripwireTripped, row: RunRow, tries: list[_Try], last: dict[str, _Try]) -> None:
    known = last.get(event.call)
    if known is None or known.attempt != event.attempt:  # it has said nothing that a transcript shows
        known = last[event.call] = _Try(event.call, event.attempt)
        tries.append(known)
    where = (event.call, event.attempt, event.channel, event.start)
    kept = "".join(w.text for w in row.doc.withheld if (w.call, w.attempt, w.channel, w.start) == where)
    known.trips[event.channel, event.start] = Trip(
        *(event.channel, event.kind, event.variant, event.start, event.end, event.action, event.held_back, kept)
    )


def _add(event: ev.TextFlushed, tries: list[_Try], last: dict[str, _Try]) -> None:
    """Offset 0 begins a new try, unless this try has only said something on another channel so far."""
    if event.channel == "tool_call":
        return
    known = last.get(event.call)
    said = [] if known is None else known.text if event.channel == "text" else known.reasoning
    if known is None or known.attempt != event.attempt or (not event.offset and said):
        known = last[event.call] = _Try(event.call, event.attempt)
        tries.append(known)
    (known.text if event.channel == "text" else known.reasoning).append(event.text)
