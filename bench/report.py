"""The measured figures as a table, a paragraph and a page; no figure here is written by hand."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from bench.chat import TURN_BYTES, TURNS, Growth
from bench.contenders import RAW, Contender
from bench.measure import CONCURRENT_RUNS, Figures
from bench.stops import TRIALS, Latency

KEPT_HEADING = "## What limits us now"  # written by hand, kept when the page is made again

Row = list[str]


def rows(contenders: Sequence[Contender], figures: Mapping[str, Figures]) -> tuple[Row, list[Row]]:
    steps = sorted(figures[RAW.module].resume_seconds)
    header = [
        "",
        "a durable step",
        "syncs a step",
        f"{CONCURRENT_RUNS} runs at once",
        "resume at " + " / ".join(f"{count:,}" for count in steps) + " steps",
        "imports",
        "a paused run",
    ]
    return header, [_row(contender, figures[contender.module], steps) for contender in (RAW, *contenders)]


def _row(contender: Contender, figures: Figures, steps: Sequence[int]) -> Row:
    resumes = [_duration(figures.resume_seconds[count]) for count in steps if count in figures.resume_seconds]
    paused = "-"
    if figures.paused_kb is not None and figures.paused_cpu is not None:
        paused = f"{figures.paused_kb:.1f} KB"
        if figures.paused_cpu >= 0.01:
            paused += f"; all: {figures.paused_cpu:.0%} of a core"
    return [
        contender.title,
        f"{figures.step_ratio or 1:.2f}x ({_duration(figures.step_seconds)})" if figures.step_seconds else "-",
        "-" if figures.syncs_a_step is None else f"{figures.syncs_a_step:.1f}",
        f"{figures.concurrent_ratio or 1:.3f}x ({figures.concurrent_rate:,.0f}/s)" if figures.concurrent_rate else "-",
        " / ".join(resumes) or "-",
        _duration(figures.import_seconds),
        paused,
    ]


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.1f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def as_text(header: Row, body: Sequence[Row]) -> str:
    widths = [max(len(row[column]) for row in [header, *body]) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [header, *body]]
    return "\n".join(line.rstrip() for line in lines)


def as_markdown(header: Row, body: Sequence[Row]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *body])


def paragraph(contenders: Sequence[Contender], figures: Mapping[str, Figures]) -> str:
    """What the table says, in sentences."""
    ours = [contender for contender in contenders if contender.ours]
    peers = [contender for contender in contenders if not contender.ours and not contender.bound]
    said: list[str] = []
    for contender in ours or peers:
        own = figures[contender.module]
        if own.step_ratio:
            said.append(f"A durable step of {contender.title} costs {own.step_ratio:.2f} raw commits")
            if own.syncs_a_step is not None:
                said[-1] += f" and {own.syncs_a_step:.1f} syncs of the file"
            said[-1] += "."
        if own.concurrent_ratio:
            said.append(
                f"With {CONCURRENT_RUNS} runs at once {contender.title} makes {own.concurrent_ratio:.3f} of the steps "
                "that raw group commits make."
            )
    for contender in ours:
        our_ratio = figures[contender.module].step_ratio
        rivals = [(ratio, peer.title) for peer in peers if (ratio := figures[peer.module].step_ratio)]
        if our_ratio and rivals:
            nearest, title = min(rivals)
            said.append(f"The nearest peer for a single run is {title}, at {nearest / our_ratio:.1f} times that cost.")
    return " ".join(said)


def ours(stops: Sequence[Latency], chat: Growth | None) -> str:
    """Stop latencies and the growing chat, which only standfast is asked for."""
    parts: list[str] = []
    if stops:
        table = [[stop.kind, _duration(stop.median), _duration(stop.worst)] for stop in stops]
        parts.append("From *accepted* until the work has really stopped (its own last sign of life):")
        parts.append(as_markdown(["work", "median", f"worst of {TRIALS}"], table))
    if chat is not None:
        parts.append(
            f"A chat that grows to {TURNS * TURN_BYTES // 1024} KB in a Log: "
            f"a step takes {_duration(chat.first_seconds)} and "
            f"{chat.first_bytes:,.0f} bytes in its first quarter, {_duration(chat.last_seconds)} and "
            f"{chat.last_bytes:,.0f} bytes in its last."
        )
    return "\n\n".join(parts)


def page(contenders: Sequence[Contender], figures: Mapping[str, Figures], more: str = "", existing: str = "") -> str:
    packages = [package for contender in contenders for package in contender.packages]
    setting = ", ".join(
        [
            f"Python {platform.python_version()}",
            f"SQLite {sqlite3.sqlite_version}",
            *(f"{package} {version(package)}" for package in packages),
            f"{os.cpu_count()} cores",
        ]
    )
    parts = [
        "# Speed",
        "Made by `make bench`. Ratios are medians against raw SQLite (WAL, synchronous=FULL) measured right before and "
        "after; absolute figures depend on the machine. A step is one read call and a changed state of 2 KB. Resume "
        "is a new process until the next call of the run starts, imports apart. For runs at once, raw means "
        f"{CONCURRENT_RUNS} rows a commit.",
        as_markdown(*rows(contenders, figures)),
        "![The same figures as bars and lines](bench.svg)",
        paragraph(contenders, figures),
        more,
        f"Measured with {setting}.",
    ]
    if KEPT_HEADING in existing:
        parts.append(existing[existing.index(KEPT_HEADING) :].rstrip())
    return "\n\n".join(part for part in parts if part) + "\n"


def write(path: Path, contenders: Sequence[Contender], figures: Mapping[str, Figures], more: str = "") -> None:
    existing = path.read_text() if path.exists() else ""
    path.write_text(page(contenders, figures, more, existing))
