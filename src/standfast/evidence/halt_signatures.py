"""A halt is signed with the store's key: a row that somebody else put there is told from one that an operator set."""

from __future__ import annotations

import os
from typing import TypeAlias

from standfast.errors import StandfastError
from standfast.evidence.keys import available, kept_publics, load_or_make, verify_signature
from standfast.verbs import Sign, Verify

Store: TypeAlias = str | os.PathLike[str]


def signs_halts(store: Store) -> Sign | None:
    """Signs for this store; None where nothing can be signed (the extra `evidence` is not installed)."""
    if not available():
        return None

    def sign(halt: bytes) -> tuple[bytes, bytes]:
        key = load_or_make(store)
        return key.public, key.sign(halt)

    return sign


def verifies_halts(store: Store) -> Verify | None:
    """Says whether this store's own key, or one it had before, signed a halt; None where that cannot be known."""
    if not available():
        return None

    def verify(key: bytes, signature: bytes, halt: bytes) -> bool:
        try:
            known = kept_publics(store)
        except StandfastError:
            return False  # nobody can say whose key that is
        return key in known and verify_signature(key, halt, signature)

    return verify
