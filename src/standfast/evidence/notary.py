"""The notary: signs where the records stand, off every step's path, at each stop and every so often."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from standfast.abc import Store, Tx
from standfast.errors import KeyUnusable, Misuse, StandfastError
from standfast.evidence.anchors import Anchor, Anchoring, anchor_named
from standfast.evidence.checkpoints import Position, hash_of, position_of, signed, statement
from standfast.evidence.key_changes import KeyReplaced, check_may_sign
from standfast.evidence.keys import Key
from standfast.rows import CheckpointRow

log = logging.getLogger("standfast")

LOOK_SECONDS = 0.25  # a stop is signed for at most so long after it was written
CLOSE_SECONDS = 5.0  # anchors that do not answer do not keep a process from ending
TRIES = 5


@dataclass(frozen=True, slots=True)
class NotaryState:
    """What the notary of this process has done: the last checkpoint it knows of, and what keeps it from more."""

    signing: bool
    last: int = 0
    trouble: str = ""
    anchors: tuple[tuple[str, int, str], ...] = ()  # name, last checkpoint it holds, its trouble

    def told(self) -> dict[str, Any]:
        """The same for programs."""
        anchors = [{"name": name, "last": last, "trouble": trouble} for name, last, trouble in self.anchors]
        return {"signing": self.signing, "last": self.last, "trouble": self.trouble, "anchors": anchors}


class Notary:
    """Signs checkpoints of one store. Two processes, each with one, make one chain of checkpoints together."""

    def __init__(
        self,
        *,
        every_events: int = 1000,
        every_seconds: float = 60.0,
        anchors: Sequence[Anchor | str] = (),
        key: Key | None = None,
    ) -> None:
        if every_events < 1 or every_seconds <= 0:
            raise Misuse("a notary must sign every so often", hint="give every_events and every_seconds above 0")
        self._every_events = every_events
        self._every_seconds = every_seconds
        self._anchors = [Anchoring(anchor_named(one) if isinstance(one, str) else one) for one in anchors]
        self.key = key
        self._store: Store | None = None
        self._renew: Callable[[], Key] | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._version = -1
        self._since: float | None = None  # when something unsigned was first seen
        self._position = Position()
        self._shown = 0  # the last checkpoint the anchors were told of
        self._trouble = ""

    @property
    def state(self) -> NotaryState:
        """How it is, for doctor and readiness."""
        anchors = tuple((one.name, one.last, one.trouble) for one in self._anchors)
        return NotaryState(self.key is not None, self._position.n, self._trouble, anchors)

    def open(self, store: Store, key: Key, renew: Callable[[], Key] | None = None) -> None:
        """Begin to watch; what was left unsigned or unanchored by a crash is made up for.

        `renew` gives the key that the store has by now.
        """
        if self._thread is not None:
            raise Misuse("this Notary has been given to another Runtime", hint="make one for each")
        self._store, self.key, self._renew = store, key, renew
        self._ending.clear()
        for one in self._anchors:
            one.open()
        self._thread = threading.Thread(target=self._watch, name="standfast-notary", daemon=True)
        self._thread.start()

    def key_now(self) -> Key | None:
        """The key that the store has by now: it may have been replaced since this one was opened."""
        if self.key is not None and self._renew is not None:
            try:
                self.key = self._renew()
            except KeyUnusable:
                pass  # the one that is known may still be right; if it was replaced, whatever it signs is refused
        return self.key

    def close(self) -> None:
        """Sign for what is there, tell the anchors, and end; within a few seconds, whatever they do."""
        if self._thread is None:
            return
        self._ending.set()
        self._thread.join()
        self._thread = None
        end = time.monotonic() + CLOSE_SECONDS
        for one in self._anchors:
            one.close(max(0.0, end - time.monotonic()))

    # --- in its thread --------------------------------------------------------------------------------

    def _watch(self) -> None:
        last, begun = False, False
        while True:
            try:
                first = not begun
                if first:
                    self._begin()
                    begun = True
                if last or not first:
                    self._look("close" if last else "")
            except Exception as error:  # noqa: BLE001 - runs go on unsigned, and it is tried again
                self._say(f"{type(error).__name__}: {error}", error)
            else:
                self._say("")
            if last:
                return
            last = self._ending.wait(LOOK_SECONDS)

    def _begin(self) -> None:
        """Know which checkpoints were there before: each that comes now is anchored, however quick they come."""
        assert self._store is not None
        newest = self._store.read(lambda tx: tx.last_checkpoint()) if self._store.exists() else None
        self._shown = 0 if newest is None else newest.n - 1

    def _look(self, why: str) -> None:
        store, key = self._store, self.key
        assert store is not None
        assert key is not None
        if not store.exists():
            return
        version = store.version()
        waiting = self._since is not None
        if version == self._version and not waiting and not why:
            return
        why = why or store.read(self._due)
        if why:
            try:
                checkpoint_now(store, key, why)
            except KeyReplaced:
                if self._renew is None:
                    raise
                self.key = self._renew()
                checkpoint_now(store, self.key, why)
            self._since = None
        self._version = version  # our own commit, or one that came meanwhile, is looked at again: it costs a read
        store.read(self._tell_anchors)

    def _due(self, tx: Tx) -> str:
        """Why a checkpoint is due now; empty if none is."""
        place, (house, _) = tx.last_record(), tx.house_head()
        newest = tx.last_checkpoint()
        if (0 if newest is None else newest.n) != self._position.n:
            self._position = position_of(newest)
        signed_to = self._position
        if place == signed_to.place and house == signed_to.house:
            self._since = None
            return ""
        self._since = self._since or time.monotonic()
        if house != signed_to.house:
            return "house"
        if place - signed_to.place >= self._every_events:
            return "events"
        if tx.resting(signed_to.place):
            return "stop"
        return "time" if time.monotonic() - self._since >= self._every_seconds else ""

    def _tell_anchors(self, tx: Tx) -> None:
        """Each checkpoint, whoever made it; of those made before this process the newest stands for all."""
        for checkpoint in tx.checkpoints(self._shown):
            self._position = position_of(checkpoint)
            for one in self._anchors:
                one.tell(checkpoint.n, checkpoint.at, hash_of(checkpoint))
            self._shown = checkpoint.n

    def _say(self, trouble: str, error: Exception | None = None) -> None:
        """Once for a trouble that lasts; with the traceback if it is not the store's or the key's."""
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble:
                unexpected = None if isinstance(error, StandfastError) else error
                log.error("standfast: the record is not being signed: %s", trouble, exc_info=unexpected)


def checkpoint_now(store: Store, key: Key, why: str, also: Collection[str] = ()) -> CheckpointRow | None:
    """A checkpoint of what has moved, and of the runs `also`; None if there is neither.

    Of two at once, one is first and the other follows it.
    """
    for _ in range(TRIES):

        def look(tx: Tx) -> tuple[Position, bytes | None, float]:
            since = position_of(tx.last_checkpoint())
            return since, statement(tx, since, why, also), tx.now

        since, doc, at = store.read(look)
        if doc is None:
            return None
        store.create()  # who only looked until now writes from here on
        made = signed(key, since.n + 1, at, doc)

        def add(tx: Tx) -> bool:
            newest = tx.last_checkpoint()
            if newest is not None and hash_of(newest) != since.hash:  # noqa: B023 - called at once
                return False
            check_may_sign(tx, newest, since.house, key)  # noqa: B023
            tx.add_checkpoint(made)  # noqa: B023
            return True

        if store.write(add):
            return made
    raise StandfastError(
        "other processes were quicker with every checkpoint", hint="nothing is lost; it is tried again"
    )


def sign_if_possible(store: Store, path: str, why: str) -> str:
    """Sign for what a command has just done; else why that was not possible, in words."""
    from standfast.evidence.keys import load_or_make  # noqa: PLC0415 - only here is a key wanted at once

    with contextlib.suppress(StandfastError):
        checkpoint_now(store, load_or_make(path), why)
        return ""
    return "it is not signed yet: the next driver with the store's key does that"
