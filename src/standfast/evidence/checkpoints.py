"""Checkpoints: signed statements of where every record stood, each bound to the one before it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import from_json, to_json

from standfast.abc import Tx
from standfast.evidence.keys import Key
from standfast.house_events import RunForgotten
from standfast.leases import boot_id
from standfast.rows import CheckpointRow

FORMAT = 1
DOMAIN = b"standfast checkpoint\n"  # what is signed here is never mistaken for something else the key has signed
BEFORE_ALL = sha256(b"standfast checkpoints").hexdigest()
_HOUSE_ROWS = 500


@dataclass(frozen=True, slots=True)
class Position:
    """How far the last checkpoint went: its number and hash, the place in all records, the seq of the house."""

    n: int = 0
    hash: str = BEFORE_ALL
    place: int = 0
    house: int = 0


def hash_of(checkpoint: CheckpointRow) -> str:
    """What the next checkpoint and the anchors name it by: over all of it, the signature included."""
    return sha256(b"".join(map(_raw, (checkpoint.key, checkpoint.signature, checkpoint.doc)))).hexdigest()


def _raw(part: object) -> bytes:
    """What a column holds; one that was tampered with need not be bytes."""
    return part if isinstance(part, bytes) else repr(part).encode()


def position_of(checkpoint: CheckpointRow | None) -> Position:
    """Where the next one begins. One that cannot be read is followed too: it is for `verify` to say so."""
    if checkpoint is None:
        return Position()
    try:
        doc: dict[str, Any] = from_json(checkpoint.doc)
        place, house = int(doc["place"]), int(doc["house"]["seq"])
    except (KeyError, TypeError, ValueError):
        place, house = 0, 0
    return Position(checkpoint.n, hash_of(checkpoint), place, house)


def statement(tx: Tx, since: Position, why: str) -> bytes | None:
    """Where everything stands that has moved since the last checkpoint; None if nothing has."""
    place = tx.last_record()
    after = since.place if since.place <= place else 0
    house, house_head = tx.house_head()
    if place == after and house == since.house:
        return None
    numbers = {*tx.moved(after), *tx.numbers(_forgotten(tx, since.house))}
    runs = [stood for n in sorted(numbers) if (stood := tx.stood(n)) is not None]
    return to_json(
        {
            "format": FORMAT,
            "n": since.n + 1,
            "at": tx.now,
            "uptime": _uptime(),
            "boot": boot_id(),
            "why": why,
            "previous": since.hash,
            "place": place,
            "runs": [
                {
                    "run": one.run,
                    "status": one.status,
                    "seq": one.seq,
                    "head": one.head.hex(),
                    "side": None if one.side is None else one.side.hex(),
                }
                for one in runs
            ],
            "house": {"seq": house, "head": house_head.hex(), "side": tx.house_side().hex()},
        }
    )


def signed(key: Key, n: int, at: float, doc: bytes) -> CheckpointRow:
    """The statement with the signature over it."""
    return CheckpointRow(n, at, doc, key.public, key.sign(DOMAIN + doc))


def _forgotten(tx: Tx, after: int) -> list[str]:
    """Runs whose content was deleted since: what stands beside their records has changed without an event of theirs."""
    found: list[str] = []
    while events := tx.house(after, _HOUSE_ROWS):
        after = events[-1].seq
        found += [event.run for event in events if isinstance(event, RunForgotten)]
    return found


def _uptime() -> float:
    """Seconds since the machine was started, which nobody can set back as they can the wall clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)
