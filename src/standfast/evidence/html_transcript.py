"""What a run said, as HTML: with the places where it was stopped, was called suspicious, or gave itself away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from standfast.evidence.html_text import body, safe
from standfast.evidence.run_parts import StopPlace, TranscriptPart
from standfast.records import Channel
from standfast.stop_records import StopRecord
from standfast.transcripts import Said

MOST_TRIES = 300
MOST_CHARACTERS = 20_000  # of one try; transcript.json has it whole
MOST_PLACES = 100  # in it around which its text is shown


def transcript(part: TranscriptPart, stops: Sequence[StopRecord]) -> Iterator[str]:
    """Every try of every call, the newest if there are too many."""
    numbers = {stop.seq: stop.number for stop in stops}
    left = len(part.said) - MOST_TRIES
    if left > 0:
        yield f'<p class="soft">{left} earlier ones are in transcript.json.</p>'
    if not part.said:
        yield "<p>Nothing was said.</p>"
    for one in part.said[max(left, 0) :]:
        places = [p for p in part.stops if (p.call, p.attempt, p.take) == (one.call, one.attempt, one.take)]
        yield _said(one, places, numbers)


def _said(one: Said, places: Sequence[StopPlace], numbers: dict[int, int]) -> str:
    state = "cut off, or not ended" if one.partial else "whole"
    parts = [f"<h3>{safe(one.tool or one.call)} <span class='soft'>{safe(one.call)}, {state}</span></h3>"]
    channels: tuple[tuple[Channel, str, str], ...] = (
        ("reasoning", one.reasoning, "thought"),
        ("text", one.text, "said"),
    )
    for channel, text, word in channels:
        labels = list(_labels(one, channel, places, numbers))
        if text or labels:
            spans = [(trip.start, trip.end) for trip in one.trips if trip.channel == channel]
            parts += [f'<p class="soft">{word}</p>', f"<pre>{_woven(text, labels, spans)}</pre>"]
    return "".join([*parts, "\n"])


def _labels(
    one: Said, channel: Channel, places: Sequence[StopPlace], numbers: dict[int, int]
) -> Iterator[tuple[int, str]]:
    """A word for each place that matters."""
    for place in places:
        if place.channel == channel:
            told = f"stop {numbers.get(place.stop, '?')} accepted at character {place.characters}"
            told += "; what follows was recorded after it"
            yield place.characters, f'<span class="cut">■ {told}</span>'
    if channel == "text":
        for offset in one.marks:
            yield offset, f'<span class="suspect">⚑ called suspicious here, at character {offset}</span>'
    for trip in one.trips:
        if trip.channel == channel:
            kept = f", {trip.held_back} characters kept in" if trip.held_back else ""
            yield trip.start, f'<span class="suspect">⚑ {safe(trip.kind)}, {safe(trip.variant)}{kept}</span>'


def _woven(text: str, labels: Sequence[tuple[int, str]], spans: Sequence[tuple[int, int]]) -> str:
    """The text with the labels exactly where they belong, and the spans marked; what is not shown is counted there."""
    end = len(text)
    words: dict[int, list[str]] = {}
    for place, word in labels:
        words.setdefault(min(max(place, 0), end), []).append(word)
    edges = {min(max(at, 0), end) for span in spans for at in span}
    parts: list[str] = []
    last = 0
    for start, stop in _windows(end, sorted({*words, *edges})):
        parts += _left_out(last, start, words)
        parts += words.get(start, [])
        for at, to in pairwise(sorted({start, stop, *(p for p in {*words, *edges} if start < p < stop)})):
            piece = body(text[at:to])
            parts.append(f"<mark>{piece}</mark>" if any(a <= at < b for a, b in spans) else piece)
            parts += words.get(to, [])
        last = stop
    return "".join(parts)


def _windows(end: int, places: Sequence[int]) -> list[tuple[int, int]]:
    """Which parts are shown: all if it fits, else the beginning, what is around each place, and the end."""
    if end <= MOST_CHARACTERS:
        return [(0, end)]
    quarter = MOST_CHARACTERS // 4
    shown = places if len(places) <= MOST_PLACES else [*places[: MOST_PLACES // 2], *places[-MOST_PLACES // 2 :]]
    around = quarter // max(len(shown), 1)
    windows = [(0, quarter)]
    for start, stop in [*((max(at - around, 0), min(at + around, end)) for at in shown), (end - quarter, end)]:
        if start <= windows[-1][1]:
            windows[-1] = windows[-1][0], max(windows[-1][1], stop)
        else:
            windows.append((start, stop))
    return windows


def _left_out(start: int, stop: int, words: Mapping[int, Sequence[str]]) -> Iterator[str]:
    if start < stop:
        marks = sum(len(found) for at, found in words.items() if start < at < stop)
        also = f" with {marks} marks" if marks else ""
        told = f"{stop - start} characters{also} left out here: {start} to {stop} of it in transcript.json"
        yield f'<span class="soft">\n… {told} …\n</span>'
