"""Halts in a store: found by starts and claims while they hold, and the runs they match with all below them (R13)."""

from __future__ import annotations

import pytest
from tests.conformance.intruding import Intruder
from tests.conformance.rows import get, insert, note

from standfast.abc import Store
from standfast.rows import HaltRow, HoldInfo, RunDoc


def test_a_halt_holds_from_its_row_on_until_it_is_lifted(store: Store, other: Store) -> None:
    assert store.read(lambda tx: tx.halts()) == []
    store.write(lambda tx: tx.insert_halt(HaltRow(id="one", doc=b"1", key=b"k", signature=b"s")))
    store.write(lambda tx: tx.insert_halt(HaltRow(id="two", doc=b"2")))
    assert other.read(lambda tx: tx.halts()) == [
        HaltRow(id="one", doc=b"1", key=b"k", signature=b"s"),
        HaltRow(id="two", doc=b"2"),
    ]
    assert other.write(lambda tx: tx.lift_halt("one"))
    assert not store.write(lambda tx: tx.lift_halt("one")), "it is lifted once"
    assert not store.write(lambda tx: tx.lift_halt("none"))
    assert [halt.id for halt in store.read(lambda tx: tx.halts())] == ["two"]
    kept = store.read(lambda tx: tx.halts(lifted=True))
    assert [(halt.id, halt.lifted is not None) for halt in kept] == [("one", True), ("two", False)]
    assert store.read(lambda tx: tx.halt("one")) == kept[0]
    assert store.read(lambda tx: tx.halt("none")) is None


def test_an_id_is_used_once(store: Store) -> None:
    store.write(lambda tx: tx.insert_halt(HaltRow(id="one", doc=b"1")))
    with pytest.raises(Exception, match=r"(?i)unique"):
        store.write(lambda tx: tx.insert_halt(HaltRow(id="one", doc=b"2")))
    assert [halt.doc for halt in store.read(lambda tx: tx.halts())] == [b"1"]


def test_a_halt_whose_columns_are_odd_is_given_as_it_is(store: Store, intruder: Intruder) -> None:
    intruder.execute("INSERT INTO halts (id, doc, key) VALUES ('odd', 5, 'text')")
    assert store.read(lambda tx: tx.halts()) == [HaltRow(id="odd", doc=b"5", key=b"text")]


def fill(store: Store) -> None:
    insert(store, "queued", agent="a", doc=RunDoc(labels={"team": "x", "env": "p"}))
    insert(store, "paused", agent="a", status="paused")
    insert(store, "child", agent="b", parent="queued", status="running")
    insert(store, "grandchild", agent="c", parent="child", status="pausing")
    insert(store, "cancelling", agent="b", status="cancelling")
    insert(store, "ended", agent="a", status="done", doc=RunDoc(labels={"team": "x"}))
    insert(store, "other", agent="d", status="paused", doc=RunDoc(labels={"team": "y"}))


@pytest.mark.parametrize(
    ("agent", "labels", "found"),
    [
        (None, {}, ["queued", "paused", "child", "grandchild", "cancelling", "other"]),
        ("a", {}, ["queued", "paused", "child", "grandchild"]),
        ("b", {}, ["child", "grandchild", "cancelling"]),
        (None, {"team": "x"}, ["queued", "child", "grandchild"]),
        (None, {"team": "x", "env": "p"}, ["queued", "child", "grandchild"]),
        (None, {"team": "x", "env": "q"}, []),
        ("a", {"team": "y"}, []),
        ("nobody", {}, []),
    ],
    ids=str,
)
def test_live_runs_are_found_with_all_below_them_parents_first(
    store: Store, agent: str | None, labels: dict[str, str], found: list[str]
) -> None:
    fill(store)
    assert store.read(lambda tx: tx.runs_to_halt(agent, labels)) == found


def test_the_runs_that_a_halt_holds_are_found_by_its_name(store: Store, intruder: Intruder) -> None:
    fill(store)
    for id_, halts in (("paused", {"one": "x"}), ("other", {"one": "x", "two": "y"})):
        row = get(store, id_)
        row.doc.holds["halted"] = HoldInfo(1.0, "x", {"halts": {**halts}, "step": 0})
        store.write(lambda tx, row=row: tx.save(row, [note("halted")]))
    insert(store, "bad", status="paused")
    intruder.execute("UPDATE runs SET doc = 'nonsense' WHERE id = 'bad'")
    assert store.read(lambda tx: tx.runs_halted_by("one")) == ["paused", "other"]
    assert store.read(lambda tx: tx.runs_halted_by("two")) == ["other"]
    assert store.read(lambda tx: tx.runs_halted_by("on")) == []
    assert "bad" in store.read(lambda tx: tx.runs_to_halt(None, {}))
    assert "bad" not in store.read(lambda tx: tx.runs_to_halt(None, {"team": "x"}))
