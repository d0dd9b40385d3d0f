"""Questions and decisions that a step no longer asks for."""

from __future__ import annotations

from collections.abc import Container

from standfast import events as ev
from standfast.abc import Tx
from standfast.events import Event
from standfast.rows import RunRow


def withdraw(tx: Tx, run: RunRow, wanted: Container[str], person: str = "") -> list[Event]:
    """Questions that the step no longer asks need no answer; what a person's call asks is another matter."""
    events: list[Event] = []
    for call in tx.open_calls(run.n):
        if call.status == "asking" and call.id not in wanted and call.person == person:
            call.status = "withdrawn"
            tx.update_call(call)
            events.append(ev.Answered(call=call.id, answer="withdrawn", by=None, reason="the step no longer asks this"))
    if events:
        run.wake_at = wake_at(tx, run)
    return events


def wake_at(tx: Tx, row: RunRow) -> float | None:
    """When somebody must look at this run again although nothing happens."""
    times = [c.wake_at for c in tx.open_calls(row.n) if c.status == "asking" and c.wake_at is not None]
    if row.doc.deadline is not None:
        times.append(row.doc.deadline)
    return min(times, default=None)


def void_decisions(tx: Tx, run: RunRow, asked: Container[str]) -> list[Event]:
    """What a person said about calls of this step counts no longer if it did not ask for them; they are told."""
    events: list[Event] = []
    for call in tx.calls_of_step(run.n, run.epoch, run.step):
        if call.status in ("approved", "denied") and call.id not in asked and not call.person:
            why = f"it was {call.status}, but the step no longer asks for it: it was not performed"
            call.status, call.error = "withdrawn", None
            tx.update_call(call)
            events.append(ev.Answered(call=call.id, answer="withdrawn", by=None, reason=why))
    return events
