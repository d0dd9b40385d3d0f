"""Digests of what stands beside the chained records: a change of any byte, type or order of it is seen.

Plain values in, 32 bytes out: whoever has the rows can compute them without a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from struct import pack
from typing import Any

RUN_COLUMNS = (
    *("n", "id", "agent", "status", "seq", "head", "fence", "epoch", "holder", "doc", "parent", "created", "wake_at"),
    "needs",
)
CALL_COLUMNS = (
    *("n", "run", "id", "epoch", "step", "status", "effect", "settles", "undo", "doc", "args", "before", "result"),
)
MAIL_COLUMNS = ("n", "run", "id", "status", "doc")
CONTRACT_COLUMNS = ("id", "agent", "doc")
HALT_COLUMNS = ("n", "id", "doc", "key", "signature", "lifted")
TOKEN_COLUMNS = ("id", "hash", "doc", "expires", "revoked")

Row = Sequence[Any]
AT_REST = frozenset({"queued", "paused", "done", "failed", "cancelled"})
"""What stands beside the record of such a run changes only together with the record."""


def packed(row: Row) -> bytes:
    """A row so that no two different ones look alike: each value with its type and length."""
    parts = [b"r%d:" % len(row)]
    for value in row:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, int):
            parts.append(b"i%d;" % value)
        elif isinstance(value, float):
            parts.append(b"f" + pack("<d", value))
        else:
            kind, raw = (
                (b"t", value.encode("utf-8", "surrogatepass")) if isinstance(value, str) else (b"b", bytes(value))
            )
            parts.append(b"%b%d:%b" % (kind, len(raw), raw))
    return b"".join(parts)


def _digest(tables: Iterable[tuple[bytes, Iterable[Row]]]) -> bytes:
    found = sha256()
    for name, rows in tables:
        found.update(name + b"\n")
        for row in rows:
            found.update(packed(row))
    return found.digest()


def run_side(run: Row, contract: Row | None, calls: Iterable[Row], mail: Iterable[Row]) -> bytes:
    """What stands beside the record of a run: its row, its contract, its calls and its mail, in this order."""
    contracts = [] if contract is None else [contract]
    return _digest([(b"run", [run]), (b"contract", contracts), (b"calls", calls), (b"mail", mail)])


def lasting(*values: Any) -> str:
    """What stands in the record of the house for what of a halt or a token never changes."""
    return sha256(packed(values)).hexdigest()


def house_side(halts: Iterable[Row], tokens: Iterable[Row]) -> bytes:
    """What stands beside the record of the house: the halts and the tokens, in the order of their ids."""
    return _digest([(b"halts", halts), (b"tokens", tokens)])
