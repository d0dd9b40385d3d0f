"""Claim and takeover: how a driver comes to hold a run, alone (R11)."""

from __future__ import annotations

from collections.abc import Container
from typing import Literal

from standfast import events as ev
from standfast.abc import Tx
from standfast.events import Event
from standfast.halts import halt_run, holding
from standfast.leases import Others
from standfast.records import InFlight
from standfast.rows import RunRow
from standfast.stops import enter, forget_the_dead, put_in_doubt


def claim(
    tx: Tx,
    id: str,  # noqa: A002
    driver: str,
    agents: Container[str],
    others: Others,
    running: Container[str] = (),
) -> RunRow | None:
    """Take a queued run, or one whose holder is gone; None if it is not to be had, or halted.

    `running` are calls of a dead holder whose programs could not be ended.
    """
    row = tx.run(id)
    if row is None or row.agent not in agents:
        return None
    before = row.holder
    if row.status == "queued":
        if halted := halt_run(row, holding(tx, row), tx.now):
            tx.save(row, halted)
            tx.signal(row.id)
            return None
        enter(row, "running", tx.now)
        events: list[Event] = []
    elif row.status in ("running", "pausing", "cancelling"):
        mine = before == driver  # claimed by this process, but not driven: an error came between
        if before is not None and not mine and not others.gone(tx, before):
            return None
        # Nobody goes on with a halted run: its new driver settles it.
        halted = halt_run(row, holding(tx, row), tx.now) if row.status == "running" else []
        events = [*halted, *_abandoned(tx, row, running)]
    else:
        return None
    forget_the_dead(tx, row)
    row.fence += 1
    row.attempt += 1
    row.holder = driver
    claimed = ev.RunClaimed(
        driver=driver, fence=row.fence, step=row.step, attempt=row.attempt, taken_from=before, status=row.status
    )
    tx.save(row, [*events, claimed])
    return row


def _abandoned(tx: Tx, row: RunRow, running: Container[str]) -> list[Event]:
    """What was in flight when the holder went: repeatable, or in doubt."""
    events: list[Event] = []
    for ref in row.in_flight:
        outcome: Literal["aborted", "in_doubt", "still_running"] = "still_running" if ref.id in running else "aborted"
        doubt = put_in_doubt(tx, row, ref, "its driver was gone before it was recorded")
        events += doubt
        call = tx.call(row.n, ref.id)
        if doubt:
            outcome = "in_doubt"
        elif call is not None and call.status == "started":
            call.status = "cut"
            tx.update_call(call)
        if row.doc.stop is not None:
            row.doc.stop.outcomes.append(InFlight(ref, outcome))
    row.in_flight = []
    return events
