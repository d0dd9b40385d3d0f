"""Finding runs: lists, filters, what a driver may claim, what is due (R26)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.rows import get, insert, note

from standfast.abc import Store, Tx
from standfast.records import LIVE
from standfast.rows import HoldInfo, RunDoc


def ids(store: Store, **filters: Any) -> list[str]:
    asked: dict[str, Any] = {"status": None, "agent": None, "labels": None, "needs": None, "limit": 100, "before": None}
    return [named[0] for named in store.read(lambda tx: tx.list_runs(**{**asked, **filters}))]


@pytest.fixture
def runs(store: Store) -> Store:
    insert(store, "r0", agent="a", status="queued", doc=RunDoc(labels={"team": "x", "kind": "k"}))
    insert(store, "r1", agent="a", status="done", doc=RunDoc(labels={"team": "x"}))
    insert(store, "r2", agent="b", status="paused", doc=RunDoc(labels={"team": "y"}, holds={"asks": HoldInfo(1.0)}))
    insert(store, "r3", agent="b", status="paused", doc=RunDoc(holds={"user": HoldInfo(1.0)}))
    return store


def test_runs_are_listed_newest_first(runs: Store) -> None:
    assert ids(runs) == ["r3", "r2", "r1", "r0"]


def test_a_list_is_read_page_by_page(runs: Store) -> None:
    assert ids(runs, limit=2) == ["r3", "r2"]
    assert ids(runs, limit=2, before="r2") == ["r1", "r0"]
    assert ids(runs, limit=2, before="r0") == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"status": ["paused"]}, ["r3", "r2"]),
        ({"status": ["queued", "done"]}, ["r1", "r0"]),
        ({"status": []}, []),
        ({"agent": "a"}, ["r1", "r0"]),
        ({"labels": {"team": "x"}}, ["r1", "r0"]),
        ({"labels": {"team": "x", "kind": "k"}}, ["r0"]),
        ({"labels": {"team": "nobody"}}, []),
        ({"labels": {}}, ["r3", "r2", "r1", "r0"]),
        ({"needs": True}, ["r2"]),
        ({"needs": False}, ["r3", "r1", "r0"]),
        ({"agent": "b", "status": ["paused"], "needs": False}, ["r3"]),
    ],
)
def test_filters_narrow_the_list(runs: Store, filters: dict[str, Any], found: list[str]) -> None:
    assert ids(runs, **filters) == found


def test_a_run_needs_nobody_any_more_once_its_hold_is_gone(runs: Store) -> None:
    def act(tx: Tx) -> None:
        row = tx.run("r2")
        assert row is not None
        row.doc.holds.clear()
        row.status = "queued"
        tx.save(row, [note("x")])

    runs.write(act)
    assert ids(runs, needs=True) == []


def test_a_driver_finds_what_moves_oldest_first_and_nothing_that_rests(store: Store) -> None:
    for status in ("queued", "running", "pausing", "paused", "cancelling", "cancelled", "done", "failed"):
        insert(store, status, status=status, holder="d1" if status == "running" else None)
    found = store.read(lambda tx: tx.claimable())
    assert found == [
        ("queued", "a", "queued", None),
        ("running", "a", "running", "d1"),
        ("pausing", "a", "pausing", None),
        ("cancelling", "a", "cancelling", None),
    ]
    assert {f[2] for f in found} < set(LIVE)
    assert store.read(lambda tx: tx.held()) == found[1:]


def test_a_driver_asks_for_as_many_queued_runs_of_each_agent_as_it_has_room_for(store: Store) -> None:
    for n in range(4):
        insert(store, f"a{n}", status="queued", agent="a")
        insert(store, f"b{n}", status="queued", agent="b")
    found = store.read(lambda tx: tx.queued({"a": 1, "b": 3}))
    assert [id_ for id_, _, _, _ in found] == ["a0", "b0", "b1", "b2"]
    assert store.read(lambda tx: tx.queued({})) == []


def test_what_is_due_is_found_by_time(store: Store) -> None:
    insert(store, "late", wake_at=20.0)
    insert(store, "early", wake_at=10.0)
    insert(store, "never")
    assert store.read(lambda tx: tx.due(9.0)) == []
    assert store.read(lambda tx: tx.due(10.0)) == ["early"]
    assert store.read(lambda tx: tx.due(99.0)) == ["early", "late"]
    assert get(store, "early").wake_at == 10.0


def test_nothing_is_due_in_an_empty_store(store: Store) -> None:
    assert store.read(lambda tx: tx.due(1e12)) == []
