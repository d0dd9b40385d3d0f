"""Attempts at the operator's port are in the record of the house, however many there are: a flood fills no disk."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from standfast.abc import Tx
from standfast.errors import StandfastError
from standfast.house_events import AttemptRefused
from standfast.stores.sqlite import SqliteStore

log = logging.getLogger("standfast")

AT_ONCE = 50
A_SECOND = 0.1  # after that: the others are counted


class Refusals:
    """Writes who was turned away, in a thread of its own: no halt waits for it."""

    def __init__(self, store: Path, now: Callable[[], float] = time.monotonic) -> None:
        self._path = store
        self._now = now
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="standfast-refusals")
        self._left, self._at = float(AT_ONCE), now()
        self._last: AttemptRefused | None = None  # of those that were left out
        self._missed = 0

    def note(self, route: str, what: object, why: str) -> None:
        """Somebody asked for what they may not have."""
        known = what if what in ("halt", "lift", "list") else "enter"
        event = AttemptRefused(by=None, route=f"operator's {route}", what=str(known), why=why)
        if self._may_write():
            self._write(replace(event, left_out=self._missed))
            self._missed = 0
        else:
            self._last, self._missed = event, self._missed + 1

    def tell(self, *, all_of_them: bool = False) -> None:
        """What was left out is told with its count, once something may be written again."""
        if self._missed and self._last is not None and (all_of_them or self._may_write()):
            self._write(replace(self._last, left_out=self._missed - 1))
            self._missed = 0

    def close(self) -> None:
        """Everything is written, or the log says that it could not be."""
        self.tell(all_of_them=True)
        self._pool.shutdown()

    def _may_write(self) -> bool:
        now = self._now()
        self._left, self._at = min(AT_ONCE, self._left + (now - self._at) * A_SECOND), now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _write(self, event: AttemptRefused) -> None:
        self._pool.submit(self._keep, event)

    def _keep(self, event: AttemptRefused) -> None:
        def note(tx: Tx) -> None:
            tx.note(event)

        store = SqliteStore(self._path, looks_only=True)
        try:
            if store.exists():  # strangers make no store
                store.create()
                store.write(note)
        except StandfastError as error:
            log.error("standfast: a refused attempt could not be recorded: %s", error)
        finally:
            store.close()
