"""The end of a pause or a rewind: what was asked for while it was under way is done now."""

from __future__ import annotations

from standfast import events as ev
from standfast.abc import Tx
from standfast.control import Ask, everybody_is_dead
from standfast.events import Event
from standfast.rows import Resume, RunDoc, RunRow
from standfast.stops import enter, free_for_person, hold, put_in_doubt, receipt, settle_rewind
from standfast.verbs import begin_rewind, noted_resume, resume_with_children
from standfast.ways import way_back


def settle(tx: Tx, row: RunRow) -> tuple[list[Event], bytes | None]:
    """The end of what a pausing run was doing: it is paused, queued, or on its way to an earlier step."""
    noted, row.doc.rewind_noted = row.doc.rewind_noted, None
    if noted is not None:
        events: list[Event] = []
        way = way_back(noted.route, noted.by_token)
        ask = Ask(by=noted.by, reason=noted.reason, trigger=noted.trigger, way=way)
        state = begin_rewind(tx, row, ask, noted, events, everybody_is_dead, [])
    elif row.doc.target is not None:
        events, state = settle_rewind(tx, row)
    else:
        return settle_pause(tx, row), None
    if row.doc.target is None:
        events += _resume_after_rewind(tx, row)
    return events, state


def _resume_after_rewind(tx: Tx, row: RunRow) -> list[Event]:
    """Not over an error: whoever asked for the resume had not seen what could not be undone."""
    noted, row.doc.resume_noted = row.doc.resume_noted, None
    if noted is None or row.status != "paused":
        return []
    if "error" in row.doc.holds:
        text = "not taken: an error holds the run"
        return [noted_resume(noted, text)]
    return _take_resume(tx, row, noted)


def _take_resume(tx: Tx, row: RunRow, noted: Resume) -> list[Event]:
    """A resume that was asked for before a halt came is taken when that is lifted."""
    if "halted" in row.doc.holds:
        row.doc.resume_noted = noted
        return []
    return resume_with_children(tx, row, noted)[1]


def _why_queued(doc: RunDoc) -> str:
    """What a person performs goes on although the agent is held."""
    if doc.holds and doc.person is not None:
        return f"what {doc.person.tool} waited for is settled"
    return "nothing holds it any more"


def settle_pause(tx: Tx, row: RunRow) -> list[Event]:
    """The last transition of a pause: nothing of the run is running but what is named."""
    doc = row.doc
    # None, unless a commit of ours failed.
    lost = [event for ref in row.in_flight for event in put_in_doubt(tx, row, ref, "its end could not be recorded")]
    if lost:
        hold(row, "in_doubt", tx.now, "it is not known whether a call happened")
    if doc.stop is not None:
        doc.receipt = receipt(tx, row, "paused")
    noted, doc.resume_noted = doc.resume_noted, None
    decided = doc.person is not None and doc.person.decided and free_for_person(row)
    if doc.person is not None:
        doc.person.decided = False
    if not doc.holds or decided:
        enter(row, "queued", tx.now)
        return [*lost, ev.RunQueued(why=_why_queued(doc), holds=list(doc.holds))]
    enter(row, "paused", tx.now)
    residue = [r.what for r in doc.stop.residue] if doc.stop else []
    out: list[Event] = [
        *lost,
        ev.RunPaused(
            holds=list(doc.holds), text="; ".join(h.text for h in doc.holds.values() if h.text), residue=residue
        ),
    ]
    if noted is not None:
        out += _take_resume(tx, row, noted)
    return out
