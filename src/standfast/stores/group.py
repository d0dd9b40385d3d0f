"""Group commit: what the runs of one event loop write in one tick shares a transaction.

The commit happens inline, without a thread hop, while the lock is free and the disk is
fast; otherwise in a thread, so that the event loop never waits for a lock. There is no
savepoint per operation: if one of a batch fails, the batch is rolled back and each
operation gets a transaction of its own. On a full disk only what belongs to a stop is
written, with the room that is kept for it; everything else is put off.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable

from standfast.abc import Connection, Operation
from standfast.errors import StoreBusy, StoreDamaged, StoreError, StoreFailed
from standfast.stores.redacting import Cleaning, Unredacted
from standfast.stores.sqlite import SqliteStore, is_full
from standfast.stores.sqlite_tx import SqliteTx

SLOW_COMMIT = 0.005
SLOW_IN_A_ROW = 5  # a slow disk, not one slow moment
RETRY_SECONDS = 0.25
LOOK_SECONDS = 0.005


class GroupWriter:
    """One connection that commits in batches, in the order of submission."""

    def __init__(self, store: SqliteStore, loop: asyncio.AbstractEventLoop) -> None:
        self._store = store
        self._loop = loop
        self._queue: list[Operation] = []
        self._put_off: list[Operation] = []  # sealed; they wait for room on the disk
        self._looks_again = False
        self._scheduled = False
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._slow_commits = 0
        self._signals: list[tuple[int, str]] = []  # seen in a commit, not yet passed on
        self._apart: list[BaseException | None] = []
        self._closed = False
        self.trouble = ""
        self.looked = 0.0  # when this writer last looked for signals, beside its commits
        self.heard: Callable[[list[tuple[int, str]]], None] | None = None
        self.last_heard: Callable[[], int] = lambda: 0
        self.on_trouble: Callable[[str], None] = lambda _: None

    @property
    def idle(self) -> bool:
        """True when a flush would commit at once, in this thread."""
        return self._thread is None and self._slow_commits < SLOW_IN_A_ROW

    @property
    def closed(self) -> bool:
        """True when nothing more is written."""
        return self._closed

    def submit(self, op: Operation) -> None:
        """Have `op` committed with whatever else this tick brings."""
        self._queue.append(op)
        if not self._scheduled and self._thread is None:
            self._scheduled = True
            self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Commit what has been submitted, now if the lock is free."""
        if self._thread is not None or not (self._queue or self._put_off) or self._closed:
            return
        new, self._queue = self._queue, []
        for op in new:
            op.seal()
        batch, self._put_off = [*self._put_off, *new], []
        full = self._is_full()
        if full:
            batch = self._urgent(batch)
        apart = full or self._slow_commits >= SLOW_IN_A_ROW or self._store.turns.wanted
        if batch and (apart or not self._commit_inline(batch)):
            self._commit_in_thread(batch)

    def _is_full(self) -> bool:
        """Is what is free on the disk for stops alone?"""
        try:
            self._store.must_have_room()
        except StoreFailed as error:
            self._say(str(error))
            return True
        return False

    def _urgent(self, batch: list[Operation]) -> list[Operation]:
        """Those that may be written on a full disk; the others are looked at again in a while."""
        judged = [(op, op.urgent) for op in batch]
        self._put_off += [op for op, urgent in judged if not urgent]
        if self._put_off:
            self._look_again()
        return [op for op, urgent in judged if urgent]

    def _look_again(self) -> None:
        if not self._looks_again:
            self._looks_again = True
            self._loop.call_later(RETRY_SECONDS, self._again)

    def _again(self) -> None:
        self._looks_again = False
        self.flush()

    def close(self) -> None:
        """Stop: nothing more is written, and what is queued is dropped as in a crash."""
        self._closed = True
        thread = self._thread
        if thread is not None:
            thread.join()
        if self._connection is not None:
            self._store.discard(self._connection)
            self._connection = None

    # --- committing -------------------------------------------------------------------------

    def _commit_inline(self, batch: list[Operation]) -> bool:
        try:
            outcomes = self._commit(batch, wait=False)
        except StoreError:
            return False
        self._say("")
        self._tell(batch, outcomes)
        return True

    def _commit_in_thread(self, batch: list[Operation]) -> None:
        def work() -> None:
            self._store.turns.let_verbs_pass()
            outcomes = self._commit_stubbornly(batch)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._back, batch, outcomes)

        thread = threading.Thread(target=work, name="standfast-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._commit_without_thread(batch, error)
        else:
            self._thread = thread

    def _commit_without_thread(self, batch: list[Operation], error: RuntimeError) -> None:
        """This process has no room for another thread: a slow commit holds the loop up, but nothing waits for ever.

        What cannot be written at once, because the store is locked or the disk full, is tried again in a while.
        """
        if not self._commit_inline(batch):
            self._say(f"there is no thread to write in ({error})")
            through, self._apart = self._apart, []
            self._back(batch, through)

    def _back(self, batch: list[Operation], outcomes: list[BaseException | None]) -> None:
        """Those without an outcome are the last of the batch: the disk was full, or the writer is closed."""
        self._thread = None
        if self._closed:
            return
        self._put_off += batch[len(outcomes) :]
        self._tell(batch[: len(outcomes)], outcomes)
        if self._put_off:
            self._look_again()
        if self._queue:
            self.flush()

    def _commit_stubbornly(self, batch: list[Operation]) -> list[BaseException | None]:
        """Commit, however long the store is locked or broken; but nobody's stop waits for room that others need."""
        while not self._closed:
            try:
                outcomes = self._commit(batch, wait=True)
            except StoreBusy as error:
                self._say(str(error))
            except StoreError as error:
                self._store.failed(error)
                self._say(str(error))
                if is_full(error):
                    if any(op.urgent for op in batch) and self._store.reserve.let_go():
                        self._store.use_log_again(self._open)
                    break
                time.sleep(RETRY_SECONDS)
            else:
                if not self._put_off:
                    self._say("")
                if self._store.reserve.short:
                    self._store.use_log_again(self._open)
                return outcomes
        through, self._apart = self._apart, []
        return through

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self.on_trouble(trouble)

    def _commit(self, batch: list[Operation], *, wait: bool) -> list[BaseException | None]:
        """One transaction for the batch, or one each if it does not go through together."""
        try:
            c = self._open()
            if not wait:
                return self._each_or_together(c, batch)
            c.execute("PRAGMA busy_timeout = 1500")
            try:
                return self._each_or_together(c, batch)
            finally:
                if self._connection is not None:
                    c.execute("PRAGMA busy_timeout = 0")
        except (sqlite3.Error, UnicodeDecodeError) as error:
            translated = self._store.translate(error)
            if not isinstance(translated, StoreBusy):
                self._drop()  # the next try opens and checks anew
            raise translated from error

    def _each_or_together(self, c: Connection, batch: list[Operation]) -> list[BaseException | None]:
        if not self._apart:
            error = self._transact(c, batch)
            if error is None:
                return [None] * len(batch)
            if len(batch) == 1:
                return [error]
        # One of them failed: each gets a transaction of its own. What is through stays through
        # when the store fails in between and the rest is tried again.
        for op in batch[len(self._apart) :]:
            self._apart.append(self._transact(c, [op]))
        outcomes, self._apart = self._apart, []
        return outcomes

    def _transact(self, c: Connection, batch: list[Operation]) -> Exception | None:
        """One transaction; an operation's own error is returned, a store's is raised."""
        cleaning = self._store.cleaning()
        while True:
            error = self._transact_once(c, batch, cleaning)
            if not isinstance(error, Unredacted):
                return error
            assert cleaning is not None
            cleaning.redact(error.lines)
            if self._connection is None:
                c = self._open()

    def _transact_once(self, c: Connection, batch: list[Operation], cleaning: Cleaning | None) -> Exception | None:
        c.execute("BEGIN IMMEDIATE")
        self._store.writing = me = threading.get_ident()
        try:
            tx = SqliteTx(c, self._store.now(), cleaning)
            for op in batch:
                op.perform(tx)
            signals = self._look(tx)
            began = time.perf_counter()
            c.execute("COMMIT")
            self._store.worked()
            self._signals += signals
            self._slow_commits = self._slow_commits + 1 if time.perf_counter() - began > SLOW_COMMIT else 0
        except Exception as error:
            try:
                c.execute("ROLLBACK")
            except sqlite3.Error:
                # SQLite has rolled back by itself (disk full, I/O error): the connection is not trusted again.
                self._drop()
            # A row that cannot be read, or a constraint, is that operation's trouble: the others go on.
            if isinstance(error, sqlite3.Error | StoreError) and not isinstance(
                error, sqlite3.IntegrityError | StoreDamaged
            ):
                raise
            return error
        finally:
            if self._store.writing == me:
                self._store.writing = 0
        return None

    def _look(self, tx: SqliteTx) -> list[tuple[int, str]]:
        """Verbs of other processes, seen here for the price of one statement while this thread is busy anyway."""
        now = time.monotonic()
        if self.heard is None or now - self.looked < LOOK_SECONDS:
            return []
        self.looked = now
        return tx.signals(self.last_heard())

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._store.open()
            self._connection.execute("PRAGMA busy_timeout = 0")
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._store.discard(self._connection)
            self._connection = None

    def _tell(self, batch: list[Operation], outcomes: list[BaseException | None]) -> None:
        signals, self._signals = self._signals, []
        if signals and self.heard is not None:
            self.heard(signals)
        for op, error in zip(batch, outcomes, strict=True):
            if error is None:
                op.committed()
            else:
                op.failed(error)
