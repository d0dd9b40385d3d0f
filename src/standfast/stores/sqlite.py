"""The SQLite store: one file, WAL, synchronous=FULL, mode 0600.

Every thread has a connection of its own, so a reader never waits for a writer and a
blocked event loop never blocks the control thread.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from standfast.abc import Connect, Connection
from standfast.errors import Misuse, StoreBusy, StoreDamaged, StoreError, StoreFailed, StoreTooNew
from standfast.leases import left_behind
from standfast.stores.queries import migrations
from standfast.stores.relink import relink
from standfast.stores.sqlite_house import Redact
from standfast.stores.sqlite_tx import SqliteTx
from standfast.stores.turns import Turns, begin_writing

T = TypeVar("T")

APPLICATION_ID = 0x53746661  # "Stfa"
BUSY_SECONDS = 0.9
RELINKED_BY = 2  # the schema since which a hash is over digests
PAGE_BYTES = 8192  # three rows of the record with a state of 2 KB; a page of 4 KB holds one
WAL_SECONDS = 5.0  # a new store is made once


def connect_sqlite(path: str) -> Connection:
    """The default connection: Python's own sqlite3. A path that begins with "file:" is a URI."""
    uri = path.startswith("file:")
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri)


class SqliteStore:
    """Runs in one SQLite file. With `looks_only`, nothing at all is written until `create` is called."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        connect: Connect = connect_sqlite,
        now: Callable[[], float] = time.time,
        busy_seconds: float = BUSY_SECONDS,
        looks_only: bool = False,
    ) -> None:
        self._seen = False
        self._scratch = tempfile.mkdtemp(prefix="standfast-") if os.fspath(path) == ":memory:" else None
        self.path = Path(self._scratch, "memory.db") if self._scratch else Path(path)
        if self._scratch:  # also when it is never closed
            self._remove = weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._connect = connect
        self.now = now
        self._busy_seconds = busy_seconds
        self.turns = Turns()
        self._mine = threading.local()
        self._all: list[Connection] = []
        self._lock = threading.RLock()
        self._generation = 0
        self._looks_only = looks_only
        self._checked = False  # the file is ours and its tables can be read
        self._current = False  # the schema is up to date
        self.redact: Redact | None = None  # takes secrets out of lines of JSON before they are chained

    @property
    def _uri(self) -> str:
        return f"file:{quote(os.path.abspath(self.path))}"  # noqa: PTH100 - links must stay as they are

    @property
    def in_memory(self) -> bool:
        """Is it gone when it is closed?"""
        return self._scratch is not None

    # --- opening ----------------------------------------------------------------------------

    def exists(self) -> bool:
        """Is there a store, with its tables? Opening one for control alone creates nothing."""
        if not self._seen and self.path.exists() and self.path.stat().st_size > 0:
            with self.errors():
                self._seen = self._version_of(self._connection()) > 0  # else another process is just making it
        return self._seen

    def create(self) -> None:
        """Make the file if it is not there, and bring its schema up to date."""
        if self._current:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise StoreFailed(
                f"the store {self.path} cannot be created: {error.strerror}",
                hint="give a path in a folder that exists and can be written",
            ) from error
        with self.errors():
            c = self.open(to_write=True)  # where that fails, those who look go on as they were
            try:
                self._migrate(c)
            except BaseException:
                self.discard(c)
                raise
        with self._lock:
            if self._looks_only:
                self._looks_only = False
                self._generation += 1  # from now on every thread needs a connection that can write
        self._mine.connection = _OfThread(self, c, self._generation)
        self._current = True

    def _migrate(self, c: Connection) -> None:
        version = self._version_of(c)
        if version == len(migrations()):
            return
        c.execute("BEGIN IMMEDIATE")
        try:
            version = self._version_of(c)
            outdated = version < len(migrations())  # another process may have been quicker
            if outdated and version and not all(map(left_behind, SqliteTx(c, self.now()).leases())):
                raise StoreError(
                    f"the store {self.path} has an older schema, and processes are using it",
                    hint="stop them, then open it again; nothing was changed",
                )
            for number, statements in enumerate(migrations()[version:], version + 1):
                for statement in statements:
                    c.execute(statement)
                if number == RELINKED_BY:
                    relink(c)
            c.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            c.execute(f"PRAGMA user_version = {len(migrations())}")
            c.execute("COMMIT")
        except BaseException:
            c.execute("ROLLBACK")
            raise

    def _version_of(self, c: Connection) -> int:
        """The schema's version; refuses files that are not ours, without changing them."""
        version: int = c.execute("PRAGMA user_version").fetchone()[0]
        owner: int = c.execute("PRAGMA application_id").fetchone()[0]
        if owner != APPLICATION_ID:
            tables: int = c.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables and c.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:  # not just being made
                raise StoreDamaged(
                    f"{self.path} is a SQLite file, but not a standfast store",
                    hint="give another path; this file was not changed",
                )
            if (
                not tables and self.path.stat().st_size == 1
            ):  # SQLite takes it for an empty file, and would overwrite it
                raise StoreDamaged(
                    f"{self.path} is no SQLite file", hint="give another path; this file was not changed"
                )
            return 0
        if version > len(migrations()):
            raise StoreTooNew(
                f"the store {self.path} has schema {version}, this standfast knows up to {len(migrations())}",
                hint="upgrade standfast; the file was not changed",
            )
        return version

    def open(self, *, to_write: bool = False) -> Connection:
        """A new connection with the settings that every promise rests on."""
        looks = self._looks_only and not to_write
        c = self._connect_to_look() if looks else self._connect(os.fspath(self.path))
        try:
            c.execute(f"PRAGMA busy_timeout = {int(self._busy_seconds * 1000)}")
            if not self._checked:
                self._check(c)
            if not looks:
                _use_wal(c)
                c.execute(f"PRAGMA synchronous = {'OFF' if self._scratch else 'FULL'}")
        except BaseException:
            c.close()
            raise
        with self._lock:
            self._all.append(c)
        return c

    def _connect_to_look(self) -> Connection:
        """A connection that cannot write: closing it does not even move the write-ahead log into the file."""
        c = self._connect(f"{self._uri}?mode=ro")
        try:
            c.execute("PRAGMA user_version").fetchone()
        except sqlite3.OperationalError:
            wal = Path(f"{self.path}-wal")
            if os.access(self.path.parent, os.W_OK) or (wal.exists() and wal.stat().st_size):
                return c  # whoever uses it gets the error
            c.close()
            return self._connect(f"{self._uri}?immutable=1")  # on a read-only disk without a log nothing can change
        return c

    def _check(self, c: Connection) -> None:
        """Refuse a file that is not ours or whose tables cannot even be begun to read, before anything is written."""
        if self._version_of(c):
            for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                quoted = name.replace('"', '""')  # a damaged file may call its tables anything
                c.execute(f'SELECT * FROM "{quoted}" LIMIT 1').fetchone()  # noqa: S608 - quoted
            self._checked = True

    def close(self) -> None:
        """Close every connection; a store in memory is gone after this."""
        with self._lock:
            connections, self._all = self._all, []
            self._generation += 1
        for c in connections:
            c.close()
        if self._looks_only:
            self._leave_no_trace()
        if self._scratch:
            self._remove()

    def _leave_no_trace(self) -> None:
        """Remove the empty log that a look has made, as SQLite does when the last one leaves who may write.

        A log with something in it is not ours to move; and while anybody else has the store open, nothing is removed.
        """
        with contextlib.suppress(OSError, sqlite3.Error):
            if Path(f"{self.path}-wal").stat().st_size:
                return
            last = self._connect(f"{self._uri}?mode=rw")
            try:
                last.execute("PRAGMA busy_timeout = 0")
                last.execute("PRAGMA user_version").fetchone()
            finally:
                last.close()

    def discard(self, c: Connection) -> None:
        """Close a connection that has seen an I/O error: never retry in place."""
        with self._lock:
            if c in self._all:
                self._all.remove(c)
        with contextlib.suppress(sqlite3.Error):
            c.close()

    # --- using ------------------------------------------------------------------------------

    def _connection(self) -> Connection:
        mine: _OfThread | None = getattr(self._mine, "connection", None)
        if mine is None or mine.generation != self._generation:
            mine = self._mine.connection = _OfThread(self, self.open(), self._generation)
        return mine.connection

    def _forget(self) -> None:
        """Whoever asks next in this thread gets a new connection."""
        self._mine.connection = None

    def read(self, op: Callable[[SqliteTx], T]) -> T:
        """Run `op` on one consistent state of the store."""
        with self.errors():
            c = self._connection()
            c.execute("BEGIN")
            try:
                return op(SqliteTx(c, self.now(), self.redact))
            finally:
                self._end(c, "COMMIT")

    def write(self, op: Callable[[SqliteTx], T]) -> T:
        """Run `op` in a transaction; it is durable when this returns."""
        with self.errors(), self.turns.first():
            c = self._connection()
            begin_writing(c, self._busy_seconds)
            try:
                result = op(SqliteTx(c, self.now(), self.redact))
                c.execute("COMMIT")
            except BaseException:
                self._end(c, "ROLLBACK")
                raise
            return result

    def _end(self, c: Connection, how: str) -> None:
        try:
            c.execute(how)
        except sqlite3.Error:
            self._forget()

    def version(self) -> int:
        """SQLite's data_version: changes when another connection has committed."""
        with self.errors():
            return int(self._connection().execute("PRAGMA data_version").fetchone()[0])

    def signals(self, after: int) -> list[tuple[int, str]]:
        """Runs touched by verbs since `after`, without a transaction around it."""
        with self.errors():
            return SqliteTx(self._connection(), 0.0).signals(after)

    def errors(self) -> contextlib.AbstractContextManager[None]:
        """Turns sqlite3's errors into ours, and drops a connection that cannot be trusted."""
        return _Translate(self.translate, self._forget)

    def translate(self, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
        """What a sqlite3 error means for a person."""
        if isinstance(error, UnicodeDecodeError):  # of a name in the schema, or of SQLite's own message about it
            return self._damaged("text in it is not UTF-8")
        text = str(error).lower()
        if "locked" in text or "busy" in text:
            pid = lock_holder(self.path)
            who = f"process {pid}" if pid else "another process"
            return StoreBusy(
                f"the store {self.path} is locked by {who}; nothing was changed",
                pid=pid,
                hint=f"try again; if it stays locked, {who} may be frozen: continue it or kill it",
            )
        if "malformed" in text or "not a database" in text or "no such table" in text or "no such column" in text:
            return self._damaged(str(error))
        return StoreFailed(
            f"the store {self.path} could not be used: {error}",
            hint="free space or make the file and its folder writable; runs keep their last snapshot",
        )

    def _damaged(self, how: str) -> StoreDamaged:
        return StoreDamaged(
            f"the store {self.path} is damaged: {how}",
            hint="it was not changed; restore a copy, or recover what is left with sqlite3's .recover",
        )


def _use_wal(c: Connection) -> None:
    """Processes that make a store together take turns: SQLite does not wait for a lock to change this by itself."""
    end = time.monotonic() + WAL_SECONDS
    while c.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            c.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # means nothing to a file that has pages already
            c.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


class _OfThread:
    """A thread's connection, closed when the thread ends or needs another."""

    def __init__(self, store: SqliteStore, connection: Connection, generation: int) -> None:
        self._store = store
        self.connection = connection
        self.generation = generation

    def __del__(self) -> None:
        self._store.discard(self.connection)


class _Translate(contextlib.AbstractContextManager[None]):
    def __init__(
        self, translate: Callable[[sqlite3.Error | UnicodeDecodeError], StoreError], forget: Callable[[], None]
    ) -> None:
        self._translate = translate
        self._forget = forget

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeEncodeError | OverflowError):  # of a value that was to be bound
            raise _unbindable(error) from error
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            translated = self._translate(error)
            if not isinstance(translated, StoreBusy):
                self._forget()
            raise translated from error


def _unbindable(error: UnicodeEncodeError | OverflowError) -> Misuse:
    """No store can hold such a text or number, so nothing in it goes by that."""
    if isinstance(error, OverflowError):
        return Misuse("a number is too large to look for", hint="give a smaller one; nothing was changed")
    return Misuse(
        f"a text holds a lone surrogate at position {error.start}, which is no character",
        hint="decode the text with errors='replace'; nothing was changed",
    )


def lock_holder(path: Path) -> int | None:
    """The process that holds SQLite's write lock, where the system tells (Linux)."""
    write_lock_byte = "120"
    try:
        inode = str(Path(f"{path}-shm").stat().st_ino)
        locks = Path("/proc/locks").read_text("ascii")
    except OSError:
        return None
    for line in locks.splitlines():
        fields = line.split()
        if (
            len(fields) >= 8
            and fields[3] == "WRITE"
            and fields[5].endswith(f":{inode}")
            and fields[6] == write_lock_byte
        ):
            return int(fields[4])
    return None
