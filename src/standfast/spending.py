"""What a run and its children have spent; what a call of a child has ended with is in the run's own count already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from standfast import budget as budgets
from standfast.abc import Tx
from standfast.records import LIVE, Spent
from standfast.rows import RunRow


def family_spent(tx: Tx, row: RunRow, known: Mapping[str, Spent] | None = None) -> Spent:
    """The sum; `known` says better than the store what some have spent, but for their live children.

    Children run beside their parent: seconds are no sum.
    """
    better = (known or {}).get(row.id)
    total = replace(better or row.spent)
    for child in tx.uncounted_children(row.id) if better is None else tx.children(row.id, live=True):
        _add_child(tx, total, child, known)
    return total


def spent_before(tx: Tx, row: RunRow) -> Spent:
    """What a run that is taken up has spent, with the children it gave up in earlier steps."""
    total = replace(row.spent)
    in_step = {call.id for call in tx.calls_of_step(row.n, row.epoch, row.step)}  # these may be asked for again
    for child in tx.uncounted_children(row.id):
        child_row = tx.run(child)
        if child_row is not None and child_row.status not in LIVE and child_row.doc.parent_call not in in_step:
            _add_child(tx, total, child, None)
    return total


def _add_child(tx: Tx, total: Spent, child: str, known: Mapping[str, Spent] | None) -> None:
    row = tx.run(child)
    if row is not None:
        spent = family_spent(tx, row, known)
        budgets.add(total, spent)
        total.seconds = max(total.seconds, spent.seconds)
