"""What a stop does to a run's row, whoever asks for it: one idea shared by verbs and drivers.

Every function here works inside a transaction on a row that was read in it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from typing import Literal

from pydantic import JsonValue

from standfast import events as ev
from standfast.abc import Tx
from standfast.events import Event
from standfast.leases import known_dead
from standfast.machine import may_follow
from standfast.records import ENDED, CallRef, Hold, InFlight, Mark, Receipt, Residue, Status, Undo, Undone
from standfast.rows import CallRow, HoldInfo, Left, RunDoc, RunRow, Stop
from standfast.snapshots import thoughts_in, unpack
from standfast.spending import family_spent
from standfast.stack import give_up
from standfast.unread import not_read, sent_anew
from standfast.ways import way_back

_VOID = "void"  # the data of an asks hold whose questions a redirect or an edit has overtaken


def hold(row: RunRow, name: Hold, now: float, text: str = "", data: JsonValue = None) -> None:
    """Add a hold; an older one of the same name keeps its place and time."""
    old = row.doc.holds.get(name)
    row.doc.holds[name] = HoldInfo(old.since if old else now, text, data)


def void_questions(row: RunRow) -> None:
    """The step is to be taken anew with something else: what it asked no longer stands in the way of a resume."""
    if "asks" in row.doc.holds:
        row.doc.holds["asks"].data = _VOID


def asks_in_vain(row: RunRow) -> bool:
    """Are the questions that hold the run those of a step that is to be taken anew?"""
    return "asks" in row.doc.holds and row.doc.holds["asks"].data == _VOID


def enter(row: RunRow, status: Status, now: float) -> None:
    """Change the status, and keep the times that views show."""
    assert may_follow(row.status, status), f"run {row.id} cannot become {status}: it is {row.status}"
    doc = row.doc
    if status != "paused":
        doc.asked_again = {}
    if doc.paused_at is not None and status != "paused":
        doc.paused_for += max(0.0, now - doc.paused_at)
        doc.paused_at = None
    if status == "paused" and doc.paused_at is None:
        doc.paused_at = now
        if doc.taken is None or not doc.taken.settled:
            doc.baseline = row.snapshot
            doc.changed = ""
            doc.redirected = []
        if doc.taken is not None:
            doc.taken.settled = True
    if status in ("queued", "running"):
        doc.receipt = None  # it told of a stop that is over
    if status in ("cancelled", "done", "failed"):
        doc.ended_at = now
        doc.holds.clear()
        row.wake_at = None
    row.status = status
    if status in ("queued", "paused", "cancelled", "done", "failed"):
        row.holder = None
        row.in_flight = []


def return_mail(tx: Tx, row: RunRow, reason: str) -> list[Event]:
    """Give back what nobody will read; never silently."""
    returned: list[Event] = []
    for mail in tx.pending_mail(row.n):
        mail.status, mail.reason = "returned", reason
        tx.update_mail(mail)
        returned.append(ev.MailReturned(mail=mail.id, reason=reason))
    return returned


def mark_undo(tx: Tx, row: RunRow, undo: Undo) -> list[CallRow]:
    """Write into the ledger what this end of the run has to take back, and give the rows.

    "step": the step in flight, and drafts of the run; "all": everything, children included.
    What settles="never" is taken back at every end.
    """
    marked: list[CallRow] = []
    for call in tx.ledger(row.n):
        if call.undo is not None or not may_have_happened(call):
            continue
        in_flight = call.epoch == row.epoch and call.step == row.step
        wanted = call.settles == "never" or undo == "all" or (undo == "step" and (in_flight or call.settles == "run"))
        if wanted and call.kind != "child":
            marked.append(_mark(tx, call))
    if undo == "all":
        for child in tx.children(row.id, live=False):
            child_row = tx.run(child)
            if child_row is not None:
                marked += _mark_child(tx, child_row)
    return marked


def _mark_child(tx: Tx, child: RunRow) -> list[CallRow]:
    """What is beside a record changes only with an event in it (R32): the child's record tells of it too."""
    marked = mark_undo(tx, child, "all")
    for call in marked:
        if call.run == child.n:
            tell_owner(tx, call, f"{call.tool} is to be undone with the run above")
    return marked


def tell_owner(tx: Tx, call: CallRow, text: str) -> None:
    """A note in the record of the run whose call it is, when another run works on its ledger."""
    owner = tx.run_n(call.run)
    if owner is not None and not owner.doc.forgotten:
        tx.save(owner, [ev.VerbNoted(verb="undo", by=None, text=text)])


def mark_undo_from(tx: Tx, row: RunRow, step: int) -> list[CallRow]:
    """The same for a rewind: everything from a step on."""
    marked = [
        _mark(tx, call)
        for call in tx.ledger(row.n)
        if call.undo is None and may_have_happened(call) and call.step >= step and call.kind != "child"
    ]
    for child in tx.children(row.id, live=False):
        child_row = tx.run(child)
        began = next((c.step for c in tx.calls(row.n) if child_row and c.id == child_row.doc.parent_call), -1)
        if child_row is not None and began >= step:
            marked += _mark_child(tx, child_row)
    return marked


def mark_locks(tx: Tx, row: RunRow) -> list[CallRow]:
    """The same for a run that ends by itself: what settles="never" alone."""
    return [
        _mark(tx, call)
        for call in tx.ledger(row.n)
        if call.settles == "never" and call.undo is None and may_have_happened(call)
    ]


def may_have_happened(call: CallRow) -> bool:
    """Could the effect of this call be in the world?"""
    return call.status in ("started", "finished", "failed", "in_doubt", "check", "cut")


def _mark(tx: Tx, call: CallRow) -> CallRow:
    call.undo = "pending" if call.undoable else "impossible"
    if call.undo == "impossible":
        call.undo_reason = "it declares no undo"
    tx.update_call(call)
    return call


def pending_undos(tx: Tx, row: RunRow) -> list[CallRow]:
    """Ledger rows still to be worked on, newest first, children's included."""
    rows = [c for c in tx.ledger(row.n) if c.undo == "pending"]
    for child in tx.children(row.id, live=False):
        child_row = tx.run(child)
        if child_row is not None:
            rows += pending_undos(tx, child_row)
    return sorted(rows, key=lambda c: -c.n)


def _all_ledgers(tx: Tx, row: RunRow) -> Iterable[CallRow]:
    return (call for _, call in _owned_calls(tx, row))


def _owned_calls(tx: Tx, row: RunRow) -> Iterable[tuple[str, CallRow]]:
    """The ledgers of a run and of all below it, each call with the id of its run."""
    for call in tx.ledger(row.n):
        yield row.id, call
    for child in tx.children(row.id, live=False):
        child_row = tx.run(child)
        if child_row is not None:
            yield from _owned_calls(tx, child_row)


def receipt(tx: Tx, row: RunRow, status: Status) -> Receipt:
    """What this stop did, from what is in the store."""
    rests = next((at for at in (row.doc.ended_at, row.doc.paused_at) if at is not None), tx.now)
    stop = row.doc.stop or Stop("pause", rests, rests, trigger="run")
    calls = list(_owned_calls(tx, row))
    ledger = [c for _, c in calls if c.undo is not None]
    undone = [
        Undone(replace(c.ref, run=of), "in_doubt" if c.undo == "pending" else c.undo, c.tries, c.undo_reason)
        for of, c in calls
        if c.undo is not None
    ]
    outcomes, residue = _ended_flights(tx, row, stop)
    residue += left_running(tx, row, residue)
    for entry in undone:
        if entry.outcome != "undone":
            lasting = Residue(f"{entry.call.tool} could not be undone", entry.reason or entry.outcome, entry.call)
            told = {(one.what, one.call.id) for one in residue if one.call is not None}  # by a child's receipt
            if (lasting.what, entry.call.id) not in told:
                residue.append(lasting)
    known = {c.id for c in ledger}
    for flight in outcomes:
        open_ = flight.outcome in ("in_doubt", "still_running") and flight.call.id not in known
        if open_ and not any(_names(r, flight.call) for r in residue):
            residue.append(Residue(f"{flight.call.tool}: {flight.outcome.replace('_', ' ')}", "", flight.call))
    kept = tuple(replace(c.ref, run=of) for of, c in calls if c.undo is None and c.status == "finished")
    return Receipt(
        run=row.id,
        status=status,
        asked_at=stop.asked_at,
        accepted_at=stop.accepted_at,
        settled_at=max(stop.accepted_at, rests),  # it may have stood still before; and clocks are set back
        by=stop.by,
        reason=stop.reason,
        finished_steps=row.step,
        in_flight=tuple(_with_undo_outcome(f, ledger) for f in outcomes),
        undone=tuple(undone),
        residue=tuple(residue),
        kept=kept,
        partial_output=partial_output(tx, row),
        result=stop.result,
        calls_after_cancel=stop.calls_after,
        usage=family_spent(tx, row),
        trigger=stop.trigger,
        marks=tuple(stop.marks),
        undo=stop.undo if stop.verb == "cancel" else None,
        soft=stop.soft,
        not_read=not_read(row, tx.mail(row.n), ended=status in ENDED),
        route=stop.route,
        by_token=stop.by_token,
    )


def put_in_doubt(tx: Tx, row: RunRow, ref: CallRef, why: str) -> list[Event]:
    """A write that had begun, and of which nobody knows how it ended."""
    call = tx.call(row.n, ref.id)
    if call is None or call.status != "started" or ref.effect not in ("write", "irreversible"):
        return []
    call.status, call.left_by = "in_doubt", row.holder
    tx.update_call(call)
    return [ev.CallInDoubt(call=ref.id, tool=ref.tool, why=why)]


def forget_the_dead(tx: Tx, row: RunRow) -> None:
    """What ran in processes that are dead now runs no more."""
    row.doc.left = {k: one for k, one in row.doc.left.items() if one.holder is None or not known_dead(tx, one.holder)}


def still_running(doc: RunDoc, residue: Iterable[Residue], holder: str | None, *, blocking: bool = False) -> None:
    """Remember what is left running: the stops to come must name it too."""
    for one in residue:
        doc.left[place_in_list(one)] = Left(one, holder, blocking)


def body_left(call: CallRef, where: str) -> Residue:
    """A call that goes on although it was cut."""
    return Residue(f"{call.tool} is still running", where, call)


def place_in_list(left: Residue) -> str:
    """Under which name it is remembered. A call has one body; of what that has started there may be many."""
    if left.call is not None and left.what == body_left(left.call, "").what:
        return left.call.id
    return f"{left.what}: {left.why}"


def goes_on(tx: Tx, run: int, call: CallRow, ended: Container[str]) -> bool:
    """Is this call, or anything that it has started, still running as far as is known? `ended`: it is, of these, not.

    Asked by the driver of `run` when it undoes the call; that may be another driver than the one that performed it,
    or the driver of a run above it.
    """
    rows = [row for n in dict.fromkeys((call.run, run)) if (row := tx.run_n(n)) is not None]
    return any(
        left.residue.call is not None
        and left.residue.call.id == call.id
        and place not in ended
        and (left.holder is None or not known_dead(tx, left.holder))
        for row in rows
        for place, left in row.doc.left.items()
    )


def has_ended(row: RunRow, place: str) -> bool:
    """It has ended after all; was it remembered?"""
    return row.doc.left.pop(place, None) is not None


def unblocked(row: RunRow, holder: str) -> None:
    """The event loop of that process turns again."""
    row.doc.left = {k: left for k, left in row.doc.left.items() if left.holder != holder or not left.blocking}


def left_running(tx: Tx, row: RunRow, named: Iterable[Residue] = ()) -> list[Residue]:
    """What earlier stops and steps have left running, in processes that live; without what is `named` already."""
    known = {place_in_list(one) for one in named}
    left = [one for place, one in row.doc.left.items() if place not in known]
    return [_of_run(one.residue, row) for one in left if one.holder is None or not known_dead(tx, one.holder)]


def _of_run(left: Residue, row: RunRow) -> Residue:
    return left if left.call is None else replace(left, call=_named(left.call, row))


def _ended_flights(tx: Tx, row: RunRow, stop: Stop) -> tuple[list[InFlight], list[Residue]]:
    """How each call that the stop named has ended, also of child runs, and what is left behind of them."""
    outcomes = [replace(flight, call=_named(flight.call, row)) for flight in stop.outcomes]
    residue = [_of_run(left, row) for left in stop.residue]
    for child_id in dict.fromkeys(ref.run for ref in stop.in_flight if ref.run not in ("", row.id)):
        child = tx.run(child_id)
        if child is not None and child.doc.receipt is not None:
            outcomes += child.doc.receipt.in_flight
            residue += child.doc.receipt.residue
    known = {f.call.id for f in outcomes} | {ref.id for ref in row.in_flight}
    for ref in stop.in_flight:
        if ref.id not in known and ref.run in ("", row.id):
            outcomes.append(InFlight(_named(ref, row), _ended_as(tx.call(row.n, ref.id))))
    return list({f.call.id: f for f in outcomes}.values()), list(dict.fromkeys(residue))


def _names(residue: Residue, call: CallRef) -> bool:
    """Is it said of the call itself, and not of something that it has started?"""
    return residue.call is not None and residue.call.id == call.id and residue.what.startswith(call.tool)


def _named(ref: CallRef, row: RunRow) -> CallRef:
    return ref if ref.run else replace(ref, run=row.id)


def _ended_as(call: CallRow | None) -> Literal["aborted", "finished", "failed", "in_doubt"]:
    """For a call that ended by itself just when the stop was accepted; the boundary covers one without a row."""
    if call is None or call.status == "finished":
        return "finished"
    if call.status in ("cut", "not_begun") or call.error == "ChildCancelled":
        return "aborted"
    return "in_doubt" if call.status in ("started", "in_doubt", "check") else "failed"


def _with_undo_outcome(flight: InFlight, ledger: list[CallRow]) -> InFlight:
    """A cut write stays in doubt unless its undo or probe has settled it: it had no effect that is left.

    If its thread came to its own end, the effect was there, and is not called aborted for being taken back; unless
    there was nothing to take back.
    """
    if flight.outcome != "in_doubt":
        return flight
    settled = next((c for c in ledger if c.id == flight.call.id and c.undo == "undone"), None)
    if settled is None:
        return flight
    taken_back = settled.tries > 0  # no try of its undo: its probe has said that it had not happened
    return replace(flight, outcome=(taken_back and flight.threads) or "aborted")


def partial_output(tx: Tx, row: RunRow) -> str:
    """The text that calls of the current step had said."""
    return "".join(text for _, text in said_in_step(tx, row).values())


def last_words(tx: Tx, row: RunRow) -> Mark | None:
    """Where the record of the current step's text ends; None if it has none."""
    said = [(call, text) for call, (_, text) in said_in_step(tx, row).items() if text]
    flying = {ref.id for ref in row.in_flight}
    found = [one for one in said if one[0] in flying] or said
    return Mark(found[-1][0], len(found[-1][1])) if found else None


def said_in_step(tx: Tx, row: RunRow) -> dict[str, tuple[int, str]]:
    """Attempt and text of each call of the current step that said something; what was said anew, once."""
    aside = row.doc.set_aside
    snapshot = row.snapshot if aside is None else aside.since
    said: dict[str, tuple[int, list[str]]] = {}
    while rows := tx.record(row.n, snapshot, naming="text_flushed"):
        for seq, events in rows:
            snapshot = seq
            for event in events:
                if isinstance(event, ev.TextFlushed) and event.channel == "text":
                    if not event.offset:
                        said[event.call] = (event.attempt, [])
                    said.setdefault(event.call, (event.attempt, []))[1].append(event.text)
    others = () if aside is None else aside.calls
    return {call: (attempt, "".join(parts)) for call, (attempt, parts) in said.items() if call not in others}


def finish_cancel(tx: Tx, row: RunRow) -> list[Event]:
    """The last transition of a cancel: the receipt is complete."""
    if row.doc.ending is not None and row.doc.stop is not None:
        row.doc.stop.result, row.doc.ending = row.doc.ending.result, None
    done = receipt(tx, row, "cancelled")
    row.doc.receipt = done
    why = f"the run was cancelled: {done.reason}" if done.reason else "the run was cancelled"
    frames, row.doc.frames = give_up(row.doc.frames, done.by, why, way_back(done.route, done.by_token)), []
    enter(row, "cancelled", tx.now)
    return [*frames, ev.RunCancelled(receipt=done)]


def drop_person(tx: Tx, row: RunRow, reason: str) -> list[Event]:
    """What a person wanted to perform is not performed; they are told."""
    person, row.doc.person = row.doc.person, None
    if person is None:
        return []
    for mail in tx.pending_mail(row.n):
        if mail.id == person.id:
            mail.status, mail.reason = "returned", reason
            tx.update_mail(mail)
            return [ev.MailReturned(mail=mail.id, reason=reason)]
    return []


def settle_rewind(tx: Tx, row: RunRow) -> tuple[list[Event], bytes]:
    """Put the run before the step it was rewound to."""
    target = row.doc.target
    assert target is not None
    found = tx.snapshot(row, target.step)
    assert found is not None, f"run {row.id} has no snapshot {target.step}"
    row.step = target.step
    row.doc.steps_of_people = [step for step in row.doc.steps_of_people if step < target.step]
    row.attempt += 1
    row.doc.target = None
    row.doc.branch = True
    row.doc.values = {}
    row.doc.set_back = True
    row.doc.interrupted = False
    row.doc.set_aside = None
    dropped = drop_person(tx, row, f"the run was rewound to step {target.step}")
    row.doc.plan = unpack(found[1])[0]
    frames = thoughts_in(found[1]).frames
    gone = [f for f in row.doc.frames if f.id not in {kept.id for kept in frames}]
    row.doc.frames = frames
    row.doc.facts = {name: fact for name, fact in row.doc.facts.items() if fact.step < target.step}
    for mail in tx.pending_mail(row.n):
        if mail.not_before > target.step:  # it waited for a step that is far ahead again
            mail.not_before = target.step
            tx.update_mail(mail)
    sent_anew(row, target.step)
    stop = row.doc.stop
    by, way = (None, "") if stop is None else (stop.by, way_back(stop.route, stop.by_token))
    out: list[Event] = [
        *dropped,
        *give_up(gone, by, f"the run was rewound to step {target.step}", way),
        ev.Rewound(to=target.step, epoch=row.epoch),
    ]
    row.doc.rewinds.append((row.epoch, target.step))
    left = [c for c in _all_ledgers(tx, row) if c.n in target.undoing and c.undo != "undone"]
    if left:
        names = ", ".join(f"{c.tool} ({c.undo}: {c.undo_reason})" for c in left)
        hold(row, "error", tx.now, f"rewound to step {target.step}, but this could not be undone: {names}")
        target.then = "paused"
    if target.then == "queued" and not row.doc.holds:
        enter(row, "queued", tx.now)
        out.append(ev.RunQueued(why=f"rewound to step {target.step}"))
    else:
        if target.then == "paused" and not set(row.doc.holds) - {"halted"}:  # a halt that is lifted leaves it paused
            hold(row, "user", tx.now, f"rewound to step {target.step}")
        enter(row, "paused", tx.now)
        out.append(ev.RunPaused(holds=list(row.doc.holds), text=f"rewound to step {target.step}"))
    return out, found[1]


def abandon_rewind(tx: Tx, row: RunRow) -> None:
    """A cancel came while a rewind was undoing: what is undone stays so, whoever cancels decides about the rest."""
    target = row.doc.target
    assert target is not None
    for call in _all_ledgers(tx, row):
        if call.n in target.undoing and call.undo == "pending" and not call.tries:
            call.undo = None
            tx.update_call(call)
            if call.run != row.n:
                tell_owner(tx, call, f"{call.tool} is not to be undone after all")
    row.doc.target = None
    row.epoch -= 1  # it did not take place: the step in flight is still that of the epoch before


def queue_if_free(row: RunRow, now: float, why: str) -> list[Event]:
    """A run whose last hold went by an answer or decision goes on by itself; so does what a person performs in it."""
    if row.status == "paused" and (not row.doc.holds or free_for_person(row)):
        enter(row, "queued", now)
        return [ev.RunQueued(why=why, holds=list(row.doc.holds))]
    return []


def free_for_person(row: RunRow) -> bool:
    """Does nothing hold what a person performs in the run, but what held the run before?"""
    person = row.doc.person
    return person is not None and set(row.doc.holds) <= set(person.kept)
