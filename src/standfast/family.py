"""Budgets of runs and their children: what a live child has spent counts for every ancestor at once (R17)."""

from __future__ import annotations

from pydantic import JsonValue

from standfast import budget as budgets
from standfast import events as ev
from standfast.abc import Tx
from standfast.control import Ask, nobody_is_dead, saved
from standfast.records import Hold, Moment, Spent, Trigger
from standfast.rows import RunRow, Stop
from standfast.spending import family_spent
from standfast.stops import enter, hold
from standfast.verbs import cancel_one, pause_children

Over = tuple[str, str]  # the run whose cap is used up, and which cap, in words


def over_cap(tx: Tx, row: RunRow, spent: Spent) -> Over | None:
    """The nearest run from this one upwards whose budget leaves no room, given what this one has spent by now."""
    known = {row.id: spent}
    one: RunRow | None = row
    while one is not None:
        over = budgets.exhausted(one.doc.budget, family_spent(tx, one, known))
        if over:
            return one.id, over
        one = tx.run(one.parent) if one.parent is not None else None
    return None


def hold_at_cap(tx: Tx, id: str, name: Hold, text: str, asked: Moment) -> None:  # noqa: A002
    """Pause the run whose cap is used up, with everything below it; or cancel it, if its budget says so."""
    row = tx.run(id)
    cancel = row is not None and row.doc.budget.then == "cancel"
    stop_family(tx, row, name, text, asked, cancel=cancel, trigger="budget")


def stop_family(
    tx: Tx,
    row: RunRow | None,
    name: Hold,
    text: str,
    asked: Moment,
    *,
    cancel: bool,
    trigger: Trigger,
    data: JsonValue = None,
) -> None:
    """Pause a run for what it did, with everything below it; or cancel it. `asked` is when that was found."""
    if row is None or row.status not in ("queued", "running", "pausing", "paused"):
        return
    by = trigger if trigger == "tripwire" else None  # a trip is recorded under its own name
    ask = Ask(by=by, reason=f"{name}: {text}", at=asked.at, since=asked, trigger=trigger)
    if cancel:
        cancel_one(tx, row, ask, "step", soft=False, is_dead=nobody_is_dead)
        return
    in_flight = row.named_in_flight
    hold(row, name, tx.now, text, data)
    if row.status in ("queued", "running"):
        row.doc.stop = Stop("pause", asked.at, tx.now, reason=text, trigger=trigger, in_flight=in_flight)
        enter(row, "pausing" if row.status == "running" else "paused", tx.now)
    saved(
        tx,
        row,
        [
            ev.PauseAsked(
                by=by,
                reason=ask.reason,
                trigger=ask.trigger,
                asked=asked,
                in_flight=in_flight,
                status=row.status,
            )
        ],
    )
    pause_children(tx, row, ask)
