"""The figures as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from bench.contenders import RAW, Contender
from bench.measure import CONCURRENT_RUNS, Figures

_OURS, _RAW, _PEER = "#0f766e", "#111827", "#9ca3af"


def draw(path: Path, contenders: Sequence[Contender], figures: Mapping[str, Figures]) -> None:
    matplotlib.rcParams["svg.hashsalt"] = "bench"  # the same figures give the same file
    picture: Any = Figure(figsize=(10, 6.5), layout="constrained")
    everyone = [RAW, *contenders]
    axes = picture.subplots(2, 2)
    _bars(
        axes[0][0],
        "a durable step: times a raw commit (less is better)",
        [(c, figures[c.module].step_ratio or 1.0) for c in everyone if figures[c.module].step_seconds],
        "{:.2f}x",
    )
    _bars(
        axes[0][1],
        f"{CONCURRENT_RUNS} runs at once: share of raw (more is better)",
        [(c, figures[c.module].concurrent_ratio or 1.0) for c in everyone if figures[c.module].concurrent_rate],
        "{:.3f}x",
    )
    _resume(axes[1][0], everyone, figures)
    _bars(
        axes[1][1],
        "a paused run: KB of memory (less is better)",
        [(c, kb) for c in contenders if (kb := figures[c.module].paused_kb) is not None],
        "{:.1f} KB",
    )
    picture.savefig(path, format="svg", metadata={"Date": None})


def _colour(contender: Contender) -> str:
    return _OURS if contender.ours else _RAW if contender is RAW or contender.bound else _PEER


def _bars(axis: Any, title: str, values: Sequence[tuple[Contender, float]], label: str) -> None:
    axis.set_title(title, fontsize=9)
    bars = axis.barh(
        [contender.title for contender, _ in values],
        [value for _, value in values],
        color=[_colour(contender) for contender, _ in values],
    )
    axis.bar_label(bars, labels=[label.format(value) for _, value in values], padding=3, fontsize=8)
    axis.margins(x=0.2)
    axis.invert_yaxis()
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _resume(axis: Any, everyone: Sequence[Contender], figures: Mapping[str, Figures]) -> None:
    axis.set_title("resume in a new process: ms until the next call, by steps made", fontsize=9)
    for contender, marker in zip(everyone, "osD^vPX*" * len(everyone), strict=False):
        taken = sorted(figures[contender.module].resume_seconds.items())
        if taken:
            axis.plot(
                [steps for steps, _ in taken],
                [seconds * 1000 for _, seconds in taken],
                marker=marker,
                color=_colour(contender),
                label=contender.title,
            )
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.tick_params(labelsize=8)
    if axis.lines:
        axis.legend(fontsize=7)
    axis.spines[["top", "right"]].set_visible(False)
