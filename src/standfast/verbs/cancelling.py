"""Cancel, phase one; a driver carries out phase two (endings.py)."""

from __future__ import annotations

from standfast import arguments
from standfast import events as ev
from standfast.abc import Tx
from standfast.bodies import marks
from standfast.control import Act, Ask, IsDead, from_above, load, saved, stop_by, worth_noting
from standfast.errors import Misuse
from standfast.events import Event
from standfast.records import Accepted, Answer, CallRef, Mark, Undo
from standfast.rows import RunRow
from standfast.stops import abandon_rewind, enter, finish_cancel, last_words, mark_undo, pending_undos, return_mail

MOST_MARKS = 50  # of one cancel


def cancel(undo: Undo, soft: bool, is_dead: IsDead, suspicious: bool | Mark = False) -> Act:
    """Phase one: nothing new is admitted from here on, and what is in flight is named.

    `suspicious` marks what was being said: at the place that is given, else where the record ends.
    """
    if undo not in ("step", "all", "none"):
        raise Misuse(f"undo={undo!r} is unknown", hint='use "step", "all" or "none"')
    arguments.flag("soft", soft)
    if isinstance(suspicious, Mark):
        arguments.text("the mark's call", suspicious.call)
        if arguments.whole("the mark's offset", suspicious.offset) < 0:
            raise Misuse(f"offset {suspicious.offset} is before the text", hint="count characters from 0")
    else:
        arguments.flag("suspicious", suspicious)

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        if row.status == "cancelling":
            return cancel_again(tx, row, ask, undo, soft, _suspected(tx, row, ask, suspicious))
        in_flight = cancel_one(
            tx, row, ask, undo, soft=soft, is_dead=is_dead, suspected=_suspected(tx, row, ask, suspicious)
        )
        return Accepted(tx.now, row.seq, tuple(in_flight))

    return act


def _suspected(tx: Tx, row: RunRow, ask: Ask, suspicious: bool | Mark) -> ev.OutputSuspected | None:
    """Where the output is suspicious; if no place is given: in the call that spoke last, as far as it is recorded."""
    if suspicious is False:
        return None
    mark = suspicious if isinstance(suspicious, Mark) else last_words(tx, row)
    event = ev.OutputSuspected(by=ask.by, reason=ask.reason, trigger=ask.trigger)
    if mark is not None:
        event.call, event.offset = mark.call, mark.offset
    return event


def _marks(suspected: ev.OutputSuspected | None) -> list[Mark]:
    return [] if suspected is None or suspected.call is None else [Mark(suspected.call, suspected.offset)]


def cancel_again(
    tx: Tx, row: RunRow, ask: Ask, undo: Undo, soft: bool, suspected: ev.OutputSuspected | None = None
) -> Answer:
    """A cancel of a run that is being cancelled: what was soft may become hard, nothing else changes."""
    stop = row.doc.stop
    assert stop is not None
    note = "" if undo == stop.undo else f"undo stays {stop.undo!r}, as first asked"
    hardens = stop.soft and not soft
    if hardens:
        stop.soft = False
        note = "; ".join(filter(None, [note, "the soft cancel is hard now"]))
    marks = [mark for mark in _marks(suspected) if mark not in stop.marks]
    if marks and len(stop.marks) >= MOST_MARKS:
        suspected, marks = None, []
        note = "; ".join(filter(None, [note, f"{MOST_MARKS} places are marked, this one is not"]))
    if worth_noting(row, ask) or hardens or marks:
        stop.marks += marks
        noted = ev.VerbNoted(verb="cancel", by=ask.by, reason=ask.reason, text=note)
        saved(tx, row, [noted] if suspected is None else [noted, suspected])
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        if child_row.status == "cancelling":
            cancel_again(tx, child_row, ask, undo, soft)
    return Accepted(tx.now, row.seq, tuple(row.named_in_flight), note=note)


def cancel_one(
    tx: Tx,
    row: RunRow,
    ask: Ask,
    undo: Undo,
    *,
    soft: bool,
    is_dead: IsDead,
    suspected: ev.OutputSuspected | None = None,
) -> list[CallRef]:
    """Cancel a run and its live descendants in one transaction."""
    in_flight = row.named_in_flight
    named = list(in_flight)
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        if child_row.status != "cancelling":
            named += cancel_one(tx, child_row, from_above(ask), undo, soft=soft, is_dead=is_dead)
    old = row.doc.stop
    row.doc.stop = stop_by("cancel", tx, ask, named, undo, soft=soft)
    row.doc.stop.marks = _marks(suspected)
    if old is not None and row.doc.target is not None:
        row.doc.stop.residue = old.residue
    if row.doc.target is not None:
        abandon_rewind(tx, row)
    row.doc.resume_noted = None
    held = row.status in ("running", "pausing") and row.holder is not None and not is_dead(tx, row.holder)
    marked = [] if soft and held else mark_undo(tx, row, undo)
    withdraw_questions(tx, row)
    events: list[Event] = [
        *return_mail(tx, row, "cancelled"),
        ev.CancelAsked(
            by=ask.by,
            reason=ask.reason,
            trigger=ask.trigger,
            asked=ask.since,
            undo=undo,
            soft=soft,
            suspicious=suspected is not None,
            in_flight=named,
            status="cancelling",
        ),
    ]
    if suspected is not None:
        events.append(suspected)
    row.doc.holds.clear()
    row.wake_at = None
    enter(row, "cancelling", tx.now)
    open_calls = any(c.status in ("in_doubt", "check") for c in tx.open_calls(row.n))
    live = held or row.in_flight or open_calls or tx.children(row.id, live=True) or _programs_run(row)
    if not live and not any(c.undo == "pending" for c in marked) and not pending_undos(tx, row):
        events += finish_cancel(tx, row)
    saved(tx, row, events)
    return named


def _programs_run(row: RunRow) -> bool:
    """Programs are ended by a driver. A dead one may have noted some that have ended long since."""
    if not row.doc.programs:
        return False
    mine = marks.run_mark(row.id, row.doc.salt)
    try:
        return bool(marks.carriers(lambda mark: marks.is_of_run(mark, mine) and not marks.is_beside(mark)))
    except OSError:
        return True  # nobody can look now


def withdraw_questions(tx: Tx, row: RunRow) -> None:
    for call in tx.open_calls(row.n):
        if call.status == "asking":
            call.status = "withdrawn"
            tx.update_call(call)
