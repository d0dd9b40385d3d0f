"""What calls say while they run: live to whoever looks, durable soon after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from standfast import events as ev
from standfast.events import TextDelta

if TYPE_CHECKING:
    from standfast.flight import Flight
    from standfast.session import Session

FLUSH_SECONDS = 0.25
FLUSH_CHARACTERS = 4096


class Voice:
    """Collects what the calls of one run say."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def say(self, flight: Flight, text: str) -> None:
        """Text of a call; a crash loses no more than a quarter of a second of it."""
        if not text or flight.ended:
            return
        self._session.env.hub.delta(
            self._session.row.id, TextDelta(flight.id, flight.said + _length(flight.unsaid), text)
        )
        flight.unsaid.append(text)
        if _length(flight.unsaid) >= FLUSH_CHARACTERS:
            self.flush(flight)
        elif flight.flush_timer is None:
            flight.flush_timer = self._session.env.loop.call_later(FLUSH_SECONDS, self.flush, flight)

    def flush(self, flight: Flight) -> None:
        """Write what was said since the last flush."""
        if flight.flush_timer is not None:
            flight.flush_timer.cancel()
            flight.flush_timer = None
        if flight.unsaid:
            text = "".join(flight.unsaid)
            event = ev.TextFlushed(call=flight.id, offset=flight.said, text=text, attempt=flight.attempt)
            flight.said += len(text)
            flight.unsaid.clear()
            self._session.note(event)

    def progress(self, flight: Flight, fraction: float, text: str) -> None:
        """How far a call is."""
        if not flight.ended:
            self._session.note(ev.CallProgress(call=flight.id, fraction=fraction, text=text))


def _length(parts: list[str]) -> int:
    return sum(map(len, parts))
