"""Rewind and edit: the run goes on from another place, or with another state."""

from __future__ import annotations

from collections.abc import Callable

from standfast import arguments
from standfast import events as ev
from standfast.abc import Tx
from standfast.control import Act, Ask, IsDead, from_above, load, saved, stop_by
from standfast.errors import WrongState
from standfast.events import Event
from standfast.machine import may_follow
from standfast.records import Accepted, Answer, CallRef, Hold, Json, Refused
from standfast.rows import RunRow, Target
from standfast.stops import mark_undo_from, settle_rewind, void_questions
from standfast.verbs.cancelling import cancel_one, withdraw_questions
from standfast.verbs.pausing import halted
from standfast.ways import token_of

ENDED_BY_A_REWIND: tuple[Hold, ...] = (
    *("asks", "in_doubt", "stale", "diverged"),
    *("error", "waiting", "budget", "loop", "tripwire"),
)


def rewind(to: int | str, is_dead: IsDead) -> Act:
    """Undo a step and everything later, and hold the run before it."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        if "halted" in row.doc.holds:
            return halted(row)
        step = step_of(tx, row, to)
        return (
            step if isinstance(step, Refused) else rewind_to(tx, row, ask, Target(step, "paused"), is_dead, None, None)
        )

    return act


def step_of(tx: Tx, row: RunRow, to: int | str) -> int | Refused:
    """A step by its number, or by the id of the plan item that it began."""
    if isinstance(to, str):
        item = next((i for i in row.doc.plan if i.id == to), None)
        if item is None:
            return Refused(f"there is no plan item {to!r}")
        if item.step is None:
            return Refused(f"plan item {to!r} has not begun yet; redirect without from_step instead")
        to = item.step
    if arguments.whole("a step", to, "give its number, or the id of a plan item") < 0 or to > row.step:
        return Refused(f"there is no step {to}: the run is at step {row.step}")
    if tx.snapshot(row, to) is None:  # a fork has no snapshots from before it
        first = next(step for step in range(to, row.step + 1) if tx.snapshot(row, step) is not None)
        return Refused(f"there is no step {to}: the first of this run is step {first}, where it was forked")
    return to


def rewind_to(
    tx: Tx, row: RunRow, ask: Ask, target: Target, is_dead: IsDead, received: Event | None, mail: str | None
) -> Answer:
    events: list[Event] = [received] if received else []
    if row.status == "pausing":
        target.by, target.reason, target.trigger = ask.by, ask.reason, ask.trigger
        target.route, target.by_token = str(tx.route), token_of(tx.route)
        note = _note_rewind(row, target)
        events.append(ev.VerbNoted(verb="rewind", by=ask.by, reason=ask.reason, text=note))
        saved(tx, row, events)
        return Accepted(tx.now, row.seq, tuple(row.named_in_flight), mail=mail, note=note)
    in_flight = row.named_in_flight
    state = begin_rewind(tx, row, ask, target, events, is_dead, in_flight)
    saved(tx, row, events, state=state)
    return Accepted(tx.now, row.seq, tuple(in_flight), mail=mail)


def _note_rewind(row: RunRow, target: Target) -> str:
    """Of several rewinds the one that goes back furthest is taken; if any holds the run, that one does."""
    doc = row.doc
    earlier = [known for known in (doc.target, doc.rewind_noted) if known is not None]
    if target.then == "paused":
        doc.resume_noted = None
        for known in earlier:
            known.then = "paused"
    elif any(known.then == "paused" for known in earlier):
        target.then = "paused"
    furthest = min((known.step for known in earlier), default=target.step + 1)
    if furthest <= target.step:
        return f"the run goes back to step {furthest} already"
    doc.rewind_noted = target
    return "taken when the pause has settled"


def begin_rewind(
    tx: Tx, row: RunRow, ask: Ask, target: Target, events: list[Event], is_dead: IsDead, in_flight: list[CallRef]
) -> bytes | None:
    """Turn a run towards an earlier step; gives its snapshot if there is nothing to wait for.

    A rewind under way goes on as this one, further back.
    """
    held = row.status == "running" and row.holder is not None and not is_dead(tx, row.holder)
    for child in tx.children(row.id, live=True):
        child_row = load(tx, child)
        began = tx.call(row.n, child_row.doc.parent_call)
        if began is not None and began.step >= target.step and child_row.status != "cancelling":
            cancel_one(tx, child_row, from_above(ask), "all", soft=False, is_dead=is_dead)
    marked = mark_undo_from(tx, row, target.step)
    target.undoing = [call.n for call in marked]
    if row.doc.target is not None:
        target.undoing += row.doc.target.undoing
    else:
        row.epoch += 1
    withdraw_questions(tx, row)
    for name in ENDED_BY_A_REWIND:
        row.doc.holds.pop(name, None)
    row.doc.target = target
    row.doc.stop = stop_by("rewind", tx, ask, in_flight)
    row.doc.error = None
    row.attempt += 1
    assert may_follow(row.status, "pausing"), f"run {row.id} cannot be rewound: it is {row.status}"
    row.status = "pausing"  # not entered: a pause before it goes on, with what was changed in it
    events.append(
        ev.RewindAsked(
            to=target.step,
            epoch=row.epoch,
            by=ask.by,
            route=row.doc.stop.route,
            by_token=row.doc.stop.by_token,
            reason=ask.reason,
            trigger=ask.trigger,
            asked=ask.since,
            in_flight=in_flight,
        )
    )
    if held or row.in_flight or any(c.undo == "pending" for c in marked) or tx.children(row.id, live=True):
        return None
    settled, state = settle_rewind(tx, row)
    events += settled
    return state


def edit(
    validate: Callable[[Json, bytes, bytes], tuple[bytes, str, list[tuple[str, int, list[bytes]]]]],
) -> Act:
    """Change the state of a paused run; `validate` turns old snapshot and contract into the new one."""

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        found = tx.snapshot(row)
        contract = tx.contract(row.doc.contract)
        if found is None or contract is None:
            raise WrongState(
                f"run {row.id} has no state to edit", hint="its contract or snapshot is missing in the store"
            )
        baseline = tx.snapshot_at(row, row.doc.baseline) or found[1]
        state, changed, rows = validate(contract, found[1], baseline)
        for log, first, bodies in rows:
            tx.append_log(log, first, bodies)
        row.doc.changed = "; ".join(filter(None, [changed, *row.doc.redirected]))
        row.doc.set_back = True
        row.doc.branch = True
        void_questions(row)
        row.attempt += 1
        saved(tx, row, [ev.StateEdited(by=ask.by, reason=ask.reason, changed=changed)], state=state)
        return Accepted(tx.now, row.seq, note=changed)

    return act
