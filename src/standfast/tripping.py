"""What a trip does to its run: it is told without its words, what was held back is kept, the stream is closed (R33).

The event and what was held back are in one commit; the hold follows in one of its own. A crash between the two takes
the step again, and the model's words are watched again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from standfast import events as ev
from standfast.guarding import Action, Trip, Watch
from standfast.rows import RunDoc, Withheld

if TYPE_CHECKING:
    from standfast.flight import Flight
    from standfast.session import Session

MOST_KEPT = 4096  # characters of what was held back; the event counts all of them
_WHERE = {"text": "answer", "reasoning": "reasoning", "tool_call": "arguments for a tool"}


def note_trips(session: Session, flight: Flight, watch: Watch, trips: Sequence[Trip]) -> bool:
    """Record trips; True if the call must end here."""
    guard = flight.call.guard
    assert guard is not None
    action: Action = "flag" if flight.id in session.row.doc.tripwire_ok else guard.action
    held = "" if action == "flag" else "".join(text for _, text in watch.held())
    for trip in trips:
        ending = action != "flag" and trip.open
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
                held_back=len(held),
                digest=hashlib.sha256(held.encode()).hexdigest() if held else "",
                attempt=flight.attempt,
            )
        )
        if ending:
            session.change(_keeping(flight, trip, held[:MOST_KEPT]))
            session.ask_stop("tripwire", _words(flight, trip, len(held)), [action, flight.id])
            return True
    return False


def note_excused(session: Session, flight: Flight, watch: Watch) -> None:
    """Say what was let pass, and why."""
    for why, hits in watch.excused().items():
        session.note(ev.TripwireExcused(call=flight.id, why=why, hits=hits, attempt=flight.attempt))


def close_at_once(session: Session, flight: Flight) -> None:
    """End the call before another character of it is read: what its body makes of that is no result."""
    if session.attempt is not None:
        session.attempt.broken = True
    flight.spoiled = True
    flight.cut()
    if flight.task is not None and asyncio.current_task() is flight.task:
        raise asyncio.CancelledError("a tripwire has closed the stream")


def _keeping(flight: Flight, trip: Trip, text: str) -> Callable[[RunDoc], None]:
    def change(doc: RunDoc) -> None:
        doc.withheld = [*doc.withheld, Withheld(flight.id, flight.attempt, trip.channel, trip.start, text)]

    return change


def _words(flight: Flight, trip: Trip, held: int) -> str:
    what = "a canary from its instructions" if trip.kind == "canary" else "its instructions"
    form = "" if trip.variant == "plain" else f" ({trip.variant})"
    back = f"{held} characters were held back" if held else "nothing was held back"
    return (
        f"the model's {_WHERE[trip.channel]} gave away {what}{form}: characters {trip.start} to {trip.end} of "
        f"{flight.call.tool.name}; the stream was closed, {back}"
    )
