"""The operator's halt: one transaction stops every run it matches, and they are held until it is lifted (R13)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from standfast import arguments
from standfast.abc import Tx
from standfast.control import Ask, IsDead, saved
from standfast.errors import Misuse, StoreDamaged, UnknownHalt
from standfast.events import Event, RunLifted
from standfast.halts import halt_bytes, halt_doc, halt_run, halted_since_step, halts_of, lift_bytes, unhalt_run
from standfast.house_events import HaltLifted, HaltSet
from standfast.records import LIVE, CallRef, Halt, HaltSignature, Moment
from standfast.rows import HaltDoc, HaltRow, RunRow
from standfast.stops import hold, queue_if_free
from standfast.verbs.cancelling import cancel_again, cancel_one
from standfast.verbs.pausing import resume_with_children

log = logging.getLogger("standfast")

Sign: TypeAlias = Callable[[bytes], tuple[bytes, bytes]]
"""Signs what a halt says: gives the public key and the signature."""

Verify: TypeAlias = Callable[[bytes, bytes, bytes], bool]
"""Was this signed by that key? Given the key, the signature and what was signed."""

LONGEST_HALT_ID = 200


def wanted_halt(
    id: str,  # noqa: A002 - the word users know
    *,
    agent: str | None,
    labels: Mapping[str, str] | None,
    all: bool,  # noqa: A002 - the word of the command
    then: Literal["pause", "cancel"],
    reason: str,
    by: str | None,
) -> HaltDoc:
    """What is asked for, or Misuse: a halt says exactly what it holds, and why."""
    labels = {} if labels is None else arguments.labels_by_name(dict(labels))
    agent, by = arguments.text_or_none("agent", agent), arguments.text_or_none("by", by)
    if arguments.flag("all", all) == (agent is not None or bool(labels)):
        raise Misuse(
            "a halt holds an agent, a label, or all", hint="give agent= or labels=, or all=True; nothing was halted"
        )
    if then not in ("pause", "cancel"):
        raise Misuse(f"then={then!r} is unknown", hint='use "pause" or "cancel"; nothing was halted')
    why = arguments.shortened(arguments.text("reason", reason).strip())
    if not why:
        raise Misuse("a halt needs a reason", hint="say why in a few words; nothing was halted")
    if not arguments.text("id", id) or len(id) > LONGEST_HALT_ID:
        raise Misuse(f"the id of a halt has 1 to {LONGEST_HALT_ID} characters", hint="leave it out and one is made")
    return HaltDoc(id=id, agent=agent, labels=labels, all=all, then=then, reason=why, by=by)


def set_halt(
    tx: Tx,
    wanted: HaltDoc,
    is_dead: IsDead,
    *,
    sign: Sign | None = None,
    route: str = "",
    asked: Moment | None = None,
) -> Halt:
    """Write the halt, and stop every run it matches and all below them: one transaction.

    The same id again gives the halt that is there: whoever did not hear the answer may ask by another way.
    """
    known = tx.halt(wanted.id)
    if known is not None:
        said = halt_doc(known)
        if replace(said, at=0.0) != wanted:
            raise Misuse(f"halt {wanted.id!r} is there already, and says something else", hint="give another id")
        return replace(halt_view(tx, known), note="it was set already")
    doc = replace(wanted, at=tx.now)
    row, note = _signed(doc, sign)
    digest = tx.insert_halt(row)
    stopped, in_flight, unreadable = 0, list[CallRef](), list[str]()
    ask = Ask(
        by=doc.by, reason=doc.reason, trigger="operator", since=asked, at=asked.at if asked is not None else tx.now
    )
    for id_ in tx.runs_to_halt(doc.agent, doc.labels):
        run = _readable(tx, id_, unreadable)
        if run is None or run.status not in LIVE:
            continue  # its own row cannot be read: nobody can drive it either; or a run above it took it along
        if run.status == "cancelling":
            in_flight += _hurry(tx, run, doc, ask)
            continue
        stopped += 1
        if doc.then == "cancel":
            in_flight += cancel_one(tx, run, ask, "step", soft=False, is_dead=is_dead)
        else:
            in_flight += run.named_in_flight
            if halted := halt_run(run, [doc], tx.now, asked):
                saved(tx, run, halted)
    tx.note(
        HaltSet(
            halt=doc.id,
            by=doc.by,
            route=route,
            agent=doc.agent,
            labels=doc.labels,
            then=doc.then,
            reason=doc.reason,
            runs=stopped,
            row=digest,
        )
    )
    once = {ref.id: ref for ref in in_flight}  # a cancelled run names its children's calls too
    told = _view(row, doc, None)
    return replace(told, runs=stopped, in_flight=tuple(once.values()), unreadable=tuple(unreadable), note=note)


def _hurry(tx: Tx, run: RunRow, doc: HaltDoc, ask: Ask) -> list[CallRef]:
    """A run that is ending anyway: what it still has in flight is named, and cut if the halt says cancel."""
    named = run.named_in_flight
    if doc.then == "cancel" and run.doc.stop is not None and run.doc.stop.soft:
        cancel_again(tx, run, ask, run.doc.stop.undo, soft=False)
    return named


def _signed(doc: HaltDoc, sign: Sign | None) -> tuple[HaltRow, str]:
    """A halt that cannot be signed holds all the same: it is shown as unsigned."""
    raw = halt_bytes(doc)
    key, signature, trouble = _signature(f"halt {doc.id}", raw, sign)
    return HaltRow(id=doc.id, doc=raw, key=key, signature=signature), trouble


def _signature(what: str, raw: bytes, sign: Sign | None) -> tuple[bytes | None, bytes | None, str]:
    """Key and signature, or neither and why."""
    if sign is None:
        return None, None, ""
    try:
        return *sign(raw), ""
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the key, what was asked for must hold
        log.error("standfast: %s is not signed: %s", what, error)
        return None, None, f"it could not be signed: {error}"


def _readable(tx: Tx, id_: str, unreadable: list[str]) -> RunRow | None:
    """A damaged run must not keep the halt from the others."""
    try:
        return tx.run(id_)
    except StoreDamaged:
        unreadable.append(id_)
        return None


def lift_halt(
    tx: Tx,
    id: str,  # noqa: A002
    *,
    by: str | None,
    reason: str,
    sign: Sign | None = None,
    route: str = "",
) -> Halt:
    """The halt holds no longer: each run has the holds it would have without it, and goes on if that is none."""
    arguments.text_or_none("by", by)
    reason = arguments.reason(reason)
    row = tx.halt(arguments.text("id", id))
    if row is None:
        raise UnknownHalt(f"there is no halt {id!r} in this store", hint="standfast halts lists them")
    if not tx.lift_halt(id):
        return replace(halt_view(tx, row), note="it was lifted already")
    freed, unreadable = 0, list[str]()
    for run_id in tx.runs_halted_by(id):
        run = _readable(tx, run_id, unreadable)
        if run is not None and id in halts_of(run):  # what a run above it did may have come first
            _lift_one(tx, run, id, Ask(by=by, reason=reason))
            freed += 1
    key, signature, trouble = _signature(f"the lift of {id}", lift_bytes(id, tx.now), sign)
    lifted = HaltLifted(halt=id, by=by, reason=reason, route=route)
    if key is not None and signature is not None:
        lifted.key, lifted.signature = key.hex(), signature.hex()
    tx.note(lifted)
    row.lifted = tx.now
    return replace(_view(row, halt_doc(row), None), runs=freed, unreadable=tuple(unreadable), note=trouble)


def _lift_one(tx: Tx, row: RunRow, id_: str, ask: Ask) -> None:
    since = halted_since_step(row)
    last = unhalt_run(row, id_, tx.now)
    if last and row.doc.step_once and row.step > since:  # the one step was finished while the run was being stopped
        row.doc.step_once = False
        hold(row, "user", tx.now, "after one step")
    events: list[Event] = [RunLifted(halt=id_, by=ask.by, reason=ask.reason, holds=list(row.doc.holds))]
    if last and row.status == "paused":
        events += _go_on(tx, row)
    saved(tx, row, events)


def _go_on(tx: Tx, row: RunRow) -> list[Event]:
    """As if the halt had not been: a resume asked for before it is taken now."""
    noted, row.doc.resume_noted = row.doc.resume_noted, None
    if noted is not None and row.doc.holds:
        return resume_with_children(tx, row, noted)[1]
    queued = queue_if_free(row, tx.now, "the halt was lifted")
    if queued:
        row.doc.stop = None
    return queued


# --- looking ----------------------------------------------------------------------------------------------


def halts_in(tx: Tx, *, lifted: bool = False, verify: Verify | None = None) -> list[Halt]:
    """The halts that hold, oldest first; with `lifted`, also those that no longer do."""
    return [halt_view(tx, row, verify) for row in tx.halts(lifted=lifted)]


def halt_view(tx: Tx, row: HaltRow, verify: Verify | None = None) -> Halt:
    """A halt as people see it, with how many runs it holds now."""
    held = 0 if row.lifted is not None else len(tx.runs_halted_by(row.id))
    return replace(_view(row, halt_doc(row), verify), runs=held)


def _view(row: HaltRow, doc: HaltDoc, verify: Verify | None) -> Halt:
    return Halt(
        id=row.id,
        at=doc.at,
        by=doc.by,
        reason=doc.reason,
        agent=doc.agent,
        labels=doc.labels,
        all=doc.all,
        then=doc.then,
        lifted_at=row.lifted,
        signature=_checked(row, verify),
        key="" if row.key is None else row.key.hex(),
    )


def _checked(row: HaltRow, verify: Verify | None) -> HaltSignature:
    if row.key is None or row.signature is None:
        return "none"
    if verify is None:
        return "unchecked"
    return "good" if verify(row.key, row.signature, row.doc) else "wrong"
