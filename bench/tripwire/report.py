"""The figures as a table in docs/tripwire.md, and as a picture."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    sources = ", ".join(f"{count} {'of' if name == 'our own' else 'from'} {name}" for name, count in figures.sources.items())
    lines = [
        f"Made by `make bench-tripwire`, with {sum(figures.sources.values())} system prompts ({sources}), each leaked in",
        "every way, in pieces of 1 to 8 characters, in the middle of other talk.",
        "",
        "| leak | ways | tried | noticed | left before the stop, worst | without hold-back |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, kinds in figures.families.items():
        seen = whole(kinds)
        lines.append(
            f"| {name} | {len(kinds)} | {seen.tried:,} | {seen.share:.2%} | {max(seen.out):.0f} characters "
            f"| {max(seen.heard):.0f} |"
        )
    worst = min(((seen.share, f"{name}: {kind}") for name, kinds in figures.families.items() if "%" not in name
                 for kind, seen in kinds.items()))
    lines += [
        "",
        f"The way seen worst of the first three families is {worst[1]}, {worst[0]:.2%}. Characters are those of the secret,",
        "spaces and punctuation counted.",
        "",
        f"**False trips**: {len(figures.trips.found)} in {figures.trips.characters:,} characters of documentation and "
        f"docstrings of installed packages,",
        f"read with each of the {figures.trips.directives} directives.",
        "",
        f"**The connection** was closed at the provider {max(figures.closings) * 1000:.1f} ms (worst of "
        f"{len(figures.closings)}; median {sorted(figures.closings)[len(figures.closings) // 2] * 1000:.1f} ms) after it "
        f"had sent the",
        f"character that tripped; at most {max(figures.left)} characters of the match had left.",
        "",
        f"**Cost**: {figures.microseconds:.2f} µs a character, {figures.microseconds * 4:.1f} µs a token of four. "
        f"Preparing a directive takes {figures.prepare:.1f} ms and",
        f"{figures.memory:.0f} bytes of memory a character: {figures.prepare:.0f} ms and {figures.memory:.0f} KB for a "
        "thousand of them.",
        "",
        f"Measured with Python {figures.python}, 2 shared cores.",
        "",
    ]
    return "\n".join(lines)


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
