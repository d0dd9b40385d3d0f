"""The record of the house in SQLite: rights, refused attempts, halts, exports."""

from __future__ import annotations

import struct
from typing import Any

from standfast.abc import Connection
from standfast.clock import uptime
from standfast.errors import StoreDamaged
from standfast.house_events import HouseEvent, decode_house, encode_house
from standfast.records import Moment
from standfast.stores.chain import HOUSE, digests, link
from standfast.stores.queries import queries
from standfast.stores.redacting import Cleaning
from standfast.ways import token_of

_Q = queries()


class SqliteHouse:
    """The part of a transaction that concerns the store as a whole."""

    __slots__ = ("_c", "_cleaning", "held_since", "now", "route", "uptime")

    def __init__(self, connection: Connection, now: float, cleaning: Cleaning | None = None) -> None:
        self._c = connection
        self._cleaning = cleaning  # None: what is written may hold secrets
        self.now = now
        self.route = ""
        self.held_since: Moment | None = None
        self.uptime = uptime()  # read with `now`: one moment by both clocks, however long the transaction takes

    @property
    def accepted(self) -> float:
        return self.now if self.held_since is None else self.held_since.at

    def note(self, *events: HouseEvent) -> None:
        seq, head = self.house_head()
        for event in events:
            seq += 1
            event.seq, event.at, event.by_token = seq, self.now, token_of(event.route)
            body = encode_house(event)
            if self._cleaning is not None:
                body = self._cleaning.clean(body)
            head = link(head, seq, self.now, None, digests(body, None))
            self._c.execute(_Q["append_house"], (seq, self.now, body, head))

    def house(self, after: int = 0, limit: int = 500) -> list[HouseEvent]:
        return [_event(row) for row in self._c.execute(_Q["house_after"], (after, limit)).fetchall()]

    def house_head(self) -> tuple[int, bytes]:
        found = self._c.execute(_Q["house_head"]).fetchone()
        return (0, HOUSE) if found is None else (found[0], bytes(found[1]))

    def verify_house(self) -> str:
        head, last = HOUSE, 0
        while rows := self._c.execute(_Q["house_after"], (last if last else -(2**63), 1000)).fetchall():
            for row in rows:
                if row[0] != last + 1 or not _fits(head, row):
                    return f"row {row[0]} of the record of the house does not fit the one before it"
                last, head = row[0], bytes(row[3])
        return ""


def unreadable(what: str, error: Exception) -> StoreDamaged:
    """What to raise for a row that is damaged."""
    return StoreDamaged(f"{what} cannot be read: {error}", hint="nothing was changed; restore a copy of the store")


def _event(row: Any) -> HouseEvent:
    try:
        return decode_house(bytes(row[2]))
    except (TypeError, ValueError) as error:
        raise unreadable(f"row {row[0]} of the record of the house", error) from error


def _fits(previous: bytes, row: Any) -> bool:
    """Is this what was written after the row with that hash? Odd types are not."""
    seq, at, body, hash_ = row
    try:
        return bool(link(previous, seq, at, None, digests(body, None)) == hash_)
    except (TypeError, struct.error):
        return False
