"""An apsw connection that looks like one of the sqlite3 module, errors and their codes included."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import apsw

_SQLITE3_ERRORS: Mapping[int, type[sqlite3.Error]] = {
    **dict.fromkeys((apsw.SQLITE_INTERNAL, apsw.SQLITE_NOTFOUND), sqlite3.InternalError),
    **dict.fromkeys((apsw.SQLITE_ERROR, apsw.SQLITE_PERM, apsw.SQLITE_ABORT, apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED,
                     apsw.SQLITE_READONLY, apsw.SQLITE_INTERRUPT, apsw.SQLITE_IOERR, apsw.SQLITE_FULL,
                     apsw.SQLITE_CANTOPEN, apsw.SQLITE_PROTOCOL, apsw.SQLITE_SCHEMA), sqlite3.OperationalError),
    apsw.SQLITE_TOOBIG: sqlite3.DataError,
    **dict.fromkeys((apsw.SQLITE_CONSTRAINT, apsw.SQLITE_MISMATCH), sqlite3.IntegrityError),
    **dict.fromkeys((apsw.SQLITE_MISUSE, apsw.SQLITE_RANGE), sqlite3.InterfaceError),
}  # fmt: skip


class as_sqlite3_errors:
    """Raises apsw's errors as the class, text and code that the sqlite3 module would give."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not isinstance(error, apsw.Error):
            return
        code = getattr(error, "result", None)
        if code is None:  # apsw's own complaints: bindings, closed connection, threads
            raise sqlite3.ProgrammingError(str(error)) from error
        mapped = _SQLITE3_ERRORS.get(code, sqlite3.DatabaseError)(str(error))
        mapped.sqlite_errorcode = extended = getattr(error, "extendedresult", code)
        names = {**apsw.mapping_result_codes, **apsw.mapping_extended_result_codes}
        mapped.sqlite_errorname = str(names.get(extended, names.get(code, "unknown")))
        raise mapped from error


class Cursor:
    """The rows of one statement, already fetched: no read lock outlives `execute`."""

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self._rows = iter(rows)
        self.rowcount = rowcount

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self._rows, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class Connection:
    """An apsw connection in autocommit mode (sqlite3's isolation_level=None)."""

    def __init__(self, raw: apsw.Connection, vfs: apsw.VFS) -> None:
        self._raw = raw
        self._vfs = vfs  # must outlive its files

    def execute(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = ()) -> Cursor:
        with as_sqlite3_errors():
            cursor: Any = self._raw.cursor()  # the stubs do not know Buffer before Python 3.12
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        changes = sql.lstrip()[:7].upper().startswith(("INSERT", "UPDATE", "DELETE", "REPLACE"))
        return Cursor(rows, self._raw.changes() if changes else -1)

    def close(self) -> None:
        with as_sqlite3_errors():
            self._raw.close()

    def interrupt(self) -> None:
        self._raw.interrupt()

    @property
    def in_transaction(self) -> bool:
        return self._raw.in_transaction
