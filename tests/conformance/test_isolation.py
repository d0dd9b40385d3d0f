"""Readers and writers: a read sees one state, blocks nobody, and never waits (R34, R38)."""

from __future__ import annotations

import threading
import time

import pytest
from tests.conformance.rows import get, insert, note, step

from standfast.abc import Store, Tx
from standfast.errors import StoreBusy
from standfast.stores.sqlite import BUSY_SECONDS


def in_thread(work: object) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_a_read_sees_one_state_whatever_is_written_meanwhile(store: Store, other: Store) -> None:
    row = insert(store)

    def look(tx: Tx) -> tuple[int, int, int]:
        before = tx.run("r1")
        writer = in_thread(lambda: step(other, row, b"[]\n1"))
        writer.join(120)
        assert not writer.is_alive(), "a read must not block a writer"
        after = tx.run("r1")
        assert before is not None
        assert after is not None
        return before.seq, after.seq, len(tx.record(row.n, 0))

    assert store.read(look) == (1, 1, 1)
    assert get(store).seq == 2


def test_a_reader_does_not_wait_for_a_writer_and_sees_nothing_half_written(store: Store, other: Store) -> None:
    insert(store)
    written, go_on = threading.Event(), threading.Event()

    def act(tx: Tx) -> None:
        row = tx.run("r1")
        assert row is not None
        row.status = "paused"
        tx.save(row, [note("x")])
        written.set()
        assert go_on.wait(120)

    writer = in_thread(lambda: other.write(act))
    assert written.wait(120)
    began = time.monotonic()
    assert get(store).status == "queued"
    assert time.monotonic() - began < 60  # the writer goes on only after this
    go_on.set()
    writer.join(120)
    assert get(store).status == "paused"


def test_a_writer_that_meets_another_says_so_within_two_seconds(store: Store, other: Store) -> None:
    insert(store)
    holding, go_on = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        tx.signal("r1")
        holding.set()
        assert go_on.wait(120)

    writer = in_thread(lambda: other.write(hold))
    assert holding.wait(120)
    began = time.monotonic()
    with pytest.raises(StoreBusy) as busy:
        store.write(lambda tx: tx.signal("r1"))
    assert BUSY_SECONDS < 2 and time.monotonic() - began < 60  # the other one goes on only after this
    assert busy.value.hint
    go_on.set()
    writer.join(120)
    store.write(lambda tx: tx.signal("r1"))


def test_a_change_by_somebody_else_is_noticed(store: Store, other: Store) -> None:
    if other is store:
        pytest.skip("a store of one process has nobody else")
    insert(store)
    seen = store.version()
    assert store.version() == seen
    other.write(lambda tx: tx.signal("r1"))
    assert store.version() != seen


def test_what_was_written_is_there_when_the_store_is_opened_again(store: Store, other: Store) -> None:
    row = step(store, insert(store), b"[]\n1")
    assert get(other) == row
    assert other.exists()
    assert other.read(lambda tx: tx.verify(row)) == ""


def test_creating_twice_changes_nothing(store: Store, other: Store) -> None:
    row = insert(store)
    other.create()
    store.create()
    assert get(store) == row
