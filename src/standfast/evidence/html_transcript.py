"""What a run said, as HTML: with the places where it was stopped, was called suspicious, or gave itself away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from standfast.evidence.html_text import body, safe
from standfast.evidence.run_parts import StopPlace, TranscriptPart
from standfast.records import Channel
from standfast.stop_records import StopRecord
from standfast.transcripts import Said

MOST_TRIES = 300
MOST_CHARACTERS = 20_000  # of one try; transcript.json has it whole


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
            told = f"stop {numbers.get(place.stop, '?')} accepted; what follows was recorded after it"
            yield place.characters, f'<span class="cut">■ {told}</span>'
    if channel == "text":
        for offset in one.marks:
            yield offset, '<span class="suspect">⚑ called suspicious here</span>'
    for trip in one.trips:
        if trip.channel == channel:
            kept = f", {trip.held_back} characters kept in" if trip.held_back else ""
            yield trip.start, f'<span class="suspect">⚑ {safe(trip.kind)}, {safe(trip.variant)}{kept}</span>'


def _woven(text: str, labels: Sequence[tuple[int, str]], spans: Sequence[tuple[int, int]]) -> str:
    """The text with the labels where they belong, and the spans marked; all of it within what is shown."""
    shown = min(len(text), MOST_CHARACTERS)
    words: dict[int, list[str]] = {}
    for place, word in labels:
        words.setdefault(min(max(place, 0), shown), []).append(word)
    cuts = sorted({0, shown, *words, *(min(max(at, 0), shown) for span in spans for at in span)})
    parts: list[str] = words.get(0, [])
    for at, to in pairwise(cuts):
        piece = body(text[at:to])
        parts.append(f"<mark>{piece}</mark>" if any(start <= at < end for start, end in spans) else piece)
        parts += words.get(to, [])
    if shown < len(text):
        parts.append(f'<span class="soft"> … and {len(text) - shown} more characters, in transcript.json</span>')
    return "".join(parts)
