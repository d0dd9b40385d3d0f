"""The operator's halt: one transaction stops every run it matches, and they are held until it is lifted (R13)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from standfast import arguments
from standfast.abc import Tx
from standfast.control import Ask, IsDead, by_route
from standfast.errors import KeyUnusable, Misuse, StoreDamaged, UnknownHalt
from standfast.events import Event, RunLifted
from standfast.halts import halt_bytes, halt_doc, halt_run, halted_since_step, halts_of, lift_bytes, unhalt_run
from standfast.house_events import HaltLifted, HaltSet
from standfast.records import LIVE, CallRef, Halt, HaltSignature, Moment
from standfast.replaced_keys import replaced_at, signed_in_time
from standfast.rows import HaltDoc, HaltRow, RunRow
from standfast.stops import hold, queue_if_free
from standfast.verbs.cancelling import cancel_again, cancel_one
from standfast.verbs.pausing import resume_with_children
from standfast.ways import token_of

log = logging.getLogger("standfast")

Sign: TypeAlias = Callable[[bytes], tuple[bytes, bytes]]
"""Signs what a halt says: gives the public key and the signature."""

Verify: TypeAlias = Callable[[bytes, bytes, bytes], bool]
"""Was this signed by that key? Given the key, the signature and what was signed."""

LONGEST_HALT_ID = 200
ROWS_AT_ONCE = 500


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
        if replace(said, at=0.0, route="", by_token="") != wanted:
            raise Misuse(f"halt {wanted.id!r} is there already, and says something else", hint="give another id")
        return replace(halt_view(tx, known), note="it was set already")
    doc = replace(wanted, at=tx.accepted, route=str(route), by_token=token_of(route))
    return by_route(route, lambda tx: _set(tx, doc, is_dead, sign, asked))(tx)


def _set(tx: Tx, doc: HaltDoc, is_dead: IsDead, sign: Sign | None, asked: Moment | None) -> Halt:
    row, note = _signed(tx, doc, sign)
    digest = tx.insert_halt(row)
    stopped, in_flight, unreadable = 0, list[CallRef](), list[str]()
    ask = Ask(
        by=doc.by,
        reason=doc.reason,
        trigger="operator",
        since=asked,
        at=asked.at if asked is not None else tx.now,
    )
    rows, held = _Rows(tx, tx.runs_to_halt(doc.agent, doc.labels), unreadable), list[str]()
    for run in rows:
        rows.others_changed = doc.then == "cancel"  # which takes along what lives below it
        if run.status not in LIVE:
            continue  # a run above it took it along
        if run.status == "cancelling":
            in_flight += _hurry(tx, run, doc, ask)
            continue
        stopped += 1
        if doc.then == "cancel":
            in_flight += cancel_one(tx, run, ask, "step", soft=False, is_dead=is_dead)
        else:
            in_flight += run.named_in_flight
            if halted := halt_run(run, [doc], tx.now, asked, tx.accepted):
                tx.save(run, halted)
                held.append(run.id)
    tx.signal_many(held)
    tx.note(
        HaltSet(
            halt=doc.id,
            by=doc.by,
            route=tx.route,
            agent=doc.agent,
            labels=doc.labels,
            then=doc.then,
            reason=doc.reason,
            runs=stopped,
            row=digest,
        )
    )
    once = {ref.id: ref for ref in in_flight}  # a cancelled run names its children's calls too
    told = _view(tx, row, doc, None)
    return replace(told, runs=stopped, in_flight=tuple(once.values()), unreadable=tuple(unreadable), note=note)


def _hurry(tx: Tx, run: RunRow, doc: HaltDoc, ask: Ask) -> list[CallRef]:
    """A run that is ending anyway: what it still has in flight is named, and cut if the halt says cancel."""
    named = run.named_in_flight
    if doc.then == "cancel" and run.doc.stop is not None and run.doc.stop.soft:
        cancel_again(tx, run, ask, run.doc.stop.undo, soft=False)
    return named


def _signed(tx: Tx, doc: HaltDoc, sign: Sign | None) -> tuple[HaltRow, str]:
    """A halt that cannot be signed holds all the same: it is shown as unsigned."""
    raw = halt_bytes(doc)
    key, signature, trouble = _signature(tx, f"halt {doc.id}", raw, sign)
    return HaltRow(id=doc.id, doc=raw, key=key, signature=signature), trouble


def _signature(tx: Tx, what: str, raw: bytes, sign: Sign | None) -> tuple[bytes | None, bytes | None, str]:
    """Key and signature, or neither and why. A key that was replaced a moment ago signs nothing that would count."""
    if sign is None:
        return None, None, ""
    try:
        key, signature = sign(raw)
        if replaced_at(tx, key) is not None:
            raise KeyUnusable("the store has another key by now", hint="it holds; the next one is signed with that")
        return key, signature, ""
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the key, what was asked for must hold
        log.error("standfast: %s is not signed: %s", what, error)
        return None, None, f"it could not be signed: {error}"


class _Rows:
    """Runs one after another, read many at a time: others wait for the store meanwhile.

    One that cannot be read does not keep the halt from the others: nobody can drive it either.
    """

    def __init__(self, tx: Tx, ids: Sequence[str], unreadable: list[str]) -> None:
        self._tx = tx
        self._ids = ids
        self._unreadable = unreadable
        self.others_changed = False  # what was done to one may have changed those that were read with it

    def __iter__(self) -> Iterator[RunRow]:
        for first in range(0, len(self._ids), ROWS_AT_ONCE):
            ids = self._ids[first : first + ROWS_AT_ONCE]
            self.others_changed = False
            together = self._tx.runs(ids)
            for id_ in ids:
                row = self._again(id_) if self.others_changed else together.get(id_)
                if isinstance(row, StoreDamaged):
                    self._unreadable.append(id_)
                elif row is not None:
                    yield row

    def _again(self, id_: str) -> RunRow | StoreDamaged | None:
        try:
            return self._tx.run(id_)
        except StoreDamaged as error:
            return error


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
    freed, unreadable = list[str](), list[str]()
    rows = _Rows(tx, tx.runs_halted_by(id), unreadable)
    for run in rows:
        if id in halts_of(run):  # what a run above it did may have come first
            rows.others_changed = run.doc.resume_noted is not None or rows.others_changed
            _lift_one(tx, run, id, Ask(by=by, reason=reason, way=route))
            freed.append(run.id)
    tx.signal_many(freed)
    key, signature, trouble = _signature(tx, f"the lift of {id}", lift_bytes(id, tx.now), sign)
    lifted = HaltLifted(halt=id, by=by, reason=reason, route=route)
    if key is not None and signature is not None:
        lifted.key, lifted.signature = key.hex(), signature.hex()
    tx.note(lifted)
    row.lifted = tx.now
    return replace(_view(tx, row, halt_doc(row), None), runs=len(freed), unreadable=tuple(unreadable), note=trouble)


def _lift_one(tx: Tx, row: RunRow, id_: str, ask: Ask) -> None:
    since = halted_since_step(row)
    last = unhalt_run(row, id_, tx.now)
    if last and row.doc.step_once and row.step > since:  # the one step was finished while the run was being stopped
        row.doc.step_once = False
        hold(row, "user", tx.now, "after one step")
    lifted = RunLifted(
        halt=id_,
        by=ask.by,
        route=str(ask.way),
        by_token=token_of(ask.way),
        reason=ask.reason,
        holds=list(row.doc.holds),
    )
    events: list[Event] = [lifted]
    if last and row.status == "paused":
        events += _go_on(tx, row)
    tx.save(row, events)


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
    return replace(_view(tx, row, halt_doc(row), verify), runs=held)


def _view(tx: Tx, row: HaltRow, doc: HaltDoc, verify: Verify | None) -> Halt:
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
        signature=_checked(tx, row, verify),
        key="" if row.key is None else row.key.hex(),
        route=doc.route,
        by_token=doc.by_token,
    )


def _checked(tx: Tx, row: HaltRow, verify: Verify | None) -> HaltSignature:
    if row.key is None or row.signature is None:
        return "none"
    if verify is None:
        return "unchecked"
    good = verify(row.key, row.signature, row.doc) and signed_in_time(tx, row.id, row.key)
    return "good" if good else "wrong"
