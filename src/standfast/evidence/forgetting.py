"""Forgetting a run: its content is deleted, its place in the record is not, and who did it is on record.

It takes many transactions, each a short one: nobody who wants to stop something waits for a long deletion. First the
runs are marked, and the record of the house says so; from then on no verb and no fork is taken. Then their content is
deleted, a little at a time. Whatever ends this in between, the record holds together, and forgetting the run again goes
on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from pydantic_core import to_json

from standfast import arguments
from standfast.abc import Tx
from standfast.control import load
from standfast.evidence.chains import follow_run
from standfast.house_events import RunForgotten
from standfast.names import name_words
from standfast.records import ENDED, Accepted, Answer, Choice, Refused
from standfast.rows import RunDoc, RunRow
from standfast.ways import token_of

RUNS_AT_ONCE = 20  # that are marked in one transaction
PAUSE_SECONDS = 0.005  # between two transactions, for whoever waits for the store
_NEWEST = 2**63 - 1

Turn: TypeAlias = tuple[Literal["read", "write"], Callable[[Tx], Any]]
"""A look at the store, or a transaction; what it returns is sent back."""


@dataclass(frozen=True, slots=True)
class _Family:
    """The run and all below it, parents first; `newest` is the number of the newest run when they were looked at."""

    runs: list[RunRow]
    newest: int


def forgetting(
    id: str,  # noqa: A002 - the word users know
    *,
    by: str | None,
    reason: str,
    route: str = "",
) -> Generator[Turn, Any, Answer]:
    """Delete the content of an ended run and of its children; refused, and nothing deleted, if others need it."""
    reason = arguments.reason(reason)
    family: _Family | Refused = yield "read", lambda tx: _look(tx, id)
    if isinstance(family, Refused):
        return family
    new = [one for one in family.runs if not one.doc.forgotten]
    for some in _batches(new[::-1]):  # the run itself last: until then it can be forgotten again
        refused: Refused | None = yield "write", lambda tx: _mark(tx, some, family, by=by, reason=reason, route=route)  # noqa: B023
        if refused is not None:
            return refused
    for one in family.runs:
        yield from _deleting(one)
    at: float = yield "read", lambda tx: tx.now
    children = f" and {len(family.runs) - 1} child runs" if len(family.runs) > 1 else ""
    return Accepted(at, family.runs[0].seq, note=f"the content of run {id}{children} is deleted; the hashes are kept")


def _look(tx: Tx, id: str) -> _Family | Refused:  # noqa: A002
    row = load(tx, id)
    runs = [row, *_below(tx, row)]
    if row.doc.forgotten and not any(tx.has_content(one.n) for one in runs):
        return Refused(f"run {id} {row.doc.forgotten}")
    refused = _needed(tx, row, runs, 0)
    return _Family(runs, tx.last_run()) if refused is None else refused


def _batches(runs: list[RunRow]) -> Iterator[list[RunRow]]:
    for at in range(0, len(runs), RUNS_AT_ONCE):
        yield runs[at : at + RUNS_AT_ONCE]


def _mark(tx: Tx, some: list[RunRow], family: _Family, *, by: str | None, reason: str, route: str) -> Refused | None:
    """These runs are forgotten. Who has ended stays so, and has no new children; only forks can have come."""
    found = [load(tx, one.id) for one in some]
    refused = _forked(tx, found, {one.id for one in family.runs}, family.newest)
    if refused is not None:
        return refused
    told = [one for one in found if not one.doc.forgotten]  # somebody else may be at it
    for one in told:
        tx.forget_row(one.n, to_json(_left_of(tx, one, by, reason, token_of(route))))
    tx.note(
        *[
            RunForgotten(run=one.id, seq_of_run=one.seq, head=one.head.hex(), reason=reason, by=by, route=route)
            for one in told
        ]
    )
    for one in told:
        tx.signal(one.id)
    return None


def _deleting(run: RunRow) -> Generator[Turn, Any, None]:
    """The logs, calls, mail first: the record, which names the logs, is still whole if this ends in between."""

    def left(tx: Tx) -> tuple[list[str], list[str]] | None:
        if not tx.has_content(run.n):
            return None
        return list(follow_run(run.id, tx.plain_record(run.n)).logs), tx.requests_of(run.id)

    found: tuple[list[str], list[str]] | None = yield "read", left
    if found is None:
        return
    logs, requests = found
    while (yield "write", lambda tx: tx.delete_some(run.n, logs, requests)):
        pass
    before = _NEWEST
    while before:
        before = yield "write", lambda tx: tx.bury_some(run.n, before)  # noqa: B023 - called at once


def ended_before(tx: Tx, time: float) -> list[str]:
    """Runs without a parent that ended before this time and still have their content, oldest first."""
    found: list[str] = []
    for id_, _, _ in tx.list_runs(
        status=sorted(ENDED), agent=None, labels=None, needs=None, limit=1_000_000, before=None
    ):
        row = load(tx, id_)
        kept = not row.doc.forgotten or tx.has_content(row.n)
        if row.parent is None and kept and row.doc.ended_at is not None and row.doc.ended_at < time:
            found.append(id_)
    return found[::-1]


def _below(tx: Tx, row: RunRow) -> Iterator[RunRow]:
    """Its children, theirs, and so on."""
    for id_ in tx.children(row.id, live=False):
        child = load(tx, id_)
        yield child
        yield from _below(tx, child)


def _needed(tx: Tx, row: RunRow, family: list[RunRow], newest: int) -> Refused | None:
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
    return _forked(tx, family, {one.id for one in family}, newest)


def _forked(tx: Tx, runs: list[RunRow], here: set[str], after: int) -> Refused | None:
    """A fork that shares their logs, among the runs that came after this one."""
    for one in runs:
        for fork in _forks(tx, one.id, after):
            if fork not in here:
                return Refused(f"run {fork} was forked from run {one.id} and shares its logs: forget that one first")
    return None


def _forks(tx: Tx, source: str, after: int) -> Iterator[str]:
    """Forks of a run, and of those, that still have their content."""
    for id_ in tx.forks(source, after):
        if not load(tx, id_).doc.forgotten:
            yield id_
        yield from _forks(tx, id_, after)


def _left_of(tx: Tx, row: RunRow, by: str | None, reason: str, by_token: str) -> RunDoc:
    at = datetime.fromtimestamp(tx.now, UTC).strftime("%Y-%m-%d %H:%M UTC")
    who = f" by {name_words(by, by_token)}" if by else ""
    why = f": {reason}" if reason else ""
    old = row.doc
    return RunDoc(
        forked_from=old.forked_from,
        parent_call=old.parent_call,
        ended_at=old.ended_at,
        paused_for=old.paused_for,
        forgotten=f"was forgotten on {at}{who}{why}; its content is deleted, its hashes are kept",
    )
