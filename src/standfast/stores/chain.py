"""The hash chain: each row of a run's record is bound to the one before it."""

from __future__ import annotations

from hashlib import sha256
from struct import Struct

GENESIS = bytes(32)
_head = Struct("<qqdq")


def link(previous: bytes, run: int, seq: int, at: float, body: bytes, step: int | None, state: bytes | None) -> bytes:
    """The hash of a row, over everything in it and the hash before it."""
    digest = sha256(previous)
    digest.update(_head.pack(run, seq, at, -1 if step is None else step))
    digest.update(body)
    if state is not None:
        digest.update(b"\0state")
        digest.update(state)
    return digest.digest()
