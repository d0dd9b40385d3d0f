"""Who writes to a run: exactly one of those who read it (R2, R11)."""

from __future__ import annotations

import threading

import pytest
from tests.conformance.rows import get, insert, note, ref, step

from standfast import events as ev
from standfast.abc import Store, Tx
from standfast.rows import RunRow


def everything(store: Store, row: RunRow) -> object:
    def look(tx: Tx) -> object:
        return (
            tx.run_n(row.n),
            tx.record(row.n, 0),
            tx.calls(row.n),
            tx.mail(row.n),
            tx.snapshot(row),
            tx.last_signal(),
        )

    return store.read(look)


def test_a_new_run_is_read_back_as_it_was_written(store: Store) -> None:
    row = insert(store, "r1", state=b"[]\n7")
    assert (row.id, row.agent, row.status, row.seq, row.step) == ("r1", "a", "queued", 1, 0)
    assert get(store) == row
    assert store.read(lambda tx: tx.run_n(row.n)) == row
    assert store.read(lambda tx: tx.snapshot(row)) == (1, b"[]\n7")


def test_an_unknown_run_is_none_and_not_an_error(store: Store) -> None:
    assert store.read(lambda tx: tx.run("nobody")) is None
    assert store.read(lambda tx: tx.run_n(99)) is None


def test_advance_moves_seq_head_and_step_together(store: Store) -> None:
    row = insert(store)
    later = step(store, row, b"[]\n1")
    assert (later.seq, later.step, later.snapshot) == (row.seq + 1, 1, row.seq + 1)
    assert later.head != row.head
    assert store.read(lambda tx: tx.snapshot(later)) == (later.seq, b"[]\n1")


@pytest.mark.parametrize("stale", ["seq", "fence", "both"])
def test_advance_from_a_stale_row_loses_and_writes_nothing(store: Store, stale: str) -> None:
    row = step(store, insert(store), b"[]\n1")
    before = everything(store, row)
    mine = row.copy()
    mine.in_flight = [ref("c1")]
    if stale != "seq":
        mine.fence += 1
    seq = row.seq if stale == "fence" else row.seq - 1
    assert store.write(lambda tx: tx.advance(mine, [note("lost")], seq, 2, b"[]\n2")) is False
    assert everything(store, row) == before


def test_a_stale_row_with_many_events_does_not_jump_over_what_was_written(store: Store) -> None:
    row = insert(store)
    step(store, row, b"[]\n1")
    before = everything(store, row)
    many = [note(str(n)) for n in range(5)]
    assert store.write(lambda tx: tx.advance(row.copy(), many, row.seq, None, None)) is False
    assert everything(store, row) == before


def test_of_two_who_advance_from_the_same_row_one_wins(store: Store, other: Store) -> None:
    row = insert(store)
    wins: list[bool] = []
    ready = threading.Barrier(2)

    def advance(through: Store, text: str) -> None:
        ready.wait()
        wins.append(through.write(lambda tx: tx.advance(row.copy(), [note(text)], row.seq, 1, text.encode())))

    threads = [threading.Thread(target=advance, args=pair) for pair in ((store, "a"), (other, "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == [False, True]
    assert get(store).seq == row.seq + 1


def test_advance_without_events_keeps_the_record_and_still_guards(store: Store) -> None:
    row = insert(store)
    mine = row.copy()
    mine.in_flight = [ref("c1")]
    assert store.write(lambda tx: tx.advance(mine, [], row.seq, None, None))
    assert get(store).seq == row.seq
    after = get(store)
    assert store.read(lambda tx: tx.verify(after)) == ""
    step(store, after, b"x")
    assert store.write(lambda tx: tx.advance(mine, [], row.seq, None, None)) is False


def test_advance_never_changes_what_belongs_to_verbs(store: Store) -> None:
    """Status, holder, fence and document are changed by `save` alone."""
    row = insert(store)
    mine = row.copy()
    mine.status, mine.holder = "done", "me"
    assert store.write(lambda tx: tx.advance(mine, [note("x")], row.seq, None, None))
    after = get(store)
    assert (after.status, after.holder, after.fence) == ("queued", None, row.fence)


def test_save_from_a_row_of_an_earlier_transaction_fails_and_writes_nothing(store: Store) -> None:
    row = insert(store)
    step(store, row, b"[]\n1")
    before = everything(store, row)
    stale = row.copy()
    stale.status = "paused"
    with pytest.raises(AssertionError):
        store.write(lambda tx: tx.save(stale, [note("lost")]))
    assert everything(store, row) == before


def test_a_transaction_that_raises_writes_nothing(store: Store) -> None:
    row = insert(store)
    before = everything(store, row)

    def act(tx: Tx) -> None:
        fresh = tx.run("r1")
        assert fresh is not None
        tx.save(fresh, [note("half")], state=b"half")
        tx.signal("r1")
        raise KeyError("in the middle")

    with pytest.raises(KeyError):
        store.write(act)
    assert everything(store, row) == before


def test_a_run_id_is_given_once(store: Store) -> None:
    first = insert(store)
    with pytest.raises(Exception):  # noqa: B017 - which error is the backend's business
        insert(store)
    assert get(store) == first
    assert store.read(lambda tx: tx.verify(first)) == ""


def test_save_writes_status_holds_and_document(store: Store) -> None:
    insert(store)

    def act(tx: Tx) -> None:
        row = tx.run("r1")
        assert row is not None
        row.status, row.fence, row.holder, row.wake_at = "running", 4, "driver-1", 12.5
        row.doc.labels = {"team": "a"}
        tx.save(row, [ev.RunClaimed(driver="driver-1", fence=4, step=0, attempt=1)])

    store.write(act)
    row = get(store)
    assert (row.status, row.fence, row.holder, row.wake_at, row.doc.labels) == (
        "running",
        4,
        "driver-1",
        12.5,
        {"team": "a"},
    )


def test_change_doc_leaves_the_old_document_alone(store: Store) -> None:
    row = insert(store)

    def act(tx: Tx) -> None:
        fresh = tx.run("r1")
        assert fresh is not None
        new = tx.change_doc(fresh, [lambda doc: setattr(doc, "by", "somebody")])
        assert (fresh.doc.by, new.by) == (None, "somebody")

    store.write(act)
    assert get(store).doc.by == "somebody"
    assert row.doc.by is None
