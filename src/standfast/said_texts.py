"""What each try of each call has said, by channel; and which parts of it somebody has been handed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from standfast.events import TextFlushed
from standfast.records import Channel, Span

TextKey: TypeAlias = tuple[str, int, int, Channel]
"""One try of a call on a channel: call, attempt, take, channel."""

Range: TypeAlias = tuple[int, int]
"""Characters from the first up to the second."""


class SaidTexts:
    """The texts of a run as its record holds them."""

    def __init__(self) -> None:
        self._pieces: dict[TextKey, list[str]] = {}

    def add(self, event: TextFlushed) -> None:
        """The next piece."""
        key = (event.call, event.attempt, event.take, event.channel)
        if not event.offset:
            self._pieces[key] = []
        self._pieces.setdefault(key, []).append(event.text)

    def text(self, key: TextKey) -> str:
        """All of it; empty if nothing was said."""
        return "".join(self._pieces.get(key, ()))

    def of_calls(self, calls: Iterable[str]) -> list[TextKey]:
        """What these calls have said, in order."""
        wanted = set(calls)
        return [key for key in self._pieces if key[0] in wanted]


def key_of(span: Span) -> TextKey:
    return span.call, span.attempt, span.take, span.channel


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same characters, each once: ranges that meet are one."""
    found: list[Range] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def gaps(end: int, covered: Iterable[Range]) -> list[Range]:
    """The parts of 0 to `end` that no range covers."""
    found: list[Range] = []
    at = 0
    for start, stop in sorted(covered):
        if start > at:
            found.append((at, min(start, end)))
        at = max(at, stop)
        if at >= end:
            return [(a, b) for a, b in found if a < b]
    if at < end:
        found.append((at, end))
    return [(a, b) for a, b in found if a < b]
