"""Whether a process signs: by default where it drives, has a file for a store, and can have a key."""

from __future__ import annotations

import logging
from functools import partial
from typing import NoReturn

from standfast.errors import KeyUnusable, Misuse, StandfastError
from standfast.evidence import keys
from standfast.evidence.notary import Notary, NotaryState
from standfast.stores.sqlite import SqliteStore
from standfast.verbs import Sign

log = logging.getLogger("standfast")


class Signing:
    """The notary of a runtime, or why it has none."""

    def __init__(self, store: SqliteStore, asked: Notary | bool, *, drives: bool) -> None:
        self._store = store
        self._asked = isinstance(asked, Notary)
        self._never = asked is False
        self._may_make = False
        wanted = drives and not store.in_memory and asked is True
        self._notary = asked if isinstance(asked, Notary) else Notary() if wanted else None
        self._why = "" if wanted or self._asked else "nothing is signed here"
        if isinstance(asked, Notary) and store.in_memory:
            raise Misuse("a store in memory is gone with its process: there is nothing to sign", hint="give a file")

    @property
    def state(self) -> NotaryState:
        if self._why or self._notary is None:
            return NotaryState(False, trouble=self._why)
        return self._notary.state

    def open(self) -> None:
        """Begin to sign. A notary that was asked for must have its key; otherwise runs go on unsigned."""
        self._may_make = not (self._never or self._store.in_memory or self._signed_before())
        if self._notary is None:
            return
        try:
            given = self._notary.key
            key = given or keys.load_or_make(self._store.path)
        except KeyUnusable as error:
            if self._asked:
                raise
            self._why = str(error)
            self._notary = None
            level = logging.WARNING if keys.available() else logging.INFO  # who has not installed it wants none
            log.log(level, "standfast: the record is not signed: %s", error)
        else:
            self._notary.open(self._store, key, None if given else partial(keys.load_or_make, self._store.path))

    def _signed_before(self) -> bool:
        """Then there is a key somewhere, and no other one is to be made."""
        return self._store.exists() and self._store.read(lambda tx: tx.last_checkpoint()) is not None

    def key(self) -> keys.Key:
        """The key that signs for the store; KeyUnusable if this process cannot have it."""
        if self._store.in_memory:
            raise Misuse("a store in memory is gone with its process: there is nothing to sign", hint="give a file")
        if self._notary is not None and (known := self._notary.key_now()) is not None:
            return known
        path = keys.key_path(self._store.path)
        if not path.exists() and self._signed_before():
            raise KeyUnusable(
                f"the signing key {path} is not there, and the store has signed checkpoints: no other one was made",
                hint=f"restore it, or give its place in ${keys.ENVIRONMENT}; nothing was written",
            )
        return keys.load_or_make(self._store.path)

    def halts(self) -> Sign | None:
        """Signs halts and lifts with the store's key; None where nothing is signed."""
        if self._store.in_memory or self._never or not keys.available():
            return None
        try:
            key = self.key()  # now: inside the transaction that writes the halt it is too late to look into the store
        except StandfastError as error:
            return partial(_fail, error)
        return lambda said: (key.public, key.sign(said))

    def secret(self, purpose: bytes) -> bytes | None:
        """A secret that belongs to the store's key: the same for every process that has the key.

        Where there is none yet it is made, or each process that only asks for something would have a secret of its own.
        """
        if self._notary is not None and self._notary.key is not None:
            return self._notary.key.derive(purpose)
        if self._may_make and keys.available():
            try:
                return keys.load_or_make(self._store.path).derive(purpose)
            except KeyUnusable:
                return None  # who cannot sign says so elsewhere
        return keys.secret_of(self._store.path, purpose)

    def close(self) -> None:
        """Sign for what is there, and end."""
        if self._notary is not None:
            self._notary.close()


def _fail(error: StandfastError, _said: bytes) -> NoReturn:
    raise error
