"""What pause, redirect and cancel would do to a run now, in words: told once, from the row and the ledger (R25).

Every surface shows these words, so that none of them promises an undo that there is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from standfast.abc import Tx
from standfast.names import name_words
from standfast.records import CallRef, Consequences, Hold
from standfast.redirectable import declared, short, upcoming, why_not
from standfast.rows import CallRow, RunRow
from standfast.stops import asks_in_vain

_CHILD: Final = "child"  # the call that waits for a child run: what is in flight there is told instead
_NAMED: Final = 2  # calls by name; the others are counted: a button has room for two lines
_FIRST: Final[tuple[tuple[Hold, str], ...]] = (
    ("asks", "first answer what it asks"),
    ("in_doubt", "first settle the doubt"),
    ("halted", "an operator holds it"),
    ("stale", "first decide about what changed"),
    ("budget", "first raise the cap"),
)


def consequences(tx: Tx, row: RunRow, waiting_for: str) -> Consequences:
    """The words for a run as it is; `waiting_for` is what its view says it waits for."""
    if row.status in ("cancelled", "done", "failed"):
        return Consequences("the run has ended", "too late: fork it instead", "the run has ended")
    if row.status == "cancelling":
        late = "too late: it is being cancelled"
        return Consequences(late, late, _waits(waiting_for, "settling"))
    below = list(_below(tx, row))
    pause, cancel = _pause(row, below, waiting_for), _cancel(tx, row, below)
    if no_redirect := why_not(tx, row):
        return Consequences(pause, f"not offered: {no_redirect}", cancel, no_redirect=no_redirect)
    return Consequences(pause, _redirect(tx, row), cancel)


def _below(tx: Tx, row: RunRow) -> Iterator[RunRow]:
    """The live runs below, which are stopped with it."""
    for id_ in tx.children(row.id, live=True):
        child = tx.run(id_)
        if child is not None:
            yield child
            yield from _below(tx, child)


def _pause(row: RunRow, below: Sequence[RunRow], waiting_for: str) -> str:
    """Of a paused run: what Resume would do, which has its place."""
    if row.status == "queued":
        return "holds it before it goes on" if row.fence else "holds it before it starts"
    if row.status == "pausing":
        return _waits(waiting_for, "holding it")
    if row.status == "paused":
        return _resume(row)
    flying = [ref for one in (row, *below) for ref in one.in_flight if ref.tool != _CHILD]
    it = f"it and {_runs(below)}" if below else "it"
    if finishing := [ref for ref in flying if _has_effect(ref)]:
        return f"lets {_names(finishing)} finish, then holds {it}"
    return f"closes {_names(flying)}, holds {it} here" if flying else f"holds {it} here at once"


def _resume(row: RunRow) -> str:
    holds = row.doc.holds
    if row.doc.taken is not None:
        return f"{name_words(row.doc.taken.by, row.doc.taken.by_token, 'somebody')} has it: hand it back"
    for hold, words in _FIRST:
        if hold in holds and not (hold == "asks" and asks_in_vain(row)):
            return words
    return f"tries step {row.step} again" if "error" in holds else f"goes on at step {row.step}"


def _redirect(tx: Tx, row: RunRow) -> str:
    if not declared(tx, row)[1]:
        return "its code reads no redirects: it may come back unread"
    if row.status in ("pausing", "paused"):
        return "read when it goes on"
    if row.status == "queued":
        return "read when it goes on" if row.fence else "rewrites the first step"
    if (item := upcoming(row.doc.plan)) is not None:
        return f"rewrites “{short(item.title)}”"
    return f"takes step {row.step} again, your way" if row.in_flight else "rewrites the next step"


def _cancel(tx: Tx, row: RunRow, below: Sequence[RunRow]) -> str:
    """What is kept, what is taken back, and what nobody can take back; as the default of cancel does it."""
    if row.status == "queued" and not row.fence:
        return "ends before it starts"
    family = (row, *below)
    at_stake = [c for one in family for c in tx.at_stake(one.n, one.epoch, one.step) if c.kind != "child"]
    undone = [call for call in at_stake if call.undoable]
    stays = [call for call in at_stake if not call.undoable]
    flying = {ref.id for one in family for ref in one.in_flight}
    cut = [ref for one in family for ref in one.in_flight if not _has_effect(ref) and ref.tool != _CHILD]
    parts = [f"keeps {row.step} finished {'step' if row.step == 1 else 'steps'}" if row.step else "no step is finished"]
    if undone:
        in_progress = " in progress" if all(call.id in flying for call in undone) else ""
        parts.append(f"undoes {_names(_refs(undone))}{in_progress}")
    if stays:
        parts.append(f"cannot undo {_names(_refs(stays))}")
    if cut and not at_stake:
        parts.append(f"cuts {_names(cut)}")
    if below:
        parts.append(f"cancels {_runs(below)}")
    return ", ".join(parts)


def _has_effect(ref: CallRef) -> bool:
    return ref.effect in ("write", "irreversible")


def _runs(below: Sequence[RunRow]) -> str:
    return "its child run" if len(below) == 1 else f"its {len(below)} child runs"


def _refs(calls: Sequence[CallRow]) -> list[CallRef]:
    return [call.ref for call in calls]


def _names(calls: Sequence[CallRef]) -> str:
    names = list(dict.fromkeys(call.title or call.tool for call in calls))
    more = len(names) - _NAMED
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:_NAMED])} and {more} more"


def _waits(waiting_for: str, otherwise: str) -> str:
    return f"waits for {waiting_for}" if waiting_for else otherwise
