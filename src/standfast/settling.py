"""The end of a pause: what was asked for while it was under way is done now."""

from __future__ import annotations

from standfast import events as ev
from standfast.abc import Tx
from standfast.events import Event
from standfast.rows import RunRow
from standfast.stops import enter, receipt
from standfast.verbs import resume_with_children


def settle_pause(tx: Tx, row: RunRow) -> list[Event]:
    """The last transition of a pause: nothing of the run is running but what is named."""
    doc = row.doc
    if doc.stop is not None:
        doc.receipt = receipt(tx, row, "paused")
    noted, doc.resume_noted = doc.resume_noted, None
    if not doc.holds:
        enter(row, "queued", tx.now)
        return [ev.RunQueued(why="nothing holds it any more")]
    enter(row, "paused", tx.now)
    residue = [r.what for r in doc.stop.residue] if doc.stop else []
    out: list[Event] = [
        ev.RunPaused(
            holds=list(doc.holds), text="; ".join(h.text for h in doc.holds.values() if h.text), residue=residue
        )
    ]
    if noted is not None:
        out += resume_with_children(tx, row, noted)[1]
    return out
