"""What a view shows as needed is taken by the verbs that it offers: every kind of need in every status (R14, R26)."""

from __future__ import annotations

from itertools import combinations
from typing import Any, cast

import pytest

from standfast import machine
from standfast.machine import STATUSES, UserVerb, decide, resume_leaves
from standfast.records import ENDED, Choice, Hold, Need, Spent, Status
from standfast.rows import CallRow, HoldInfo, MailRow, Missed, RunDoc, RunRow
from standfast.starting import blank_row
from standfast.views import needs

OF_CALLS: dict[str, tuple[UserVerb, ...]] = {
    "question": ("answer",),
    "approval": ("approve", "deny"),
    "doubt": ("resolve",),
}
HELD_FOR: tuple[Hold, ...] = ("stale", "budget", "loop", "error", "diverged", "tripwire")
STANDING: tuple[Hold, ...] = ("taken", "halted", "asks", "in_doubt")


class NoContract:
    def contract(self, _: str) -> None:
        return None

    def contract_of(self, _: str) -> None:
        return None


def in_status(status: Status, *holds: Hold) -> RunRow:
    row = blank_row("run", "agent", RunDoc(), 0.0)
    row.status = status
    row.doc.holds = {name: HoldInfo(0.0) for name in holds}
    return row


def call(status: Any, kind: str = "tool") -> CallRow:
    return CallRow(
        run=1,
        id=f"{kind}-{status}",
        epoch=0,
        step=0,
        attempt=1,
        tool="pay",
        kind=kind,
        effect="write",
        status=status,
        args=b"{}",
    )


def shown(row: RunRow) -> list[Need]:
    """All that could be asked of a person, in this status."""
    open_calls = [call("asking", "ask"), call("asking"), call("in_doubt")]
    mail = MailRow(run=1, id="mail-0", kind="redirect", text="shorter", when="next", by=None)
    row.doc.missed = {"mail-0": Missed(0, 0.0)}
    return needs(cast("Any", NoContract()), row, open_calls, Spent(), [mail])


def offered(need: Need) -> set[UserVerb]:
    if need.kind in OF_CALLS:
        return set(OF_CALLS[need.kind])
    return {cast("UserVerb", choice.verb) for choice in need.choices if isinstance(choice, Choice)}


@pytest.mark.parametrize("status", STATUSES)
def test_every_need_is_taken_by_every_verb_that_it_offers(status: Status) -> None:
    found = shown(in_status(status, *HELD_FOR, "in_doubt"))
    for need in found:
        assert offered(need)
        for verb in offered(need):
            assert decide(status, verb).kind in ("accept", "note"), (need.kind, verb)
    kinds = {need.kind for need in found}
    if status not in (*ENDED, "cancelling"):
        assert kinds >= {*OF_CALLS, "unread"}  # it goes on beside them, or waits for them
    if status == "paused":
        assert {need.id for need in found} >= {*HELD_FOR}


@pytest.mark.parametrize("others", [c for n in range(3) for c in combinations(STANDING, n)], ids="-".join)
@pytest.mark.parametrize("name", HELD_FOR)
def test_no_choice_is_offered_that_another_hold_stands_in_the_way_of(name: Hold, others: tuple[Hold, ...]) -> None:
    row = in_status("paused", name, *others)
    [need] = [need for need in shown(row) if need.id == name]
    verbs = offered(need)
    assert "cancel" in verbs
    left = resume_leaves(row.doc.holds, accept_stale=name == "stale", budget_has_room=name == "budget")
    assert ("resume" in verbs) == (not left)
    assert not ("rewind" in verbs and "halted" in others)
    assert ("hand_back" in verbs) == ("taken" in others)
    assert machine.RESUME_CLEARS >= {name} or name in ("stale", "budget")
