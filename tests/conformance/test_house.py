"""The record of the house: in order, complete, and whoever changes it is found out (R13, R32)."""

from __future__ import annotations

import pytest
from tests.conformance.intruding import Intruder

from standfast.abc import Store
from standfast.errors import StoreDamaged
from standfast.house_events import AttemptRefused, TokenRevoked
from standfast.stores.chain import HOUSE


def fill(store: Store) -> None:
    store.write(lambda tx: tx.note(AttemptRefused(by="mallory", route="POST /runs/r1/cancel", what="cancel", why="no")))
    store.write(lambda tx: tx.note(*(TokenRevoked(token=f"t{k}") for k in range(4))))


def test_events_of_the_house_are_numbered_and_read_in_order(store: Store) -> None:
    assert store.read(lambda tx: tx.house_head()) == (0, HOUSE)
    fill(store)
    found = store.read(lambda tx: tx.house())
    assert [e.seq for e in found] == [1, 2, 3, 4, 5]
    assert isinstance(found[0], AttemptRefused)
    assert (found[0].by, found[0].what, found[0].run) == ("mallory", "cancel", None)
    assert [e.seq for e in store.read(lambda tx: tx.house(3))] == [4, 5]
    assert [e.seq for e in store.read(lambda tx: tx.house(1, 2))] == [2, 3]
    assert store.read(lambda tx: tx.house_head())[0] == 5
    assert store.read(lambda tx: tx.verify_house()) == ""


@pytest.mark.parametrize("change", ["body", "at", "deleted", "moved", "first"])
def test_a_house_that_was_changed_is_found_out(store: Store, intruder: Intruder, change: str) -> None:
    """R32"""
    fill(store)
    if change == "body":
        intruder.execute("UPDATE house SET body = replace(body, 'mallory', 'alice!!') WHERE seq = 1")
    elif change == "at":
        intruder.execute("UPDATE house SET at = at + 1 WHERE seq = 3")
    elif change == "deleted":
        intruder.execute("DELETE FROM house WHERE seq = 3")
    elif change == "moved":
        intruder.execute("UPDATE house SET seq = 9 WHERE seq = 5")
    else:
        intruder.execute("DELETE FROM house WHERE seq = 1")
    assert "does not fit" in store.read(lambda tx: tx.verify_house())


def test_a_house_that_cannot_be_read_says_so(store: Store, intruder: Intruder) -> None:
    fill(store)
    intruder.execute("UPDATE house SET body = 'nonsense' WHERE seq = 2")
    with pytest.raises(StoreDamaged, match="row 2 of the record of the house"):
        store.read(lambda tx: tx.house())
