"""What a run and its live children have spent; ended children are in the run's own count already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from standfast import budget as budgets
from standfast.abc import Tx
from standfast.records import LIVE, Spent
from standfast.rows import RunRow


def family_spent(tx: Tx, row: RunRow, known: Mapping[str, Spent] | None = None) -> Spent:
    """The sum; `known` says better than the store what some have spent. Children run beside it: seconds are no sum."""
    total = replace((known or {}).get(row.id, row.spent))
    if row.status in LIVE:
        for child in tx.children(row.id, live=True):
            child_row = tx.run(child)
            if child_row is not None:
                spent = family_spent(tx, child_row, known)
                budgets.add(total, spent)
                total.seconds = max(total.seconds, spent.seconds)
    return total
