"""The measured figures as a page; no figure here is written by hand."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from bench.server.events import RUNS, Rate
from bench.server.memory import Kept
from bench.server.verbs import Latency, Taken


@dataclass(frozen=True)
class Load:
    """Verbs under one load, and a bare POST under the same."""

    live: int
    pages: int
    taken: dict[str, Taken]
    bare: Latency


def page(loads: Sequence[Load], clicked: Load | None, rates: Sequence[Rate], memory: Sequence[Kept]) -> str:
    """Everything, in the order a reader asks for it."""
    setting = ", ".join(
        [
            f"Python {platform.python_version()}",
            *(f"{name} {version(name)}" for name in ("starlette", "uvicorn", "websockets")),
            f"{os.cpu_count()} cores",
        ]
    )
    parts = [
        "# What the control surface costs",
        "Made by `make bench-server`. A server with one worker, as `standfast serve` starts it. A live run takes a "
        "step a second and says four words in it. Of the open pages half look at the list, half at a run. Times go "
        "from the verb to its answer (*accepted*), and to the event that says it is so (*settled*: nothing of the "
        "run is at work any more; for a resume, somebody drives it; for a redirect, the step is taken again with the "
        "words). The ratio is against a POST to a bare Starlette app, measured before and after under the same load; "
        "times depend on the machine, and on what else it does. A POST is HTTP and a verb goes over a socket that is "
        "open, a moment apart: a ratio below 1 means no more than that they cost alike.",
        "## From the verb on the page's socket",
        *(_load(load) for load in loads),
    ]
    if clicked is not None:
        parts += ["## From the click on a real page", _load(clicked)]
    parts += ["## Events", *_rates(rates)]
    if memory:
        parts += ["## Memory", *_memory(memory)]
    parts.append(f"Measured with {setting}.")
    return "\n\n".join(parts) + "\n"


def _load(load: Load) -> str:
    runs = "1 live run" if load.live == 1 else f"{load.live} live runs"
    pages = {0: "no other page open", 1: "one page open"}.get(load.pages, f"{load.pages} pages open")
    rows = [
        [verb, *_cells(Latency.of(taken.accepted), load.bare), *_cells(Latency.of(taken.settled), load.bare)]
        for verb, taken in load.taken.items()
    ]
    trials = next(iter(load.taken.values())).accepted
    head = [f"{runs}, {pages}", "accepted", f"worst of {len(trials)}", "settled", f"worst of {len(trials)}"]
    bare = [f"a bare POST, worst of {load.bare.trials}", *_cells(load.bare, load.bare), "", ""]
    return _table(head, [*rows, bare])


def _cells(found: Latency, bare: Latency) -> list[str]:
    return [f"{found.median / bare.median:.1f}x ({found.median * 1e3:.1f} ms)", f"{found.worst * 1e3:.0f} ms"]


def _rates(rates: Sequence[Rate]) -> Iterable[str]:
    alone = rates[0].a_second
    yield (
        f"{RUNS} runs that do nothing but make steps, and watchers who each watch all of them over one socket. "
        "Every watcher gets every event: it is counted. Watchers come when the runs have begun, so what they are told "
        "includes what they missed: the rate is what the server can tell, to all of them together."
    )
    rows = [
        [
            str(one.watchers),
            f"{one.a_second / alone:.2f}x ({one.a_second:,.0f})",
            f"{one.told_a_second:,.0f}" if one.watchers else "-",
            f"{one.lag:.2f} s" if one.watchers else "-",
        ]
        for one in rates
    ]
    yield _table(["watchers", "events written a second", "events told a second", "the last one is told after"], rows)


def _memory(memory: Sequence[Kept]) -> Iterable[str]:
    yield (
        "One run says many tokens while a page looks at it. Bytes that are kept more at the end than after a tenth, "
        "for each byte that was said in between; what is kept then, in brackets."
    )
    rows = [
        [one.title, f"{one.said // 1000:,} KB", *(_growth(one, *each) for each in (one.server, one.worker, one.page))]
        for one in memory
    ]
    yield _table(["", "said", "server", "worker", "page"], rows)


def _growth(one: Kept, first: int, last: int) -> str:
    return f"{(last - first) / one.said:+.2f} ({last / 1e6:.1f} MB)"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
