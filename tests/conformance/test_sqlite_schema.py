"""The SQLite file's schema: migrated when nobody uses it, refused when somebody does, never half (R2, R37)."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.rows import get, insert, step
from tests.conformance.test_sqlite_file import contents, counter

from standfast import Runtime, StandfastError
from standfast.errors import StoreError
from standfast.leases import Lease
from standfast.rows import LeaseRow
from standfast.stores import sqlite as module
from standfast.stores.queries import queries
from standfast.stores.relink import old_link
from standfast.stores.sqlite import SqliteStore


def older(path: Path, lease: LeaseRow | None = None) -> None:
    """The file as the schema before the newest would have left it."""
    store = SqliteStore(path)
    store.create()
    step(store, insert(store), b"[]\n1")
    if lease is not None:
        store.write(lambda tx: tx.put_lease(lease))
    store.close()


def mine(**changes: str) -> LeaseRow:
    """The lease of this very process, which is alive; or of one that differs from it."""
    return replace(Lease("d1", []).row, **changes)


async def test_a_migration_is_refused_while_a_process_uses_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    older(path, mine())
    before = contents(tmp_path)
    known = module.migrations()
    monkeypatch.setattr(module, "migrations", lambda: (*known, ["CREATE TABLE newer (x)"]))
    with pytest.raises(StoreError, match="older schema") as told:
        async with Runtime(path, agents=[counter]):
            pass
    assert told.value.hint
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    "lease",
    [None, mine(started="before"), mine(boot="another-start-of-the-machine/1")],
    ids=["none", "killed", "rebooted"],
)
async def test_a_migration_waits_for_nobody_who_is_dead_and_keeps_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lease: LeaseRow | None
) -> None:
    path = tmp_path / "runs.db"
    older(path, lease)
    known = module.migrations()
    monkeypatch.setattr(module, "migrations", lambda: (*known, ["CREATE TABLE newer (x)"]))
    async with Runtime(path, agents=[counter]) as runs:
        assert (await runs.handle("r1").view()).step == 1
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA user_version").fetchone()[0] == len(known) + 1
    assert db.execute("SELECT count(*) FROM newer").fetchone()[0] == 0
    db.close()


def test_two_who_make_a_new_store_at_once_both_have_it(tmp_path: Path) -> None:
    """The slower one finds the schema up to date and in use, which is no reason to refuse."""
    first = SqliteStore(tmp_path / "runs.db")
    overtaken: list[str] = []

    class OvertakenConnection:
        def __init__(self, path: str) -> None:
            self._c = module.connect_sqlite(path)

        def execute(self, sql: str, *values: object) -> object:
            if sql == "BEGIN IMMEDIATE" and not overtaken:
                overtaken.append(sql)
                first.create()
                first.write(lambda tx: tx.put_lease(mine()))
            return self._c.execute(sql, *values)  # type: ignore[arg-type]

        def close(self) -> None:
            self._c.close()

    second = SqliteStore(tmp_path / "runs.db", connect=OvertakenConnection)  # type: ignore[arg-type]
    second.create()
    assert [lease.id for lease in second.read(lambda tx: tx.leases())] == ["d1"]
    first.close()
    second.close()


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    older(path)
    before = contents(tmp_path)
    known = module.migrations()
    monkeypatch.setattr(module, "migrations", lambda: (*known, ["CREATE TABLE newer (x)", "CREATE TABLE runs (x)"]))
    with pytest.raises(StandfastError):
        async with Runtime(path, agents=[counter]):
            pass
    assert contents(tmp_path) == before


def as_schema_1(path: Path) -> None:
    """The file as the first schema left it: without what came later, and with hashes over the content itself."""
    db = sqlite3.connect(path)
    previous = bytes(32)
    for rowid, *row in db.execute("SELECT rowid, run, seq, at, body, step, state FROM record ORDER BY seq").fetchall():
        previous = old_link(previous, *row)
        db.execute("UPDATE record SET hash = ? WHERE rowid = ?", (previous, rowid))
    db.execute("UPDATE runs SET head = (SELECT hash FROM record WHERE record.run = runs.n AND record.seq = runs.seq)")
    db.execute("ALTER TABLE record DROP COLUMN gone")
    for table in ("house", "halts", "tokens", "checkpoints"):
        db.execute(f"DROP TABLE {table}")
    db.execute("DROP INDEX runs_paused")
    db.execute("DROP INDEX requests_idle")
    db.execute("ALTER TABLE requests DROP COLUMN idle")
    db.execute("PRAGMA user_version = 1")
    db.commit()
    db.close()


def test_a_store_of_the_first_schema_keeps_a_record_that_can_be_followed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    older(path)
    as_schema_1(path)
    store = SqliteStore(path)
    store.create()
    run = get(store)
    assert store.read(lambda tx: tx.verify(run)) == ""
    stepped = step(store, run, b"[]\n2")
    assert store.read(lambda tx: tx.verify(stepped)) == ""
    store.close()


def test_what_was_changed_before_a_migration_is_not_covered_up_by_it(tmp_path: Path) -> None:
    """R32"""
    path = tmp_path / "runs.db"
    older(path)
    as_schema_1(path)
    db = sqlite3.connect(path)
    db.execute("UPDATE record SET state = 'forged' WHERE seq = (SELECT max(seq) FROM record)")
    db.commit()
    db.close()
    store = SqliteStore(path)
    store.create()
    run = get(store)
    assert store.read(lambda tx: tx.verify(run)) != ""
    store.close()


@pytest.mark.parametrize("name", ["runs_to_halt", "runs_halted_by"])
def test_a_halt_does_not_look_through_runs_that_have_ended(tmp_path: Path, name: str) -> None:
    """R13: a store keeps ended runs for years; a halt is quick all the same."""
    store = SqliteStore(tmp_path / "runs.db")
    store.create()
    store.close()
    db = sqlite3.connect(tmp_path / "runs.db")
    plan = _plan(db, queries()[name].replace("{match}", "1"))
    db.close()
    assert any("runs_paused" in line for line in plan) and any("runs_live" in line for line in plan)
    assert "SCAN runs" not in plan, plan


def test_a_driver_does_not_look_through_runs_that_are_paused_or_over(tmp_path: Path) -> None:
    """R38: a paused run costs nothing, however many there are."""
    store = SqliteStore(tmp_path / "runs.db")
    store.create()
    store.close()
    db = sqlite3.connect(tmp_path / "runs.db")
    assert _plan(db, queries()["claimable"])[0] == "SCAN runs USING INDEX runs_live"
    assert "USING INDEX runs_live (status=?)" in _plan(db, queries()["held"])[0]
    db.close()


def test_a_driver_does_not_look_through_a_long_queue(tmp_path: Path) -> None:
    """R38, R42: the oldest are taken off the index, without sorting the rest."""
    store = SqliteStore(tmp_path / "runs.db")
    store.create()
    store.close()
    db = sqlite3.connect(tmp_path / "runs.db")
    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {queries()['queued']}", ("x", 1))]
    db.close()
    assert plan == ["SEARCH runs USING INDEX runs_live (status=? AND agent=?)"]


def _plan(db: sqlite3.Connection, sql: str) -> list[str]:
    return [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", ("x",) if "?" in sql else ())]
