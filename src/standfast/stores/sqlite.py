"""The SQLite store: one file, WAL, synchronous=FULL, mode 0600.

Every thread has a connection of its own, so a reader never waits for a writer and a
blocked event loop never blocks the control thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from standfast.abc import Connect, Connection, Use
from standfast.errors import Misuse, StoreBusy, StoreDamaged, StoreError, StoreFailed, StoreTooNew
from standfast.leases import left_behind
from standfast.stores.holder import holder, trace_of_work
from standfast.stores.queries import migrations
from standfast.stores.redacting import Cleaning, Redacting, Unredacted
from standfast.stores.relink import relink
from standfast.stores.reserve import RESERVE_BYTES, Reserve
from standfast.stores.sqlite_tx import SqliteTx
from standfast.stores.turns import Turns, begin_writing

T = TypeVar("T")
log = logging.getLogger("standfast")

APPLICATION_ID = 0x53746661  # "Stfa"
BUSY_SECONDS = 0.9
STOP_SECONDS = 10.0  # a stop waits longer for a process that is at work: a halt of 10,000 runs takes some seconds
WORK_SECONDS = 0.3  # who does nothing for so long is not at work
RELINKED_BY = 2  # the schema since which a hash is over digests
PAGE_BYTES = 8192  # three rows of the record with a state of 2 KB; a page of 4 KB holds one
WAL_SECONDS = 5.0  # a new store is made once


def connect_sqlite(path: str) -> Connection:
    """The default connection: Python's own sqlite3. A path that begins with "file:" is a URI."""
    uri = path.startswith("file:")
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256, uri=uri)


def _close_all(connections: list[Connection]) -> None:
    for c in connections:
        c.close()


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
        reserve_bytes: int = RESERVE_BYTES,
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
        # Also of a look at a store that was closed before, which nobody closes again.
        weakref.finalize(self, _close_all, self._all).atexit = False
        self._lock = threading.RLock()
        self._generation = 0
        self._looks_only = looks_only
        self._checked = False  # the file is ours and its tables can be read
        self._current = False  # the schema is up to date
        self.reserve = Reserve(self.path, reserve_bytes)
        self.trouble = ""  # why the last write failed, if the disk is to blame
        self.wrote = 0.0  # when something was written last, by the monotonic clock
        self.writing = 0  # the thread of this process that has the lock, as far as it uses this object
        self.redact: Redacting | None = None  # takes secrets out of what is written before it is chained

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
        except BaseException:
            c.close()
            raise
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
            connections = list(self._all)
            self._all.clear()
            self._generation += 1
        _close_all(connections)
        self.reserve.leave()
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
                return op(SqliteTx(c, self.now()))
            finally:
                self._end(c, "COMMIT")

    def write(self, op: Callable[[SqliteTx], T], use: Use = "ordinary", *, stops: bool = False) -> T:
        """Run `op` in a transaction; it is durable when this returns. With `stops`, there is a stop in it.

        It is run again after a full disk, and if a text that it writes has to be redacted first: nothing of the first
        time is left then.
        """
        while True:
            try:
                if use == "ordinary":
                    self.must_have_room()
                result = self._write(op, patient=stops or use == "control")
            except StoreFailed as error:
                self.failed(error)
                if use != "control" or not is_full(error) or not self.reserve.let_go():
                    raise
                self.use_log_again(self._connection)
            else:
                self.worked()
                if self.reserve.short:
                    self.use_log_again(self._connection)
                return result

    def _write(self, op: Callable[[SqliteTx], T], *, patient: bool) -> T:
        cleaning = self.cleaning()
        while True:
            try:
                return self._write_once(op, cleaning, patient=patient)
            except Unredacted as found:
                assert cleaning is not None
                cleaning.redact(found.lines)

    def cleaning(self) -> Cleaning | None:
        """For a transaction that may have to be run again."""
        return None if self.redact is None else Cleaning(self.redact)

    def _write_once(self, op: Callable[[SqliteTx], T], cleaning: Cleaning | None, *, patient: bool = False) -> T:
        with self.errors(), self.turns.first():
            c = self._connection()
            began = time.monotonic()
            try:
                begin_writing(c, self._busy_seconds)
            except sqlite3.OperationalError as error:
                if not is_locked(error) or not (patient or self._works_here(began)):
                    raise
                self._wait_for_who_works(c)
            try:
                with self.has_the_lock():
                    result = op(SqliteTx(c, self.now(), cleaning))
                    c.execute("COMMIT")
            except BaseException:
                self._end(c, "ROLLBACK")
                raise
            return result

    @contextlib.contextmanager
    def has_the_lock(self) -> Generator[None, None, None]:
        """This thread writes: whoever waits for it in this process need not ask who it is."""
        me = self.writing = threading.get_ident()
        try:
            yield
        finally:
            if self.writing == me:
                self.writing = 0

    def _works_here(self, since: float) -> bool:
        """Is it this process that others of it wait for? On a busy machine it may be slow, but it is not stuck."""
        return self.writing != 0 or self.wrote >= since

    def _wait_for_who_works(self, c: Connection) -> None:
        """Begin to write once whoever holds the lock has done its work; not for one that does nothing (R34)."""
        end = time.monotonic() + STOP_SECONDS
        said = False
        while True:
            found = holder(lock_holder(self.path))
            before, began = trace_of_work(found.pid), time.monotonic()
            try:
                begin_writing(c, 0.0 if found.stopped else WORK_SECONDS)
            except sqlite3.OperationalError as error:
                works = self._works_here(began) or trace_of_work(lock_holder(self.path)) != before
                if not is_locked(error) or found.stopped or not works or time.monotonic() > end:
                    raise
                if not said:
                    said = True
                    log.warning("standfast: waiting for the store, which %s is writing to", found.text)
            else:
                return

    # --- the disk -----------------------------------------------------------------------------------

    @property
    def storage(self) -> str:
        """Why nothing new can be written; empty while the last write went through and room is kept for stops."""
        return self.trouble or self.shortage

    @property
    def shortage(self) -> str:
        """The same, by what every process sees: is the room that is kept for stops being used?"""
        return _full(self.path).message if self.reserve.short else ""

    def must_have_room(self) -> None:
        """StoreFailed while what is free on the disk is for stops alone."""
        if self.reserve.short and not self.reserve.tend():
            raise _full(self.path)

    def failed(self, error: StoreError) -> None:
        """A write has failed; the disk's word is kept until one goes through."""
        if is_of_disk(error):
            self.trouble = error.message

    def worked(self) -> None:
        """A write went through."""
        self.trouble = ""
        self.wrote = time.monotonic()

    def nothing_written(self, error: StoreError) -> bool:
        return error.__cause__ is None or is_full(error)

    def is_at_fault(self, error: StoreError) -> bool:
        return is_of_disk(error)

    def probe(self) -> None:
        """Write a page as it is: whether the disk takes it is not learnt by reading."""
        self.write(lambda tx: tx.touch(), "upkeep")

    def use_log_again(self, connection: Callable[[], Connection]) -> None:
        """Move the write-ahead log into the file where nobody reads it, so that the next write needs no new room."""
        with contextlib.suppress(sqlite3.Error, StoreError):  # what is not moved now is moved later
            connection().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

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
        if is_locked(error):
            found = holder(lock_holder(self.path))
            return StoreBusy(
                f"the store {self.path} is locked by {found.text}; nothing was changed", pid=found.pid, hint=found.hint
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


def is_locked(error: sqlite3.Error) -> bool:
    """Does somebody else write just now?"""
    text = str(error).lower()
    return "locked" in text or "busy" in text


def is_full(error: StoreError) -> bool:
    """Did the disk (or a quota) refuse a write of the log? Then nothing of the transaction counts."""
    cause = error.__cause__
    if not isinstance(cause, sqlite3.Error):
        return False
    code = getattr(cause, "sqlite_errorcode", 0) or 0  # tests raise errors without one
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_WRITE or "disk is full" in str(cause)


def is_of_disk(error: StoreError) -> bool:
    """Is it the disk that does not take what is written, rather than what was to be written?"""
    cause = error.__cause__
    code = getattr(cause, "sqlite_errorcode", 0) or 0
    disk = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
    return isinstance(error, StoreFailed) and (cause is None or code & 0xFF in disk or isinstance(cause, OSError))


def _full(path: Path) -> StoreFailed:
    return StoreFailed(
        f"the disk of the store {path} is full: what is left of it is kept for stops",
        hint="free space; pause, cancel and halt work all the same, and runs keep their last snapshot",
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
