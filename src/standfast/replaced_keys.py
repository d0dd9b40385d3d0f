"""When a key that signs for the store was replaced by another one: by the rows of the house, whose order is proved."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_core import from_json

from standfast.abc import Tx
from standfast.house_events import HaltSet, HouseEvent, KeyChanged, decode_house

_CHANGED = b'"type":"key_changed"'
_HALTED = b'"type":"halt_set"'


def replaced_at(tx: Tx, key: bytes) -> int | None:
    """The row of the house by which another key took its place; None while it signs for the store, or never did."""
    newest = tx.last_checkpoint()
    if newest is not None and newest.key == key:  # as nearly always: only what came since is to be read
        changes: Iterator[HouseEvent] = _since(tx, _house_of(newest.doc))
    else:
        changes = _all(tx, _CHANGED)
    return next((one.seq for one in changes if isinstance(one, KeyChanged) and one.old == key.hex()), None)


def signed_in_time(tx: Tx, halt: str, key: bytes) -> bool:
    """Was the halt set while this key signed for the store?"""
    change = replaced_at(tx, key)
    if change is None:
        return True
    set_ = (one.seq for one in _all(tx, _HALTED) if isinstance(one, HaltSet) and one.halt == halt)
    return next(set_, change) < change


def _house_of(doc: bytes) -> int:
    """How far a checkpoint went in the record of the house; one that cannot be read is for `verify` to name."""
    try:
        return int(from_json(doc)["house"]["seq"])
    except (KeyError, TypeError, ValueError):
        return 0


def _since(tx: Tx, after: int) -> Iterator[HouseEvent]:
    while events := tx.house(after):
        after = events[-1].seq
        yield from events


def _all(tx: Tx, mark: bytes) -> Iterator[HouseEvent]:
    """Those of one kind: the others are not even decoded."""
    for seq, _, body, _ in tx.plain_house():
        if isinstance(body, bytes) and mark in body:
            try:
                event = decode_house(body)
            except ValueError:
                continue  # whoever follows the chain says so
            event.seq = seq
            yield event
