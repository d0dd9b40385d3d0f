"""Forgetting a run: its content is deleted, its place in the record is not, and who did it is on record."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from pydantic_core import to_json

from standfast import arguments
from standfast.abc import Tx
from standfast.control import load
from standfast.evidence.chains import follow_run
from standfast.house_events import RunForgotten
from standfast.records import ENDED, Accepted, Answer, Choice, Refused
from standfast.rows import RunDoc, RunRow


def forget(tx: Tx, id: str, *, by: str | None, reason: str, route: str = "") -> Answer:  # noqa: A002 - the word users know
    """Delete the content of an ended run and of its children; refused, and nothing deleted, if others need it."""
    reason = arguments.reason(reason)
    row = load(tx, id)
    if row.doc.forgotten:
        return Refused(f"run {id} {row.doc.forgotten}")
    family = [row, *_below(tx, row)]
    refused = _needed(tx, row, family)
    if refused is not None:
        return refused
    told = [one for one in family if not one.doc.forgotten]
    for one in told:
        _forget(tx, one, by=by, reason=reason)
    tx.note(
        *[
            RunForgotten(run=one.id, seq_of_run=one.seq, head=one.head.hex(), reason=reason, by=by, route=route)
            for one in told
        ]
    )
    for one in told:
        tx.signal(one.id)
    children = f" and {len(told) - 1} child runs" if len(told) > 1 else ""
    return Accepted(tx.now, row.seq, note=f"the content of run {id}{children} is deleted; the hashes are kept")


def ended_before(tx: Tx, time: float) -> list[str]:
    """Runs without a parent that ended before this time and still have their content, oldest first."""
    found: list[str] = []
    for id_, _, _ in tx.list_runs(
        status=sorted(ENDED), agent=None, labels=None, needs=None, limit=1_000_000, before=None
    ):
        row = load(tx, id_)
        if row.parent is None and not row.doc.forgotten and row.doc.ended_at is not None and row.doc.ended_at < time:
            found.append(id_)
    return found[::-1]


def _below(tx: Tx, row: RunRow) -> Iterator[RunRow]:
    """Its children, theirs, and so on."""
    for id_ in tx.children(row.id, live=False):
        child = load(tx, id_)
        yield child
        yield from _below(tx, child)


def _needed(tx: Tx, row: RunRow, family: list[RunRow]) -> Refused | None:
    """Why it cannot be forgotten now."""
    for one in family:
        if one.status not in ENDED:
            return Refused(
                f"run {one.id} is {one.status}: only what has ended can be forgotten",
                (Choice("cancel", {}, "cancel it first"),),
            )
    parent = None if row.parent is None else load(tx, row.parent)
    if parent is not None and parent.status not in ENDED:
        return Refused(f"run {parent.id}, whose child it is, is {parent.status} and may need its result")
    here = {one.id for one in family}
    for one in family:
        for fork in _forks(tx, one.id):
            if fork not in here:
                return Refused(f"run {fork} was forked from run {one.id} and shares its logs: forget that one first")
    return None


def _forks(tx: Tx, source: str) -> Iterator[str]:
    """Forks of a run, and of those, that still have their content."""
    for id_ in tx.forks(source):
        if not load(tx, id_).doc.forgotten:
            yield id_
        yield from _forks(tx, id_)


def _forget(tx: Tx, row: RunRow, *, by: str | None, reason: str) -> None:
    logs = list(follow_run(row.id, tx.plain_record(row.n)).logs)
    at = datetime.fromtimestamp(tx.now, UTC).strftime("%Y-%m-%d %H:%M UTC")
    who = f" by {by}" if by else ""
    why = f": {reason}" if reason else ""
    old = row.doc
    left = RunDoc(
        forked_from=old.forked_from,
        parent_call=old.parent_call,
        ended_at=old.ended_at,
        paused_for=old.paused_for,
        forgotten=f"was forgotten on {at}{who}{why}; its content is deleted, its hashes are kept",
    )
    tx.bury_record(row.n)
    tx.delete_beside(row.n, logs)
    tx.forget_row(row.n, to_json(left))
