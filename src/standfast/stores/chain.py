"""The hash chain: each row of a run's record is bound to the one before it."""

from __future__ import annotations

from hashlib import sha256
from struct import Struct

GENESIS = bytes(32)
NO_STATE = -1
_head = Struct("<qqd?qqq")


def link(previous: bytes, run: int, seq: int, at: float, body: bytes, step: int | None, state: bytes | None) -> bytes:
    """The hash of a row, over everything in it and the hash before it; lengths keep body and state apart."""
    length = NO_STATE if state is None else len(state)
    head = _head.pack(run, seq, at, step is not None, step or 0, len(body), length)
    return sha256(b"".join((previous, head, body, b"" if state is None else state))).digest()
