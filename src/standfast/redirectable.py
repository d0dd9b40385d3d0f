"""What a redirect would be about, and why it is not taken: no control is offered that the agent cannot honour (R40)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from standfast.abc import Tx
from standfast.records import PlanItem, RunView, When
from standfast.rows import RunRow

_TITLE: Final = 34  # characters of a plan item
_MOST_KNOWN: Final = 1000
_known: dict[str, tuple[bool, bool]] = {}  # by the contract's id, which is a digest of it: true in every store


def upcoming(plan: Sequence[PlanItem]) -> PlanItem | None:
    """The item being worked on, else the first queued one."""
    running = next((item for item in plan if item.status == "running"), None)
    return running or next((item for item in plan if item.status == "queued"), None)


def following(plan: Sequence[PlanItem]) -> PlanItem | None:
    """What comes after the item being worked on; past the last one, that one again."""
    return next((item for item in plan if item.status == "queued"), None) or upcoming(plan) or _last(plan)


def begun_at(plan: Sequence[PlanItem], step: int) -> PlanItem | None:
    """The item that this step worked on."""
    begun = [item for item in plan if item.step is not None and item.step <= step]
    return max(begun, key=lambda item: item.step or 0, default=None)


def why_not(tx: Tx, row: RunRow, when: When = "now", from_step: int | None = None) -> str:
    """Why a redirect is not taken; empty if it is."""
    if not declared(tx, row)[0]:
        return f"agent {row.agent} takes no redirects"
    plan = row.doc.plan
    if from_step is not None:
        item = begun_at(plan, from_step) or upcoming(plan)
    else:
        item = upcoming(plan) or _last(plan) if when == "now" else following(plan)
    return f"“{short(item.title)}” takes no redirects" if item is not None and not item.redirects else ""


@dataclass(frozen=True, slots=True)
class Takes:
    """What a redirect could be about, as a view shows it."""

    now: bool  # the step in progress
    next: bool  # what comes after it
    past: tuple[PlanItem, ...]  # earlier items, from which it is done again

    def __bool__(self) -> bool:
        return self.now or self.next or bool(self.past)


def taken_redirects(view: RunView) -> Takes:
    """What surfaces may offer: nothing that would be refused."""
    now = not view.consequences.no_redirect
    item = following(view.plan)
    past = tuple(one for one in view.plan if one.step is not None and one.redirects)
    return Takes(now, now if item is None else item.redirects, past)


def declared(tx: Tx, row: RunRow) -> tuple[bool, bool]:
    """Whether the agent takes redirects, and whether anything in its code would read them."""
    id_ = row.doc.contract
    known = _known.get(id_)
    if known is None:
        contract = tx.contract(id_)
        if contract is None:
            return True, True
        known = contract.get("redirects") is not False, contract.get("reads_redirects") is not False
        if len(_known) >= _MOST_KNOWN:
            _known.clear()  # under other threads that read it, too: nobody looks twice
        _known[id_] = known
    return known


def short(title: str) -> str:
    """A title as a button has room for."""
    text = " ".join(title.split())
    return text if len(text) <= _TITLE else text[: _TITLE - 1] + "…"


def _last(plan: Sequence[PlanItem]) -> PlanItem | None:
    """Past the end a person is asked whether the last one is taken again."""
    return next((item for item in reversed(plan) if item.status == "done"), None)
