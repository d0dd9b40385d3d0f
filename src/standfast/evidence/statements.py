"""Reads checkpoints as plain rows: whether they are one chain, by whom they are signed, and what they say."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json, to_json

from standfast.evidence.checkpoints import BEFORE_ALL, DOMAIN, FORMAT, hash_of, signed_part
from standfast.evidence.key_changes import NO_CHANGES, Succession, trouble_between
from standfast.evidence.keys import fingerprint, verify_signature
from standfast.evidence.report import Report
from standfast.rows import CheckpointRow


class Named(BaseModel, extra="forbid", strict=True):
    """Where a run stood, as a checkpoint says."""

    run: str
    status: str
    seq: int
    head: str
    side: str | None


class NamedHouse(BaseModel, extra="forbid", strict=True):
    seq: int
    head: str
    side: str


class _Stated(BaseModel, extra="forbid", strict=True):
    format: int
    n: int
    at: float
    uptime: float
    boot: str
    why: str
    previous: str
    place: int
    house: NamedHouse


class Statement(_Stated):
    """What a checkpoint says."""

    runs: list[Named]


class Shown(_Stated):
    """What is signed of a checkpoint, and may be shown to anybody: each run by a hash of what is said of it."""

    runs: list[str]


@dataclass(slots=True)
class Statements:
    """Checkpoints that are one chain, in order; what they say about each run, oldest first."""

    said: list[Statement] = field(default_factory=list[Statement])
    hashes: dict[int, str] = field(default_factory=dict[int, str])
    keys: list[bytes] = field(default_factory=list[bytes])
    signers: list[bytes] = field(default_factory=list[bytes])  # of each of those that were said
    of_run: dict[str, list[tuple[int, Named]]] = field(default_factory=dict[str, list[tuple[int, Named]]])
    sound: bool = True

    @property
    def last(self) -> Statement | None:
        return self.said[-1] if self.said else None


def read_statements(
    rows: Iterable[CheckpointRow], keys: Collection[bytes], report: Report, known: Succession = NO_CHANGES
) -> Statements:
    """Follow the checkpoints from the first one; those after a broken one are not relied on.

    Without `keys`, signatures are checked against the keys that the checkpoints themselves name, which shows
    that they belong together, not whose they are.
    """
    found = Statements()
    previous, n = BEFORE_ALL, 0
    for row in rows:
        said, trouble = _read(row, n + 1, previous, keys)
        if said is None:
            report.broken("checkpoints", f"checkpoint {row.n}: {trouble}")
            found.sound = False
            break
        if found.keys and row.key != found.keys[-1]:
            broken, trouble = trouble_between(found.keys[-1], row.key, known, found.keys)
            if broken:
                report.broken("checkpoints", f"checkpoint {row.n}: {trouble}")
                found.sound = False
                break
            if trouble:
                report.unproved("key", f"checkpoint {row.n}: {trouble}")
            found.keys.append(row.key)
        found.keys = found.keys or [row.key]
        n, previous = row.n, hash_of(row)
        found.hashes[n] = previous
        found.said.append(said)
        found.signers.append(row.key)
        for one in said.runs:
            found.of_run.setdefault(one.run, []).append((n, one))
    return found


def _read(row: CheckpointRow, n: int, previous: str, keys: Collection[bytes]) -> tuple[Statement | None, str]:
    if row.n != n:
        return None, f"number {n} is missing"
    if {type(part) for part in (row.doc, row.key, row.signature)} != {bytes}:
        return None, "it is not bytes"
    if keys and row.key not in keys:
        return None, f"it is signed with key {fingerprint(row.key)}, which is none of those you trust"
    if not verify_signature(row.key, DOMAIN + signed_part(row.doc), row.signature):
        return None, "its signature does not fit"
    try:
        said = Statement.model_validate_json(row.doc)
    except ValidationError as error:
        return None, f"it cannot be read: {error.error_count()} fields are not what they should be"
    if said.format not in (1, FORMAT):
        return None, f"its format {said.format} is not known here"
    if to_json(from_json(row.doc)) != row.doc:
        return None, "it is not written as it was signed"
    if (said.n, said.at) != (row.n, row.at):
        return None, "its number or time is not the one that was signed"
    if said.previous != previous:
        return None, "it does not follow the one before it"
    return said, ""


def check_anchor(lines: Iterable[str], found: Statements, report: Report) -> None:
    """Is every checkpoint that the anchor names there, as it was? Then nothing before the last one was cut off."""
    anchored, unreadable = 0, 0
    for line in lines:
        try:
            said: Any = json.loads(line)
            n, hash_ = said["n"], said["hash"]
        except (KeyError, TypeError, ValueError):
            unreadable += 1
            continue
        known = found.hashes.get(n)
        if known != hash_:
            gone = "is not there: the end was cut off" if known is None else "is another one now"
            report.broken("anchor", f"checkpoint {n}, which was anchored, {gone}")
            return
        anchored = max(anchored, n)
    if unreadable:
        report.unproved("anchor", f"{unreadable} lines of the anchor cannot be read")
    last = found.last.n if found.last is not None else 0
    if anchored < last:
        report.unproved("anchor", f"checkpoints {anchored + 1} to {last} are not anchored: they could be cut off")
    elif last:
        report.proved("anchor", f"the anchor holds checkpoint {last}: nothing before it was cut off")
    else:
        report.unproved("anchor", "there is nothing to compare the anchor with")
