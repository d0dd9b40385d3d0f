"""The record: in order, complete, and whoever changes it is found out (R2, R28, R32)."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.conformance.intruding import Intruder
from tests.conformance.rows import get, insert, note, step

from standfast import events as ev
from standfast.abc import Store, Tx
from standfast.clock import uptime
from standfast.rows import RunRow
from standfast.stores.chain import digests, genesis, link


def test_events_are_numbered_without_gaps_and_read_in_order(store: Store) -> None:
    row = insert(store)
    for k in range(5):
        mine = get(store)
        store.write(lambda tx, k=k, mine=mine: tx.advance(mine, [note(f"{k}a"), note(f"{k}b")], mine.seq, None, None))
    row = get(store)
    rows = store.read(lambda tx: tx.record(row.n, 0))
    events = [e for _, batch in rows for e in batch]
    assert [e.seq for e in events] == list(range(1, 12))
    assert [seq for seq, _ in rows] == [1, 3, 5, 7, 9, 11]
    assert [e.text for e in events if isinstance(e, ev.Noted)] == [f"{k}{x}" for k in range(5) for x in "ab"]


@pytest.mark.parametrize("after", range(12))
def test_reading_after_any_seq_gives_the_rest_exactly(store: Store, after: int) -> None:
    """R28: also in the middle of a commit with several events."""
    insert(store)
    for _ in range(5):
        mine = get(store)
        store.write(lambda tx, mine=mine: tx.advance(mine, [note("a"), note("b")], mine.seq, None, None))
    n = get(store).n
    found = store.read(lambda tx: tx.record(n, after))
    assert [e.seq for _, batch in found for e in batch] == list(range(after + 1, 12))


def test_a_long_record_is_read_in_pieces_without_loss(store: Store) -> None:
    insert(store)
    for _ in range(30):
        mine = get(store)
        store.write(lambda tx, mine=mine: tx.advance(mine, [note("x")], mine.seq, None, None))
    n, after, seen = get(store).n, 0, list[int]()
    while rows := store.read(lambda tx: tx.record(n, after, 7)):  # noqa: B023 - called at once
        assert len(rows) <= 7
        after = rows[-1][0]
        seen += [e.seq for _, batch in rows for e in batch]
    assert seen == list(range(1, 32))


def test_a_stop_has_one_moment_by_both_clocks_however_long_its_transaction_takes(store: Store) -> None:
    """R31: else one row tells two times of one thing."""
    row = insert(store)

    def slowly(tx: Tx) -> None:
        mine = tx.run(row.id)
        assert mine is not None
        time.sleep(0.4)
        tx.save(mine, [ev.PauseAsked(by="ann", reason="", trigger="api", status="pausing")])

    between = time.time() - uptime()
    store.write(slowly)
    ((_, (asked,)),) = store.read(lambda tx: tx.record(row.n, row.seq))
    assert isinstance(asked, ev.PauseAsked) and asked.uptime is not None
    assert abs(asked.at - asked.uptime - between) < 0.2


def test_records_of_two_runs_do_not_mix(store: Store) -> None:
    a, b = insert(store, "a"), insert(store, "b")
    a = step(store, a, b"sa")
    b = step(store, b, b"sb")
    for row, state in ((a, b"sa"), (b, b"sb")):
        assert store.read(lambda tx, row=row: tx.snapshot(row)) == (row.seq, state)
        assert store.read(lambda tx, row=row: tx.verify(row)) == ""


def test_the_snapshot_of_every_step_stays_readable(store: Store) -> None:
    """R29: inspect any step."""
    row = insert(store, state=b"s0")
    for k in range(1, 6):
        row = step(store, row, f"s{k}".encode())
    for k in range(6):
        found = store.read(lambda tx, k=k: tx.snapshot(row, k))
        assert found is not None
        assert found[1] == f"s{k}".encode()
    assert store.read(lambda tx: tx.snapshot(row, 6)) is None
    assert store.read(lambda tx: tx.snapshot(row, -1)) is None


def test_after_a_rewind_a_step_has_the_snapshot_of_its_new_epoch(store: Store) -> None:
    row = insert(store, state=b"s0")
    row = step(store, row, b"old 1")
    row = step(store, row, b"old 2")

    def rewind(tx: Tx) -> None:
        fresh = tx.run("r1")
        assert fresh is not None
        fresh.epoch, fresh.step = 1, 1
        tx.save(fresh, [ev.Rewound(to=1, epoch=1)], state=b"old 1")

    store.write(rewind)
    row = step(store, get(store), b"new 2")
    look: Callable[[int], tuple[int, bytes] | None] = lambda k: store.read(lambda tx: tx.snapshot(row, k))  # noqa: E731
    assert [found[1] for k in range(3) if (found := look(k))] == [b"s0", b"old 1", b"new 2"]
    assert store.read(lambda tx: tx.snapshot_at(row, 3)) == b"old 2"
    assert store.read(lambda tx: tx.snapshot_at(row, 99)) is None


# --- tampering ---------------------------------------------------------------------------------------


@pytest.fixture
def run(store: Store) -> RunRow:
    row = insert(store, state=b"[]\n0")
    for k in range(1, 5):
        row = step(store, row, f"[]\n{k}".encode())
        mine = row.copy()
        store.write(lambda tx, mine=mine: tx.advance(mine, [note("between")], mine.seq, None, None))
        row = get(store)
    assert store.read(lambda tx: tx.verify(row)) == ""
    return row


def trouble(store: Store, row: RunRow) -> str:
    return store.read(lambda tx: tx.verify(row))


def test_every_single_changed_byte_of_a_record_row_is_found(store: Store, run: RunRow, intruder: Intruder) -> None:
    rows = intruder.execute("SELECT rowid, body, state, hash FROM record")
    changes = 0
    for rowid, *values in rows:
        for column, value in zip(("body", "state", "hash"), values, strict=True):
            for at in range(len(value or b"")):
                changed = bytearray(value)
                changed[at] ^= 1 << (at % 8)
                intruder.execute(f"UPDATE record SET {column} = ? WHERE rowid = ?", bytes(changed), rowid)
                assert trouble(store, run), f"byte {at} of {column} in row {rowid}"
                changes += 1
            intruder.execute(f"UPDATE record SET {column} = ? WHERE rowid = ?", value, rowid)
    assert changes > 1000
    assert trouble(store, run) == ""


@pytest.mark.parametrize("column", ["at", "step", "seq", "run"])
def test_every_changed_number_of_a_record_row_is_found(
    store: Store, run: RunRow, intruder: Intruder, column: str
) -> None:
    for rowid, value in intruder.execute(f"SELECT rowid, {column} FROM record"):
        for new in (None if column == "step" else 10**6, -1, 0, 77, (value or 0) + 100):
            if new == value:
                continue
            intruder.execute(f"UPDATE record SET {column} = ? WHERE rowid = ?", new, rowid)
            assert trouble(store, run), f"{column} of row {rowid}: {value} -> {new}"
            intruder.execute(f"UPDATE record SET {column} = ? WHERE rowid = ?", value, rowid)
    assert trouble(store, run) == ""


@pytest.mark.parametrize("column", ["at", "body", "state", "hash"])
def test_a_value_of_another_type_is_found_and_does_not_crash_the_check(
    store: Store, run: RunRow, intruder: Intruder, column: str
) -> None:
    intruder.execute(f"UPDATE record SET {column} = 'text' WHERE seq = 3")
    assert trouble(store, run)


def test_bytes_moved_between_body_and_state_are_found(store: Store, run: RunRow, intruder: Intruder) -> None:
    [(rowid, body, state)] = intruder.execute("SELECT rowid, body, state FROM record WHERE seq = 2")
    for new_body, new_state in (
        (body + b"\0state" + state, None),
        (body + state, b""),
        (body[:-1], body[-1:] + state),
        (body, None),
        (body, b""),
    ):
        intruder.execute("UPDATE record SET body = ?, state = ? WHERE rowid = ?", new_body, new_state, rowid)
        assert trouble(store, run)


def test_every_deleted_row_is_found(store: Store, run: RunRow, intruder: Intruder) -> None:
    rows = intruder.execute("SELECT run, seq, at, body, step, state, hash FROM record")
    for row in rows:
        intruder.execute("DELETE FROM record WHERE seq = ?", row[1])
        assert trouble(store, run), f"row {row[1]} is missing"
        intruder.execute(
            "INSERT INTO record (run, seq, at, body, step, state, hash) VALUES (?, ?, ?, ?, ?, ?, ?)", *row
        )
    assert trouble(store, run) == ""


def test_a_row_put_in_between_or_at_the_end_is_found(store: Store, run: RunRow, intruder: Intruder) -> None:
    for seq in (0, 100):
        values = (run.n, seq, 1.0, b"[]", None, None, bytes(32))
        intruder.execute(
            "INSERT INTO record (run, seq, at, body, step, state, hash) VALUES (?, ?, ?, ?, ?, ?, ?)", *values
        )
        assert trouble(store, run)
        intruder.execute("DELETE FROM record WHERE seq = ?", seq)


def test_every_swap_of_two_rows_is_found(store: Store, run: RunRow, intruder: Intruder) -> None:
    for seq in range(1, run.seq):
        for a, b in ((seq, -5), (seq + 1, seq), (-5, seq + 1)):
            intruder.execute("UPDATE record SET seq = ? WHERE seq = ?", b, a)
        assert trouble(store, run), f"rows {seq} and {seq + 1} are swapped"
        for a, b in ((seq, -5), (seq + 1, seq), (-5, seq + 1)):
            intruder.execute("UPDATE record SET seq = ? WHERE seq = ?", b, a)
    assert trouble(store, run) == ""


def test_a_record_with_recomputed_hashes_does_not_fit_the_head(store: Store, run: RunRow, intruder: Intruder) -> None:
    """Whoever can compute the chain anew is found by a head that was kept elsewhere."""
    previous = genesis(run.id)
    for rowid, seq, at, body, step_, state in intruder.execute(
        "SELECT rowid, seq, at, body, step, state FROM record ORDER BY seq"
    ):
        new = body.replace(b"between", b"forged!") if seq > 2 else body
        previous = link(previous, seq, at, step_, digests(new, state))
        intruder.execute("UPDATE record SET body = ?, hash = ? WHERE rowid = ?", new, previous, rowid)
    assert trouble(store, run)
    intruder.execute("UPDATE runs SET head = ?", previous)
    assert trouble(store, run), "the head that somebody kept tells"


def test_a_snapshot_that_was_changed_is_found_in_constant_time(store: Store, run: RunRow, intruder: Intruder) -> None:
    assert store.read(lambda tx: tx.verify_snapshot(run)) == ""
    intruder.execute("UPDATE record SET state = X'00' WHERE seq = ?", run.snapshot)
    assert store.read(lambda tx: tx.verify_snapshot(run))
