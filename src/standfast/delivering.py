"""What becomes of mail: when it is read, why it has to wait, and what people are told about that (R19, R23)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from standfast.abc import Tx
from standfast.records import Hold, When
from standfast.rows import Frame, MailRow, RunRow
from standfast.snapshots import thoughts_in
from standfast.stack import Limits, contract_limits, held_back
from standfast.stops import asks_in_vain

_FIRST: Final[dict[Hold, str]] = {
    "asks": "what it asks is answered",
    "in_doubt": "the doubt is settled",
    "halted": "the halt is lifted",
}
"""What ends the holds that no resume ends."""
_URGENCY: Final[dict[When, int]] = {"now": 0, "next": 1, "later": 2}


def deliverable(
    mail: Sequence[MailRow], frames: Sequence[Frame], limits: Limits, before: Container[object] = ()
) -> list[MailRow]:
    """The messages that may be handled over the frame on top, the most urgent first; those read `before` stay read."""
    ready = [m for m in mail if m.always or m.id in before or not held_back(m.when, frames, limits)]
    return sorted(ready, key=lambda m: _URGENCY[m.when])


def waits_for_the_stack(tx: Tx, row: RunRow, when: When) -> str:
    """Why a message that comes now has to wait for the stack, as people see it or as its step began with it."""
    if not row.doc.frames and (when != "now" or row.status != "running"):
        return ""
    limits = limits_of(tx, row)
    why = held_back(when, row.doc.frames, limits)
    if why or when != "now":
        return why
    found = tx.snapshot(row)  # a step that is set back begins with what was on the stack then
    return held_back(when, thoughts_in(found[1]).frames, limits) if found is not None else ""


def limits_of(tx: Tx, row: RunRow) -> Limits:
    """The limits of the run's agent, whether or not its code is here."""
    return contract_limits(tx.contract(row.doc.contract))


def disposition(row: RunRow, mail: MailRow, waits: str) -> str:
    """What will happen to a piece of pending mail, and why not sooner."""
    if row.doc.taken is not None:
        return "; then ".join(filter(None, ["read when the run is handed back", waits]))
    if row.status == "paused":
        return "; then ".join(filter(None, [_read_when(row, wakes=not waits), waits]))
    if row.status == "queued":
        when = "goes on" if row.fence else "starts"
        return "; then ".join(filter(None, [f"read when the run {when}", waits]))
    if waits:
        return waits
    if mail.when == "now":
        writes = [c.tool for c in row.in_flight if c.effect in ("write", "irreversible")]
        return f"waiting for {', '.join(writes)}" if writes else "now"
    return "after this step"


def _read_when(row: RunRow, *, wakes: bool) -> str:
    """What must come first, for a run that is paused; a run that only waits for mail is woken by it."""
    holds = [name for name in row.doc.holds if not (wakes and name == "waiting")]
    if not holds:
        return "it wakes the run, which reads it next"
    first = [words for name, words in _FIRST.items() if name in holds and not (name == "asks" and asks_in_vain(row))]
    resumed = ["the run is resumed"] if len(first) < len(holds) else []
    return f"read when {' and '.join([*first, *resumed])}"
