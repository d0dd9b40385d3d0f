"""Pause, resume, and one step at a time."""

from __future__ import annotations

from dataclasses import replace

from standfast import arguments
from standfast import events as ev
from standfast.abc import Tx
from standfast.control import Act, Ask, from_above, load, saved, stop_by, worth_noting
from standfast.events import Event
from standfast.records import Accepted, Answer, Budget, CallRef, Choice, Refused
from standfast.resuming import resume as resume_run
from standfast.rows import Resume, RunRow
from standfast.stops import enter, hold
from standfast.ways import token_of


def pause(tx: Tx, row: RunRow, ask: Ask) -> Answer:
    """The gate closes at this commit, for live descendants too."""
    if _is_held(row) and (row.doc.target is None if row.status == "pausing" else not worth_noting(row, ask)):
        below = pause_children(tx, row, ask)
        return Accepted(tx.now, row.seq, (*row.named_in_flight, *below), note=f"it is {row.status} already")
    in_flight = _pause_one(tx, row, ask)
    return Accepted(tx.now, row.seq, tuple(in_flight))


def _is_held(row: RunRow) -> bool:
    """Does a person's pause of the run itself hold it, with nothing that would end it?"""
    held = row.doc.holds.get("user")
    stopped = row.status in ("pausing", "paused") and held is not None and held.data is None
    return stopped and row.doc.resume_noted is None and (row.doc.target is None or row.doc.target.then == "paused")


def _pause_one(tx: Tx, row: RunRow, ask: Ask, held_by: str = "") -> list[CallRef]:
    """The user hold's data names the parent that it came with; what a person put on the run itself stays theirs."""
    in_flight = row.named_in_flight
    if held_by and "user" in row.doc.holds and row.doc.resume_noted is None:
        return in_flight + pause_children(tx, row, ask)
    row.doc.resume_noted = None
    person = row.doc.person
    if person is not None:  # it holds what a person performs too, whatever held the run before that
        person.decided = False
        person.kept = [name for name in person.kept if name != "user"]
    hold(row, "user", tx.now, ask.reason or (f"paused with {held_by}" if held_by else ""), held_by or None)
    close_gate(tx, row, ask, ev.PauseAsked)
    return in_flight + pause_children(tx, row, ask)


def close_gate(tx: Tx, row: RunRow, ask: Ask, asked: type[ev.PauseAsked | ev.TakenOver]) -> None:
    """Nothing further begins; what stands in the run's way is noted before."""
    in_flight = row.named_in_flight
    if row.doc.target is not None:
        row.doc.target.then = "paused"
    if row.status == "queued":
        row.doc.stop = stop_by("pause", tx, ask, [])
        enter(row, "paused", tx.now)
    elif row.status == "running":
        row.doc.stop = stop_by("pause", tx, ask, in_flight)
        enter(row, "pausing", tx.now)
    event = asked(
        by=ask.by,
        reason=ask.reason,
        trigger=ask.trigger,
        asked=ask.since,
        in_flight=in_flight,
        status=row.status,
    )
    saved(tx, row, [event])


def pause_children(tx: Tx, row: RunRow, ask: Ask) -> list[CallRef]:
    """Pause what lives below a run, with it; gives their calls in flight."""
    in_flight: list[CallRef] = []
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        if child_row.status != "cancelling":
            in_flight += _pause_one(tx, child_row, from_above(ask), row.id)
    return in_flight


def resume(note: str | None, accept_stale: bool, budget: Budget | None) -> Act:
    """Go on where the run was held."""
    arguments.text_or_none("note", note)
    arguments.flag("accept_stale", accept_stale)

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        wanted = replace(resume_by(tx, ask.by, ask.reason, note), accept_stale=accept_stale, budget=budget)
        if row.status in ("queued", "running"):
            return Accepted(tx.now, row.seq, note="it is not paused")
        if row.status == "pausing" and "halted" in row.doc.holds:
            return halted(row)
        if row.status == "pausing":
            _note_resume(tx, row, wanted)
            return Accepted(tx.now, row.seq, tuple(row.named_in_flight), note="taken when the pause has settled")
        return _resume_one(tx, row, wanted)

    return act


def resume_by(tx: Tx, by: str | None, reason: str, note: str | None = None) -> Resume:
    """A plain resume by whoever asks for this transaction; it may have to wait."""
    return Resume(by, reason, note, False, None, str(tx.route), token_of(tx.route))


def halted(row: RunRow) -> Refused:
    """What a verb that would set a halted run in motion gets."""
    choices = (Choice("cancel", {}, "cancel the run"),)
    return Refused(f"the run is held by halted: {row.doc.holds['halted'].text}", choices)


def _resume_one(tx: Tx, row: RunRow, wanted: Resume) -> Answer:
    answer, events = resume_with_children(tx, row, wanted)
    if not isinstance(answer, Accepted):
        return answer
    saved(tx, row, events)
    return Accepted(tx.now, row.seq)


def resume_with_children(tx: Tx, row: RunRow, wanted: Resume) -> tuple[Answer, list[Event]]:
    """Queue a paused run, and the children that were paused with it; a budget is the run's own."""
    answer, events = resume_run(tx, row, wanted)
    if not isinstance(answer, Accepted):
        return answer, events
    for child in tx.children(row.id, live=True):
        _lift(tx, load(tx, child), row.id, replace(wanted, budget=None))
    return answer, events


def _lift(tx: Tx, row: RunRow, parent: str, wanted: Resume) -> None:
    """Take back what the parent's pause did to a child: other holds of it stay, and so does a pause of its own."""
    held = row.doc.holds.get("user")
    if row.status not in ("paused", "pausing") or held is None or held.data != parent:
        return
    if len(row.doc.holds) > 1:
        del row.doc.holds["user"]
        text = f"the pause of {parent} holds it no longer"
        saved(tx, row, [noted_resume(wanted, text)])
        for child in tx.children(row.id, live=True):
            _lift(tx, load(tx, child), row.id, wanted)
    elif row.status == "paused":
        _resume_one(tx, row, wanted)
    else:
        _note_resume(tx, row, wanted)


def _note_resume(tx: Tx, row: RunRow, wanted: Resume) -> None:
    row.doc.resume_noted = wanted
    saved(tx, row, [noted_resume(wanted, "taken when the pause has settled")])


def noted_resume(wanted: Resume, text: str) -> ev.VerbNoted:
    """What has become of a resume, in the name of whoever asked for it."""
    route, by_token = wanted.route, wanted.by_token
    return ev.VerbNoted(verb="resume", by=wanted.by, reason=wanted.reason, text=text, route=route, by_token=by_token)


def step_once(tx: Tx, row: RunRow, ask: Ask) -> Answer:
    """Go on for one step, then pause again."""
    row.doc.step_once = True
    return _resume_one(tx, row, resume_by(tx, ask.by, ask.reason))
