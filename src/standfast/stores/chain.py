"""The hash chain: each row of a record is bound to the one before it, and the first to whose record it is.

A row's hash is over the digests of what it holds, so content that had to be deleted, or that is not shown
to everybody, leaves a chain that can still be followed.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct

NO_STATE = bytes(32)
TOMBSTONE = b"[]"  # the body of a row whose content was deleted: no events
_place = Struct("<qd?q")


def genesis(run: str) -> bytes:
    """What the first row of a run's record is bound to."""
    return sha256(b"standfast run " + run.encode()).digest()


HOUSE = sha256(b"standfast house").digest()  # the same for the record of the house


def digests(body: bytes, state: bytes | None) -> bytes:
    """What stands for a row's content in the chain: 64 bytes. No state is not the same as an empty one."""
    return sha256(body).digest() + (NO_STATE if state is None else sha256(state).digest())


def row_digest(body: bytes) -> str:
    """What stands for a row of a log in the record of the run that wrote it."""
    return sha256(body).hexdigest()


def link(previous: bytes, seq: int, at: float, step: int | None, content: bytes) -> bytes:
    """The hash of a row: over the hash before it, its place, and the digests of its content."""
    return sha256(previous + _place.pack(seq, at, step is not None, step or 0) + content).digest()
