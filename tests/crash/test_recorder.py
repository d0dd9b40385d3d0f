"""The recorder tells the truth about crashes: it finds what is lost, and only that (R2)."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest
from tests.crash.recorder import (
    Delete,
    Image,
    Mark,
    Recorder,
    Recording,
    Slot,
    Sync,
    Truncate,
    Write,
    kill_images,
    power_images,
)

pytestmark = pytest.mark.timeout(900)  # it gives way to others, see tests/parts.py
COMMITS = 60


def record_commits(path: Path, synchronous: str, writers: int = 2) -> Recording:
    """A table of numbers, one acknowledged commit each, written by so many threads; checkpoints come often."""
    with Recorder() as recorder:
        setup = recorder.connection(str(path))
        setup.execute("PRAGMA journal_mode=WAL")
        setup.execute(f"PRAGMA synchronous={synchronous}")
        setup.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")

        def write(numbers: range) -> None:
            db = recorder.connection(str(path))
            db.execute(f"PRAGMA synchronous={synchronous}")
            db.execute("PRAGMA wal_autocheckpoint=24")
            for n in numbers:
                db.execute("BEGIN IMMEDIATE")
                db.execute("INSERT INTO t VALUES (?, ?)", (n, bytes([n % 256]) * 2048))
                db.execute("COMMIT")
                recorder.mark(str(n))
            db.close()

        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, [range(part, COMMITS, writers) for part in range(writers)]))
        setup.close()
        return recorder.recording


def numbers_in(directory: Path) -> set[str]:
    """What a program finds that opens the file again; DatabaseError if SQLite finds the file unsound."""
    db = sqlite3.connect(directory / "t.db", isolation_level=None)
    try:
        if (problems := db.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
            raise sqlite3.DatabaseError(str(problems))
        if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 't'").fetchone():
            return set()
        return {str(n) for (n,) in db.execute("SELECT n FROM t WHERE length(body) = 2048")}
    finally:
        db.close()


def lost(images: Iterator[Image]) -> tuple[int, list[str]]:
    """How many images there were, and the names of those that are unsound or miss an acknowledged commit."""
    count, bad = 0, list[str]()
    with Slot() as slot:
        for image in images:
            count += 1
            try:
                found = numbers_in(slot.show(image))
            except sqlite3.DatabaseError as error:
                bad.append(f"{image.name}: {error}")
            else:
                if not set(image.acknowledged) <= found:
                    bad.append(image.name)
    return count, bad


def test_every_acknowledged_commit_survives_every_crash_in_full_mode(tmp_path: Path) -> None:
    recording = record_commits(tmp_path / "t.db", "FULL")
    kinds = {type(op) for op in recording}
    assert {Write, Sync, Delete, Mark} <= kinds
    count, bad = lost(chain(kill_images(recording), power_images(recording, seed=1)))
    assert count >= 500
    assert bad == []


def test_power_cuts_lose_acknowledged_commits_in_normal_mode(tmp_path: Path) -> None:
    """Proves that the recorder can fail."""
    recording = record_commits(tmp_path / "t.db", "NORMAL")
    _, bad = lost(power_images(recording, seed=1, between=10))
    assert len(bad) > 20
    _, bad = lost(kill_images(recording))
    assert bad == []


def test_a_single_missing_sync_is_found(tmp_path: Path) -> None:
    """Proves that the recorder can fail: every commit's own sync matters."""
    recording = record_commits(tmp_path / "t.db", "FULL", writers=1)
    for label in ("3", "30"):
        mark = recording.index(Mark(label))
        skipped = max(at for at in range(mark) if isinstance(recording[at], Sync))
        _, bad = lost(power_images([*recording[:skipped], *recording[skipped + 1 :]], seed=1, draws=4))
        assert bad


def test_a_kill_image_holds_the_very_bytes_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    with Recorder() as recorder:
        db = recorder.connection(str(path))
        db.execute("PRAGMA journal_mode=WAL")
        for n in range(20):
            db.execute(f"CREATE TABLE t{n} (x)")
        db.execute("PRAGMA journal_size_limit=4096")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("CREATE TABLE last (x)")
        assert any(isinstance(op, Truncate) for op in recorder.recording)
        *_, image = kill_images(recorder.recording)
        assert image.files == {name: (tmp_path / name).read_bytes() for name in ("t.db", "t.db-wal")}
        db.close()


def test_a_slot_shows_each_image_exactly_even_after_the_last_one_was_changed(tmp_path: Path) -> None:
    recording = record_commits(tmp_path / "t.db", "FULL")
    with Slot(str(tmp_path)) as slot:
        for number, image in enumerate(chain(kill_images(recording, share=(0, 7)), power_images(recording, 2))):
            directory = slot.show(image)
            assert {file.name: file.read_bytes() for file in directory.iterdir()} == image.files
            if number % 3 == 0:
                numbers_in(directory)


def test_the_same_seed_gives_the_same_images_and_shares_add_up(tmp_path: Path) -> None:
    recording = record_commits(tmp_path / "t.db", "NORMAL")
    whole = list(power_images(recording, seed=5))
    assert whole == list(power_images(recording, seed=5))
    assert whole != list(power_images(recording, seed=6))
    shares = [list(power_images(recording, seed=5, share=(i, 3))) for i in range(3)]
    assert [image for i in range(3) for image in whole[i::3]] == [image for share in shares for image in share]


def test_what_was_there_before_the_recording_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB)")
    db.execute("INSERT INTO t VALUES (7, zeroblob(2048))")
    db.commit()
    db.close()
    with Recorder() as recorder:
        recorded = recorder.connection(str(path))
        recorder.mark("7")
        recorded.execute("PRAGMA journal_mode=WAL")
        recorded.execute("INSERT INTO t VALUES (8, zeroblob(2048))")
        recorder.mark("8")
        recorded.close()
        count, bad = lost(power_images(recorder.recording, seed=1, draws=20))
    assert count > 100
    assert bad == []


def test_a_connection_behaves_like_one_of_the_sqlite3_module(tmp_path: Path) -> None:
    with Recorder(busy_timeout=0) as recorder:
        db, other = recorder.connection(str(tmp_path / "t.db")), recorder.connection(str(tmp_path / "t.db"))
        db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        assert db.execute("INSERT INTO t VALUES (?), (?)", (1, 2)).rowcount == 2
        assert db.execute("UPDATE t SET n = n WHERE n = :n", {"n": 9}).rowcount == 0
        select = db.execute("SELECT n FROM t ORDER BY n")
        assert (select.rowcount, select.fetchone(), select.fetchall(), select.fetchone()) == (-1, (1,), [(2,)], None)
        assert list(db.execute("SELECT n FROM t WHERE n = 1")) == [(1,)]
        assert db.execute("DELETE FROM t WHERE n = 2 RETURNING n").fetchall() == [(2,)]
        with pytest.raises(sqlite3.IntegrityError, match="UNIQUE constraint failed") as constraint:
            db.execute("INSERT INTO t VALUES (1)")
        assert constraint.value.sqlite_errorname == "SQLITE_CONSTRAINT_PRIMARYKEY"
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            db.execute("SELECT * FROM missing")
        before = db.in_transaction
        db.execute("BEGIN IMMEDIATE")
        assert (before, db.in_transaction) == (False, True)
        with pytest.raises(sqlite3.OperationalError, match="database is locked") as busy:
            other.execute("BEGIN IMMEDIATE")
        assert busy.value.sqlite_errorcode == sqlite3.SQLITE_BUSY
        db.execute("ROLLBACK")
        db.close()
        other.close()
        with pytest.raises(sqlite3.ProgrammingError):
            db.execute("SELECT 1")
        (tmp_path / "text.db").write_text("this is no database " * 100)
        with pytest.raises(sqlite3.DatabaseError, match="not a database"):
            recorder.connection(str(tmp_path / "text.db")).execute("SELECT * FROM sqlite_master")
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            recorder.connection(str(tmp_path / "nowhere" / "t.db"))
        full = recorder.connection(str(tmp_path / "full.db"))
        full.execute("CREATE TABLE t (n)")
        full.execute("PRAGMA max_page_count=2")
        with pytest.raises(sqlite3.OperationalError, match="database or disk is full"):
            full.execute("INSERT INTO t VALUES (zeroblob(100000))")
        full.close()


def test_a_long_statement_is_interrupted_from_another_thread(tmp_path: Path) -> None:
    with Recorder() as recorder:
        db = recorder.connection(str(tmp_path / "t.db"))
        threading.Timer(0.2, db.interrupt).start()
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            db.execute("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c")
        db.close()
