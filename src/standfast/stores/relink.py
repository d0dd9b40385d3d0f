"""Brings the chains of a store that was made with schema 1 to today's form of hash.

A chain is followed in its old form first: what was changed before is not covered up by the new one.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct, error

from standfast.abc import Connection
from standfast.stores.chain import digests, genesis, link

_old_place = Struct("<qqd?qqq")


def old_link(
    previous: bytes, run: int, seq: int, at: float, body: bytes, step: int | None, state: bytes | None
) -> bytes:
    """The hash of a row as schema 1 had it."""
    length = -1 if state is None else len(state)
    place = _old_place.pack(run, seq, at, step is not None, step or 0, len(body), length)
    return sha256(b"".join((previous, place, body, state or b""))).digest()


def relink(c: Connection) -> None:
    """Give every row that fits the one before it its new hash; a chain that is broken stays so."""
    for n, run, last, head in c.execute("SELECT n, id, seq, head FROM runs").fetchall():
        old, new = bytes(32), genesis(run)
        rows = "SELECT rowid, seq, at, body, step, state, hash FROM record WHERE run = ? ORDER BY seq"
        for rowid, seq, at, body, step, state, hash_ in c.execute(rows, (n,)).fetchall():
            try:
                fits = old_link(old, n, seq, at, body, step, state) == hash_
            except (TypeError, error):
                fits = False
            if not fits:
                break
            old, new = hash_, link(new, seq, at, step, digests(body, state))
            c.execute("UPDATE record SET hash = ? WHERE rowid = ?", (new, rowid))
            if (seq, hash_) == (last, head):
                c.execute("UPDATE runs SET head = ? WHERE n = ?", (new, n))
