"""Whoever writes past standfast."""

from __future__ import annotations

import sqlite3
from typing import Any

from standfast.abc import Store
from standfast.stores.sqlite import SqliteStore


class Intruder:
    """Somebody who writes past standfast, into the tables themselves; a backend brings its own."""

    def __init__(self, store: Store) -> None:
        assert isinstance(store, SqliteStore)
        self._db = sqlite3.connect(store.path, isolation_level=None)
        self._db.execute("PRAGMA synchronous = OFF")

    def execute(self, sql: str, *values: Any) -> list[Any]:
        return self._db.execute(sql, values).fetchall()

    def close(self) -> None:
        self._db.close()
