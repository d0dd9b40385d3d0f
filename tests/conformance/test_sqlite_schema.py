"""The SQLite file's schema: migrated when nobody uses it, refused when somebody does, never half (R2, R37)."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.rows import insert, step
from tests.conformance.test_sqlite_file import contents, counter

from standfast import Runtime, StandfastError
from standfast.errors import StoreError
from standfast.leases import Lease
from standfast.rows import LeaseRow
from standfast.stores import sqlite as module
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
