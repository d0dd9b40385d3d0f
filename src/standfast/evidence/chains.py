"""Follows chains of plain rows: no store is needed, only the rows as they are in its tables."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json

from standfast.house_events import (
    HaltLifted,
    HaltSet,
    HouseEvent,
    KeyChanged,
    RunForgotten,
    TokenMade,
    TokenRevoked,
    decode_house,
)
from standfast.stores.chain import HOUSE, TOMBSTONE, digests, genesis, link
from standfast.stores.sides import Row


@dataclass(slots=True)
class Chain:
    """A record that was followed from its beginning; `trouble` says where it stops being one."""

    trouble: str = ""
    rows: int = 0
    seq: int = 0
    head: bytes = b""
    events_from: int = 0
    marks: dict[int, bytes] = field(default_factory=dict[int, bytes])  # the hash of each row that was asked for
    gone: int = 0  # rows whose content was deleted
    logs: dict[str, dict[int, str]] = field(default_factory=dict[str, dict[int, str]])  # digests of rows of logs


def follow_run(run: str, rows: Iterable[Row], wanted: Collection[int] = ()) -> Chain:
    """The record of a run: rows of (seq, at, body, step, state, hash, gone), oldest first."""
    chain = Chain(head=genesis(run))
    for row in rows:
        seq, at, body, step, state, hash_, gone = row
        if gone is not None and (body != TOMBSTONE or state is not None):
            chain.trouble = f"row {seq} has content, and digests as if it had none"
            return chain
        try:
            content = digests(body, state) if gone is None else bytes(gone)
        except TypeError:
            content = b""  # no row has this
        if not follow_row(chain, seq, at, step, content, hash_):
            return chain
        if seq in wanted:
            chain.marks[seq] = chain.head
        if gone is not None:
            chain.gone += 1
        elif logged := _logged(body):
            for log, first, found in logged:
                chain.logs.setdefault(log, {}).update(enumerate(found, first))
    return chain


def follow_row(chain: Chain, seq: Any, at: Any, step: Any, content: bytes, hash_: Any) -> bool:
    """Does this row, whose content has these digests, come next? Else the chain's trouble says which does not."""
    try:
        fits = type(seq) is int and seq > chain.seq and link(chain.head, seq, at, step, content) == hash_
    except (TypeError, struct.error):
        fits = False
    if not fits:
        chain.trouble = f"row {seq} does not fit the one before it"
        return False
    chain.seq, chain.head = seq, bytes(hash_)
    chain.rows += 1
    return True


def _logged(body: bytes) -> list[tuple[str, int, list[str]]]:
    """The digests of rows of logs that this row of the record names."""
    lines = body.split(b"\n", 2)
    return from_json(lines[2]) if len(lines) == 3 else []


@dataclass(slots=True)
class HouseChain(Chain):
    """The record of the house, with what it tells of: deletions by run, halts and tokens by id."""

    forgotten: dict[str, RunForgotten] = field(default_factory=dict[str, RunForgotten])
    halts: dict[str, str] = field(default_factory=dict[str, str])  # with the digest of the row
    halted: dict[str, int] = field(default_factory=dict[str, int])  # the row that says so
    lifted: dict[str, HaltLifted] = field(default_factory=dict[str, HaltLifted])
    tokens: dict[str, str] = field(default_factory=dict[str, str])  # with the digest of the row
    revoked: dict[str, float] = field(default_factory=dict[str, float])  # when
    replaced: dict[bytes, int] = field(default_factory=dict[bytes, int])  # keys that sign no longer, from which row on

    def hear(self, event: HouseEvent) -> None:
        if isinstance(event, RunForgotten):
            self.forgotten[event.run] = event
        elif isinstance(event, HaltSet):
            self.halts[event.halt], self.halted[event.halt] = event.row, event.seq
        elif isinstance(event, HaltLifted):
            self.lifted[event.halt] = event
        elif isinstance(event, TokenMade):
            self.tokens[event.token] = event.row
        elif isinstance(event, TokenRevoked):
            self.revoked.setdefault(event.token, event.at)
        elif isinstance(event, KeyChanged):
            self.replaced.setdefault(_hex(event.old), event.seq)

    def signs(self, key: bytes, row: int) -> bool:
        """Did this key still sign for the store when this row was written?"""
        return key not in self.replaced or row < self.replaced[key]


def _hex(text: str) -> bytes:
    """Empty for what is not hex: no key is that."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def follow_house(rows: Iterable[Row], wanted: Collection[int] = ()) -> HouseChain:
    """The record of the house: rows of (seq, at, body, hash), oldest first."""
    chain = HouseChain(head=HOUSE)
    for seq, at, body, hash_ in rows:
        event: Any = None
        try:
            fits = seq == chain.seq + 1 and link(chain.head, seq, at, None, digests(body, None)) == hash_
            event = decode_house(bytes(body)) if fits else None
        except (TypeError, ValueError, struct.error):
            fits = False
        if not fits:
            chain.trouble = f"row {seq} does not fit the one before it"
            return chain
        chain.seq, chain.head = seq, bytes(hash_)
        chain.rows += 1
        if seq in wanted:
            chain.marks[seq] = chain.head
        event.seq = seq
        chain.hear(event)
    return chain
