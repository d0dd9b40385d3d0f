"""The times of one stop on one line each, as a drawing that needs nothing but the page it stands in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from standfast.evidence.html_text import safe, seconds
from standfast.names import name_words
from standfast.records import Moment
from standfast.stop_records import StopRecord, settled_words, since_accepted

MOST = 24  # lines of a drawing; the table has them all
_ROW, _FROM, _TO = 34, 2.0, 98.0  # pixels; percent of the width, so that text stays as large where it is narrow


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment of a stop."""

    kind: str
    label: str
    moment: Moment | None


def marks_of(stop: StopRecord) -> Iterator[Mark]:
    """Asked, accepted, last bytes, settled: in the order in which they are told."""
    yield Mark("asked", "asked", stop.asked)
    yield Mark("accepted", "accepted", stop.accepted)
    for stream in stop.streams:
        yield Mark("provider", f"last byte from the provider ({stream.tool})", stream.last_byte)
    for client in stop.clients:
        yield Mark(
            "client",
            f"last byte to {name_words(client.by, client.by_token, client.client)} ({client.way})",
            client.last_byte,
        )
    yield Mark("settled", settled_words(stop), stop.settled)


def drawing(stop: StopRecord) -> str:
    """The stop as SVG."""
    told = list(marks_of(stop))
    shown = told if len(told) <= MOST else [*told[: MOST - 1], told[-1]]
    offsets = [since_accepted(stop, mark.moment) for mark in shown]
    known = [offset for offset in offsets if offset is not None]
    low, high = min(known), max(known)
    width = (high - low) or 1.0
    height = _ROW * len(shown) + 6

    def x(offset: float) -> str:
        return f"{_FROM + (_TO - _FROM) * (offset - low) / width:.2f}%"

    zero = x(0.0)
    parts = [
        f'<svg width="100%" height="{height}" role="img" '
        f'aria-label="Times of stop {stop.number}, from when it was accepted">',
        f'<line class="zero" x1="{zero}" y1="0" x2="{zero}" y2="{height}"/>',
    ]
    for index, (mark, offset) in enumerate(zip(shown, offsets, strict=True)):
        y = _ROW * index + 14
        rail = y + 12
        parts.append(f'<text x="0" y="{y}">{safe(_short(mark.label))}</text>')
        parts.append(f'<text class="number" x="100%" y="{y}" text-anchor="end">{seconds(offset)}</text>')
        parts.append(f'<line class="rail" x1="{_FROM}%" y1="{rail}" x2="{_TO}%" y2="{rail}"/>')
        if offset is not None:
            parts.append(f'<circle class="{mark.kind}" cx="{x(offset)}" cy="{rail}" r="5"/>')
    return "".join([*parts, "</svg>"])


def _short(label: str) -> str:
    return label if len(label) <= 36 else f"{label[:35]}…"
