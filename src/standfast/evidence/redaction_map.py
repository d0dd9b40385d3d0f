"""Where a record says that something was redacted: of which kind, and by which keyed hash it can be matched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from standfast.json_values import is_array, is_object

_MARK = re.compile(r"\[redacted:([^:\[\]]{1,100}):([0-9a-f]{8})\]")
_BEGIN = "[redacted:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """One place. A text that only looks like a mark is listed too: the record cannot tell them apart."""

    seq: int
    event: str
    where: str
    kind: str
    hash: str


def redacted_in(body: str) -> Iterator[Redacted]:
    """The marks in one row of a record."""
    if _BEGIN not in body:
        return
    events: Any = from_json(body.partition("\n")[0])
    for event in events:
        for where, kind, hash_ in _marks(event, ""):
            yield Redacted(seq=event["seq"], event=event["type"], where=where, kind=kind, hash=hash_)


def _marks(value: Any, where: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(value, str):
        yield from ((where, kind, hash_) for kind, hash_ in _MARK.findall(value))
    elif is_object(value):
        for name, child in value.items():
            yield from _marks(name, f"{where}.(name)" if where else "(name)")
            yield from _marks(child, f"{where}.{name}" if where else name)
    elif is_array(value):
        for index, child in enumerate(value):
            yield from _marks(child, f"{where}.{index}" if where else str(index))
