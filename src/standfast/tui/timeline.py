"""Steps, calls and pauses as bars over time: to look at rather than read (R26)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from standfast.cli.screens import harmless
from standfast.cli.words import Colour, duration
from standfast.tui.model import CallLine, RunModel
from standfast.tui.tones import EFFECTS, tone

MOST: Final = 400  # calls; older ones are left out
LANES: Final = 8
HELD: Final[dict[str, tuple[str, Colour]]] = {
    "pausing": ("▒", "yellow"),
    "paused": ("░", "yellow"),
    "cancelling": ("▒", "red"),
}
ENDINGS: Final[dict[str, str]] = {"failed": "✖", "in doubt": "?", "aborted": "✂", "undone": "↶", "denied": "✖"}
Paint = Callable[[Colour], str]


@dataclass(slots=True)
class Bar:
    """A piece of a line: from a column to another, with a word in it if there is room."""

    begin: int
    end: int  # exclusive
    label: str
    fill: str
    style: str


@dataclass(slots=True)
class Line:
    """A line of bars that do not overlap."""

    name: str
    bars: list[Bar] = field(default_factory=list[Bar])


def lanes(calls: Sequence[CallLine], end: float) -> list[tuple[CallLine, int]]:
    """Calls that overlap lie in lanes of their own."""
    free: list[float] = []
    placed: list[tuple[CallLine, int]] = []
    for call in calls:
        lane = next((n for n, until in enumerate(free) if until <= call.began), len(free))
        if lane == len(free) and lane < LANES:
            free.append(0.0)
        lane = min(lane, LANES - 1)
        free[lane] = end if call.ended is None else call.ended
        placed.append((call, lane))
    return placed


def lines_of(model: RunModel, now: float, width: int, paint: Paint) -> list[Line]:
    """The run in `width` columns: its steps, what held it, and its calls, a lane each."""
    spans = model.spans
    calls = sorted((c for c in model.calls.values() if c.began), key=lambda call: call.began)[-MOST:]
    began = spans.began or min((c.began for c in calls), default=now)
    end = max(spans.ended or now, began + 0.05)

    def bar(since: float, until: float | None, label: str, fill: str, style: str) -> Bar:
        first = min(width - 1, int((since - began) / (end - began) * width))
        last = max(first + 1, round(((end if until is None else until) - began) / (end - began) * width))
        return Bar(first, min(width, last), label, fill, style)

    steps, held = Line("steps"), Line("held")
    for number, span in enumerate(one for one in spans.all if one.kind == "step"):
        shade = "reverse" if number % 2 == 0 else "reverse dim"
        steps.bars.append(bar(span.began, span.to, span.label.removeprefix("step "), " ", f"{paint('blue')} {shade}"))
    for span in spans.all:
        if span.kind != "step":
            fill, colour = HELD[span.kind]
            held.bars.append(bar(span.began, span.to, span.label, fill, paint(colour)))
    found: dict[int, Line] = {}
    for call, lane in lanes(calls, end):
        ending = ENDINGS.get(call.status, "")
        style = f"{paint(EFFECTS.get(call.effect, 'white'))} reverse"
        line = found.setdefault(lane, Line("calls" if lane == 0 else ""))
        line.bars.append(bar(call.began, call.ended, f"{ending}{call.name}", " ", style))
    return [steps, *([held] if held.bars else []), *(found[lane] for lane in sorted(found))]


def drawn(line: Line, width: int) -> Text:
    """A line as text of exactly `width` cells; a later bar lies over an earlier one."""
    text = Text(no_wrap=True, overflow="crop")
    at = 0
    for number, bar in enumerate(line.bars):
        until = min([bar.end, *(later.begin for later in line.bars[number + 1 :])])
        begin = max(bar.begin, at)
        if until <= begin:
            continue
        room = until - begin
        label = harmless(bar.label).replace("\n", " ")
        fits = cell_len(label) <= room or (room >= 5 and bar.fill == " ")
        inner = set_cell_size(label, room) if fits and bar.fill == " " else bar.fill * room
        if bar.fill != " " and cell_len(label) + 2 <= room:
            inner = set_cell_size(f"{bar.fill} {label} ", room).rstrip() + bar.fill * room
            inner = inner[:room]
        text.append(" " * (begin - at)).append(inner, style=bar.style)
        at = until
    return text.append(" " * (width - at))


class Timeline(VerticalScroll):
    """Grows while the run goes on; what is over stands still."""

    def __init__(self) -> None:
        super().__init__(id="timeline-scroll")
        self._model: RunModel | None = None

    def compose(self) -> ComposeResult:
        yield Static("nothing has happened yet", id="timeline-text")

    def on_mount(self) -> None:
        self.set_interval(1.0, self.draw)

    def on_resize(self) -> None:
        self.draw()

    def show(self, model: RunModel) -> None:
        """What has happened by now."""
        self._model = model
        self.draw()

    def draw(self) -> None:
        """The bars, as wide as there is room."""
        model = self._model
        width = self.size.width - 8
        if model is None or width < 10 or not (model.spans.all or model.calls):
            return
        now = max(time.time(), model.last_at)
        text = Text()
        for line in lines_of(model, now, width, lambda colour: tone(self, colour)):
            text.append(f"{line.name:<7}", style="dim").append_text(drawn(line, width)).append("\n")
        whole = max(0.0, (model.spans.ended or now) - model.spans.began)
        text.append(f"{'':<7}0:00{duration(whole).rjust(width - 4)}\n", style="dim")
        text.append("\n")
        for effect, colour in EFFECTS.items():
            text.append(f" {effect} ", style=f"{tone(self, colour)} reverse").append(" ")
        text.append("\n ░ paused  ▒ pausing, cancelling", style="dim")
        self.query_one("#timeline-text", Static).update(text)
