"""The two tables keep their promises: searched as a graph, not read by eye (R1, R6, R11)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from standfast.machine import (
    ANSWERS,
    RESUME_CLEARS,
    STATUSES,
    TRANSITIONS,
    USER_VERBS,
    Transition,
    UserVerb,
    Verb,
    can,
    decide,
    resume_leaves,
)
from standfast.records import ENDED, LIVE, Hold, Status
from standfast.rows import RunDoc
from standfast.starting import blank_row
from standfast.stops import enter

HELD_BY_A_DRIVER: tuple[Status, ...] = ("running", "pausing", "cancelling")
ALL_VERBS: tuple[Verb, ...] = tuple(verb for part in get_args(Verb) for verb in get_args(part))


def anything(_: Transition) -> bool:
    return True


def by_a_driver(row: Transition) -> bool:
    return "driver" in row.who


def next_statuses(status: Status | None, allowed: Callable[[Transition], bool]) -> set[Status]:
    return {target for row in TRANSITIONS if status in row.sources and allowed(row) for target in row.targets}


def reachable(start: Status | None, allowed: Callable[[Transition], bool] = anything) -> set[Status]:
    """Every status some path of allowed transitions leads to (breadth first); not `start` itself, unless by a path."""
    seen: set[Status] = set()
    edge = next_statuses(start, allowed)
    while edge:
        seen |= edge
        edge = {after for status in edge for after in next_statuses(status, allowed)} - seen
    return seen


def test_statuses_are_never_renamed() -> None:
    assert STATUSES == get_args(Status)
    assert STATUSES == ("queued", "running", "pausing", "paused", "cancelling", "cancelled", "done", "failed")


def test_every_status_can_occur() -> None:
    assert reachable(None) == set(STATUSES)


def test_every_verb_of_the_table_has_a_row() -> None:
    assert {row.verb for row in TRANSITIONS} == set(ALL_VERBS)


@pytest.mark.parametrize("status", ENDED)
def test_an_ended_run_stays_as_it_ended(status: Status) -> None:
    """R11: one ending."""
    assert reachable(status) == set()


def test_a_cancelling_run_can_only_become_cancelled() -> None:
    """R7, R11: no path leads from an accepted cancel to done, failed or back to work."""
    assert reachable("cancelling") == {"cancelling", "cancelled"}


@pytest.mark.parametrize("status", LIVE)
def test_every_live_run_can_be_cancelled_by_one_verb(status: Status) -> None:
    """R6: the verb takes effect at once; what follows needs no person."""
    rule = decide(status, "cancel")
    assert rule.kind == "accept"
    assert set(rule.target) <= {"cancelling", "cancelled"}
    for target in rule.target:
        assert target == "cancelled" or "cancelled" in reachable(target, by_a_driver)


@pytest.mark.parametrize("status", HELD_BY_A_DRIVER)
def test_a_run_whose_driver_died_can_be_taken_over_and_left(status: Status) -> None:
    """R2: another driver gets it out of that status, without a person."""
    assert can(status, "takeover", status)
    assert reachable(status, by_a_driver) - {status}


def test_a_run_no_driver_holds_needs_no_takeover() -> None:
    for status in set(STATUSES) - set(HELD_BY_A_DRIVER):
        assert not any(can(status, "takeover", target) for target in STATUSES)


@pytest.mark.parametrize("status", [status for status in LIVE if status != "cancelling"])
def test_no_live_run_is_trapped_short_of_done(status: Status) -> None:
    """R4: whatever holds it, some path leads on to its end."""
    assert "done" in reachable(status)


def test_only_a_claim_sets_a_run_going() -> None:
    """R3: a run that does not run starts to run by a driver's claim, which raises the fence."""
    into_running = {
        (source, row.verb)
        for row in TRANSITIONS
        if "running" in row.targets
        for source in row.sources
        if source != "running"
    }
    assert into_running == {("queued", "claim")}


def test_nothing_is_written_by_a_step_while_the_gate_is_shut() -> None:
    """R7: a commit needs a running run."""
    assert [row.sources for row in TRANSITIONS if row.verb == "commit"] == [("running",)]


def test_a_paused_run_goes_on_only_through_the_queue() -> None:
    """R3: pause holds until someone lets go of it."""
    assert next_statuses("paused", anything) == {"paused", "queued", "pausing", "cancelling", "cancelled"}


def test_every_verb_has_an_answer_in_every_status() -> None:
    assert set(ANSWERS) == {(verb, status) for verb in USER_VERBS for status in STATUSES}
    for verb, status in ANSWERS:
        assert decide(status, verb) is ANSWERS[verb, status]
        assert decide(status, verb).says


def test_every_accepted_verb_leads_where_the_transitions_allow() -> None:
    for (verb, status), rule in ANSWERS.items():
        for target in rule.target:
            assert can(status, verb, target), f"{verb}: {status} -> {target}"


def test_only_an_accepted_verb_changes_a_run() -> None:
    for pair, rule in ANSWERS.items():
        assert bool(rule.target) == (rule.kind == "accept"), pair


@pytest.mark.parametrize("verb", USER_VERBS)
def test_no_transition_of_a_verb_is_without_an_answer_that_offers_it(verb: UserVerb) -> None:
    """A redirect with from_step is answered as a rewind, so either answer may offer it."""
    for status in STATUSES:
        offered = set(decide(status, verb).target)
        if verb == "redirect":
            offered |= set(decide(status, "rewind").target)
        assert {target for target in STATUSES if can(status, verb, target)} == offered


@pytest.mark.parametrize("status", ENDED)
@pytest.mark.parametrize("verb", [verb for verb in USER_VERBS if verb != "resolve"])
def test_a_verb_on_an_ended_run_is_too_late(verb: UserVerb, status: Status) -> None:
    """R11: the loser of the race is told the truth."""
    assert decide(status, verb).kind == "too_late"


@pytest.mark.parametrize("status", ENDED)
def test_a_doubt_is_still_settled_in_the_record_of_an_ended_run(status: Status) -> None:
    """R15."""
    assert decide(status, "resolve").kind == "note"


@pytest.mark.parametrize("verb", ["pause", "resume", "step_once", "redirect", "message", "edit", "rewind"])
def test_a_cancel_under_way_is_not_talked_out_of_it(verb: UserVerb) -> None:
    """R6, R12."""
    assert decide("cancelling", verb).kind == "too_late"


def test_pause_is_kept_even_if_the_run_is_pausing_for_another_reason() -> None:
    """R3: a run pausing for its budget or a rewind does not go on by itself once a person has paused it."""
    assert decide("pausing", "pause").target == ("pausing",)
    assert decide("paused", "pause").target == ("paused",)


def test_a_resume_sent_while_pausing_is_not_lost() -> None:
    """R4."""
    assert decide("pausing", "resume").kind == "note"
    assert can("pausing", "settle", "queued")


def test_mail_is_taken_in_every_status_before_a_stop() -> None:
    """R5: a redirect is never refused while it can still be read."""
    for status in ("queued", "running", "pausing", "paused"):
        assert decide(status, "redirect").kind == decide(status, "message").kind == "accept"


def test_a_run_is_edited_and_stepped_only_while_paused() -> None:
    """R29."""
    for verb in ("edit", "step_once"):
        assert [status for status in STATUSES if decide(status, verb).kind == "accept"] == ["paused"]
        assert {decide(status, verb).kind for status in ("queued", "running", "pausing")} == {"refuse"}


def test_can_says_no_to_what_is_not_in_the_table() -> None:
    assert not can("done", "cancel", "cancelled")
    assert not can("queued", "pause", "pausing")
    assert not can("running", "pause", "paused")
    assert not can("running", "takeover", "cancelling")
    assert not can("cancelling", "cancel", "cancelled")
    assert not can(None, "start", "running")


def test_resume_clears_what_a_person_may_wave_through() -> None:
    assert frozenset({"user", "loop", "error", "diverged", "tripwire"}) == RESUME_CLEARS
    assert not resume_leaves(RESUME_CLEARS, accept_stale=False, budget_has_room=False)


@pytest.mark.parametrize("hold", ["asks", "in_doubt", "halted"])
def test_resume_never_waves_through_a_question_a_doubt_or_a_halt(hold: Hold) -> None:
    """R14, R15, R13."""
    assert resume_leaves({hold, "user"}, accept_stale=True, budget_has_room=True) == {hold}


@pytest.mark.parametrize("status", LIVE)
def test_a_halt_leaves_no_run_going(status: Status) -> None:
    """R13: queued becomes paused, running becomes pausing; what stands still or ends goes on doing so."""
    after = {target for target in STATUSES if can(status, "halt", target)}
    expected: dict[Status, set[Status]] = {
        "queued": {"paused"},
        "running": {"pausing"},
        "pausing": {"pausing"},
        "paused": {"paused"},
        "cancelling": set(),
    }
    assert after == expected[status]


def test_a_halted_run_goes_on_only_through_a_lift_and_the_queue() -> None:
    """R13: no path of halts and lifts alone leads to running, and an ended run is neither halted nor lifted."""
    operators: tuple[Verb, ...] = ("halt", "lift")
    for status in LIVE:
        assert "running" not in reachable(status, lambda row: row.verb in operators)
    assert {target for target in STATUSES if can("paused", "lift", target)} == {"paused", "queued"}
    assert {target for target in STATUSES if can("pausing", "lift", target)} == {"pausing"}
    for ended in (*ENDED, "cancelling"):
        assert not any(can(ended, verb, target) for verb in operators for target in STATUSES)


def test_resume_of_an_idle_run_is_not_refused() -> None:
    assert not resume_leaves({"waiting"}, accept_stale=False, budget_has_room=False)


def test_a_stale_world_is_accepted_only_in_so_many_words() -> None:
    """R16."""
    assert resume_leaves({"stale"}, accept_stale=False, budget_has_room=True) == {"stale"}
    assert not resume_leaves({"stale"}, accept_stale=True, budget_has_room=False)


def test_a_spent_budget_holds_until_there_is_room() -> None:
    """R17."""
    assert resume_leaves({"budget"}, accept_stale=True, budget_has_room=False) == {"budget"}
    assert not resume_leaves({"budget"}, accept_stale=False, budget_has_room=True)


def test_every_hold_is_either_cleared_by_a_resume_or_named_as_in_the_way() -> None:
    holds: tuple[Hold, ...] = get_args(Hold)
    strict = resume_leaves(holds, accept_stale=False, budget_has_room=False)
    assert strict == set(holds) - RESUME_CLEARS - {"waiting"}


def test_the_tables_in_the_docs_are_those_of_the_machine() -> None:
    generator = Path(__file__).parents[2] / "docs" / "generate_tables.py"
    checked = subprocess.run([sys.executable, generator, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("status", ENDED)
def test_a_row_that_has_ended_is_never_brought_back(status: Status) -> None:
    """R11: the table is asserted where every change of status goes through, not only drawn."""
    row = blank_row("r1", "a", RunDoc(), 0.0)
    row.status = status
    for target in STATUSES:
        with pytest.raises(AssertionError, match=f"it is {status}"):
            enter(row, target, 1.0)
    assert row.status == status
