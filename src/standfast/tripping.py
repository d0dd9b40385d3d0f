"""What a trip does to its run: it is told without its words, what was held back is kept, the stream is closed (R33).

The event and what was held back are in one commit; the hold follows in one of its own. A crash between the two takes
the step again, and the model's words are watched again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from standfast import events as ev
from standfast.guarding import Action, Trip, Watch
from standfast.records import Channel, HeldBack
from standfast.rows import RunDoc, Withheld

if TYPE_CHECKING:
    from standfast.flight import Flight
    from standfast.session import Session

MOST_KEPT = 4096  # characters of what was held back; the event counts all of them
_WHERE = {"text": "answer", "reasoning": "reasoning", "tool_call": "arguments for a tool"}


def must_end(session: Session, flight: Flight, trips: Sequence[Trip]) -> bool:
    """Is one of them the last thing that is heard of the call?"""
    return _action(session, flight) != "flag" and any(trip.open for trip in trips)


def note_trips(
    session: Session, flight: Flight, watch: Watch, trips: Sequence[Trip], said: Mapping[Channel, int]
) -> None:
    """Record trips, and ask for the stop that one of them means; `said`: where on each channel holding back began."""
    action = _action(session, flight)
    for trip in trips:
        ending = action != "flag" and trip.open
        texts = dict(watch.held()) if ending else {}
        mine = texts.get(trip.channel, "")
        session.note(
            ev.TripwireTripped(
                call=flight.id,
                channel=trip.channel,
                kind=trip.kind,
                variant=trip.variant,
                start=trip.start,
                end=trip.end,
                action=action,
                open=trip.open and not ending,
                held_back=len(mine),
                held_from=said.get(trip.channel, 0) if mine else None,
                digest=_digest(mine) if mine else "",
                held_beside=[
                    HeldBack(channel, said.get(channel, 0), len(text), _digest(text))
                    for channel, text in texts.items()
                    if channel != trip.channel
                ],
                attempt=flight.attempt,
                take=flight.take,
            )
        )
        if ending:
            for channel, text in texts.items():
                start = trip.start if channel == trip.channel else said.get(channel, 0)
                kept = Withheld(flight.id, flight.attempt, channel, start, text[:MOST_KEPT])
                session.change(_keeping(kept))
            total = sum(map(len, texts.values()))
            session.ask_stop("tripwire", _words(flight, trip, total), [action, flight.id])
            return


def note_excused(session: Session, flight: Flight, watch: Watch) -> None:
    """Say what was let pass, and why."""
    for why, hits in watch.excused().items():
        session.note(ev.TripwireExcused(call=flight.id, why=why, hits=hits, attempt=flight.attempt))


def close_at_once(session: Session, flight: Flight) -> None:
    """End the call before another character of it is read: what its body makes of that is no result."""
    if session.attempt is not None:
        session.attempt.broken = session.attempt.stopping = True
    flight.spoiled = True
    here = flight.task is not None and asyncio.current_task() is flight.task
    flight.cut(asked=here)
    if here:
        raise asyncio.CancelledError("a tripwire has closed the stream")


def _action(session: Session, flight: Flight) -> Action:
    guard = flight.call.guard
    assert guard is not None
    return "flag" if flight.id in session.row.doc.tripwire_ok else guard.action


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _keeping(kept: Withheld) -> Callable[[RunDoc], None]:
    def change(doc: RunDoc) -> None:
        doc.withheld = [*doc.withheld, kept]

    return change


def _words(flight: Flight, trip: Trip, held: int) -> str:
    what = "a canary from its instructions" if trip.kind == "canary" else "its instructions"
    form = "" if trip.variant == "plain" else f" ({trip.variant})"
    back = f"{held} characters were held back" if held else "nothing was held back"
    return (
        f"the model's {_WHERE[trip.channel]} gave away {what}{form}: characters {trip.start} to {trip.end} of "
        f"{flight.call.tool.name}; the stream was closed, {back}"
    )
