"""What each try of each call has said, by channel; and which parts of it somebody has been handed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from standfast.events import TextDelta, TextFlushed
from standfast.records import Channel, Span

TextKey: TypeAlias = tuple[str, int, int, Channel]
"""One try of a call on a channel: call, attempt, take, channel."""

Range: TypeAlias = tuple[int, int]
"""Characters from the first up to the second."""


MOST_FOLLOWED = 200  # texts of one reader whose ends are remembered; of an older one the record tells first again


@dataclass(slots=True)
class _Ends:
    """How far a reader has one text: by the record, and by live text without a break."""

    flushed: int = 0
    live: int = -1  # it has had none


class LiveText:
    """Live text for one reader, without gaps: what does not continue what the reader has waits for the record.

    A reader that joins in the middle of a text, or that has lost some of it, is given the text so far by the record
    first, a quarter of a second later at most; then live text goes on from there.
    """

    def __init__(self, most: int) -> None:
        self.waiting: deque[TextDelta] = deque(maxlen=most)
        self._early: deque[TextDelta] = deque(maxlen=most)  # something before it is missing
        self._ends: dict[TextKey, _Ends] = {}

    def recorded(self, span: Span) -> None:
        """The reader is given a piece of the record, and all that comes before it in its text."""
        self._known(key_of(span)).flushed = span.end
        if self._early:
            early, later = list(self._early), list(self.waiting)
            self._early.clear()
            self.waiting.clear()
            self.waiting.extend((*early, *later))

    def next(self) -> TextDelta | None:
        """The next piece that the reader can be given now; None if there is none."""
        while self.waiting:
            delta = self.waiting.popleft()
            ends = self._known((delta.call_id, delta.attempt, delta.take, delta.channel))
            end = delta.offset + len(delta.text)
            if delta.offset == 0 or delta.offset <= ends.live or delta.offset <= ends.flushed < end:
                ends.live = end
                return delta
            if delta.offset > ends.flushed:
                self._early.append(delta)
            # else: the record has told it
        return None

    def _known(self, key: TextKey) -> _Ends:
        ends = self._ends[key] = self._ends.pop(key, _Ends())  # as the newest
        if len(self._ends) > MOST_FOLLOWED:
            del self._ends[next(iter(self._ends))]
        return ends


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


def span_of(event: TextFlushed) -> Span:
    """The text that an event hands over."""
    end = event.offset + len(event.text)
    return Span(event.call, event.attempt, event.take, event.channel, event.offset, end)


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
