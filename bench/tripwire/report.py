"""The figures as a table in docs/tripwire.md, and as a picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bench.tripwire.crying_wolf import Trips
from bench.tripwire.recall import Seen

_PAGE = Path("docs/tripwire.md")
_PICTURE = Path("docs/tripwire.svg")
_BETWEEN = re.compile(r"(<!-- measured: begin -->\n).*(<!-- measured: end -->)", re.DOTALL)


@dataclass
class Figures:
    """What one run of the bench found."""

    sources: Mapping[str, int]
    families: Mapping[str, Mapping[str, Seen]]
    trips: Trips
    microseconds: float  # a character
    prepare: float  # milliseconds for a thousand characters of directive
    memory: float  # bytes a character of directive
    closings: list[float]
    left: list[int]
    python: str
    load: float  # of the machine, while it was measured


def whole(kinds: Mapping[str, Seen]) -> Seen:
    """A family in one."""
    seen = Seen()
    for one in kinds.values():
        seen.tried += one.tried
        seen.noticed += one.noticed
        seen.heard += one.heard
        seen.out += one.out
    return seen


def table(figures: Figures) -> str:
    """In Markdown."""
    of = {"our own": "of our own"}
    sources = ", ".join(f"{count} {of.get(name, f'from {name}')}" for name, count in figures.sources.items())
    every = sum(figures.sources.values())
    least = min(s.share for name, kinds in figures.families.items() if "%" not in name for s in kinds.values())
    closed = sorted(figures.closings)
    worst, median = closed[-1] * 1000, closed[len(closed) // 2] * 1000
    paragraphs = [
        f"Made by `make bench-tripwire`: {every} system prompts ({sources}), each leaked in every way, in pieces of "
        "1 to 8 characters, in the middle of other talk.",
        "\n".join(_rows(figures)),
        f"Characters are those of the secret, spaces and punctuation counted. Of the first three kinds, every way "
        f"is noticed in at least {least:.1%} of the prompts.",
        f"**False trips**: {len(figures.trips.found)} in {figures.trips.characters:,} characters of documentation and "
        f"docstrings of installed packages, read with each of the {figures.trips.directives} directives.",
        f"**The connection** was seen to close by the provider {worst:.0f} ms (worst of {len(closed)}; median "
        f"{median:.0f} ms) after it had sent the character that tripped; at most {max(figures.left)} characters of the "
        "match had left.",
        f"**Cost**: {figures.microseconds:.2f} µs a character, {figures.microseconds * 4:.1f} µs a token of four. To "
        f"prepare a directive of a thousand characters takes {figures.prepare:.0f} ms, once, and "
        f"{figures.memory:.0f} KB.",
        f"Measured with Python {figures.python}, 2 shared cores, load {figures.load:.0f}: times are those of a machine "
        f"{'with other work' if figures.load > 2 else 'by itself'}.",
    ]
    return "\n\n".join(paragraphs) + "\n"


def _rows(figures: Figures) -> Iterator[str]:
    yield "| leak | ways | tried | noticed | left before the stop: median, worst | if not held back: worst |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, kinds in figures.families.items():
        seen = whole(kinds)
        left = sorted(seen.out)
        median, worst = left[len(left) // 2], left[-1]
        yield (
            f"| {name} | {len(kinds)} | {seen.tried:,} | {seen.share:.1%} | {median:,.0f}, {worst:,.0f} "
            f"| {max(seen.heard):,.0f} |"
        )


def write(figures: Figures) -> None:
    """Into the docs."""
    page = _PAGE.read_text()
    assert _BETWEEN.search(page), f"{_PAGE} has no place for what is measured"
    _PAGE.write_text(_BETWEEN.sub(lambda found: found[1] + table(figures) + found[2], page))
    _draw(figures)


def _draw(figures: Figures) -> None:
    matplotlib.rcParams["svg.hashsalt"] = "tripwire"  # the same figures give the same file
    picture: Any = Figure(figsize=(8, 3), layout="constrained")
    left, right = picture.subplots(1, 2)
    names = list(figures.families)
    seen = [whole(figures.families[name]) for name in names]
    bars = left.barh(names, [one.share * 100 for one in seen], color="#0f766e")
    left.bar_label(bars, [f"{one.share:.1%}" for one in seen], padding=3, fontsize=8)
    left.set(xlim=(0, 125), title="leaks noticed (%)")
    left.invert_yaxis()
    for one, name in zip(seen, names, strict=True):
        points = sorted(one.out)
        share = [100 * (at + 1) / one.tried for at in range(len(points))]
        right.plot(points, share, label=name, linewidth=1.2)
    right.set(xscale="symlog", xlabel="characters that had left", title="stopped by then (%)", ylim=(0, 105))
    right.axvline(64, color="#9ca3af", linewidth=0.8, linestyle=":")
    right.legend(fontsize=7, frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
        axes.title.set_fontsize(9)
    picture.savefig(_PICTURE, metadata={"Date": None})
    text = _PICTURE.read_text()
    _PICTURE.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n")
