"""Whose turn it is to write: verbs come before runs, which could drown them by writing without a pause (R34)."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from standfast.abc import Connection

LOOK_SECONDS = 0.001  # SQLite's own waiting looks ever more seldom, and misses the gaps of a busy writer
FEWEST_LOOKS = 50  # on a busy machine time may pass between two looks: the lock was free then, for all one knows
LONGEST_COURTESY = 0.2


class Turns:
    """The verbs of this process that wait for the store's lock."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting = 0

    @property
    def wanted(self) -> bool:
        """Does a verb wait?"""
        return self._waiting > 0

    @contextmanager
    def first(self) -> Generator[None, None, None]:
        """Runs of this process let whoever is in here go first."""
        with self._changed:
            self._waiting += 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()

    def let_verbs_pass(self) -> None:
        """Until no verb waits; not for ever, because runs want to go on too. Never in the event loop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting == 0, LONGEST_COURTESY)


def begin_writing(c: Connection, seconds: float) -> None:
    """Take the write lock, looking often; raises sqlite3's error if it is not free within `seconds`."""
    end, looks = time.monotonic() + seconds, min(FEWEST_LOOKS, int(seconds / LOOK_SECONDS))
    c.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                c.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                busy = "locked" in str(error) or "busy" in str(error)
                looks -= 1
                if not busy or (time.monotonic() >= end and looks <= 0):
                    raise
                time.sleep(LOOK_SECONDS)
            else:
                return
    finally:
        c.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
