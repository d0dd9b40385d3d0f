"""Checkpoints: signed statements of where every record stood, each bound to the one before it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pydantic_core import from_json, to_json

from standfast.abc import Tx
from standfast.clock import boot_id
from standfast.evidence.keys import Key
from standfast.house_events import RunForgotten
from standfast.rows import CheckpointRow

FORMAT = 2  # 1 signed the names of all runs, so that nobody could be shown it without them; it is still read
DOMAIN = b"standfast checkpoint\n"  # what is signed here is never mistaken for something else the key has signed
_STOOD = b"standfast run stood\n"
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
    parts = (checkpoint.key, checkpoint.signature, signed_part(_raw(checkpoint.doc)))
    return sha256(b"".join(map(_raw, parts))).hexdigest()


def signed_part(doc: bytes) -> bytes:
    """What is signed of a checkpoint: the same, each run by a hash of what is said of it.

    So a checkpoint can be shown to somebody with one of its runs, and the others are not even named.
    """
    try:
        said: Any = from_json(doc)
        if said["format"] != FORMAT:
            return doc
        return to_json({**said, "runs": [stood_hash(one) for one in said["runs"]]})
    except (KeyError, TypeError, ValueError):
        return doc  # whoever reads it says so


def stood_hash(one: Mapping[str, Any]) -> str:
    """What stands for a run in what is signed; its head is a hash that nobody can guess, and so is this."""
    return sha256(_STOOD + to_json([one[name] for name in ("run", "status", "seq", "head", "side")])).hexdigest()


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


def statement(tx: Tx, since: Position, why: str, also: Collection[str] = ()) -> bytes | None:
    """Where everything stands that has moved since the last checkpoint, and these runs; None if there is neither."""
    place = tx.last_record()
    after = since.place if since.place <= place else 0
    house, house_head = tx.house_head()
    if place == after and house == since.house and not also:
        return None
    numbers = {*tx.moved(after), *tx.numbers([*_forgotten(tx, since.house), *also])}
    runs = [stood for n in sorted(numbers) if (stood := tx.stood(n)) is not None]
    return to_json(
        {
            "format": FORMAT,
            "n": since.n + 1,
            "at": tx.now,
            "uptime": tx.uptime,
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
    return CheckpointRow(n, at, doc, key.public, key.sign(DOMAIN + signed_part(doc)))


def _forgotten(tx: Tx, after: int) -> list[str]:
    """Runs whose content was deleted since: what stands beside their records has changed without an event of theirs."""
    found: list[str] = []
    while events := tx.house(after, _HOUSE_ROWS):
        after = events[-1].seq
        found += [event.run for event in events if isinstance(event, RunForgotten)]
    return found
