"""The control bar: Pause, Redirect, Cancel in this order, each with its consequence in words (R25)."""

from __future__ import annotations

import time
from typing import Final

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Button, Static

from standfast.cli.words import budget_words, caps, consequences, count, duration, look_of, plan_position, status_words
from standfast.records import RunView

METER: Final = 10  # characters
TRANSIT_SECONDS: Final = 5.0  # then force is offered
IN_TRANSIT: Final = ("pausing", "cancelling")


class Bar(Vertical):
    """Always on screen while the run lives."""

    class Pressed(Message):
        """A control was pressed."""

        def __init__(self, control: str) -> None:
            super().__init__()
            self.which = control

    def __init__(self) -> None:
        super().__init__(id="bar")
        self._view: RunView | None = None
        self._seen = 0.0
        self._transit: float | None = None
        self.armed = False  # x was pressed once
        self.can_force = False

    def compose(self) -> ComposeResult:
        yield Static(id="status")
        with Horizontal(id="controls"):
            for control, label in (("pause", "Pause"), ("redirect", "Redirect"), ("cancel", "Cancel")):
                with Vertical(classes="control"):
                    yield Button(label, id=control, compact=True)
                    yield Static(id=f"{control}-words", classes="words")
            with Vertical(classes="control", id="force-control"):
                yield Button("Force stop  F", id="force", compact=True)
                yield Static("kills the worker that holds it", classes="words")

    def on_mount(self) -> None:
        self.set_interval(0.5, self.draw)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.post_message(self.Pressed(event.button.id or ""))

    def show(self, view: RunView) -> None:
        """The run as it is now."""
        if view.status not in IN_TRANSIT:
            self._transit = None
        elif self._transit is None:
            self._transit = time.monotonic()
        self._view, self._seen = view, time.monotonic()
        self.draw()

    def draw(self) -> None:
        """Write it all; the clock goes on between two looks."""
        view = self._view
        if view is None:
            return
        words = consequences(view)
        over = view.status in ("cancelled", "done", "failed")
        self.query_one("#status", Static).update(self._state(view))
        pause = self.query_one("#pause", Button)
        pause.label = "Resume  p" if view.status == "paused" else "Pause  p"
        self.query_one("#redirect", Button).label = "Redirect  r"
        self.query_one("#cancel", Button).label = "Cancel: press x again" if self.armed else "Cancel  x x"
        for control, text in words.items():
            self.query_one(f"#{control}-words", Static).update(Text(text))
        self.set_class(over, "over")
        waits = self._transit is not None and time.monotonic() - self._transit > TRANSIT_SECONDS
        self.query_one("#force-control").display = self.can_force and waits

    def _state(self, view: RunView) -> Text:
        since = 0.0 if view.status in ("paused", "cancelled", "done", "failed") else time.monotonic() - self._seen
        look = look_of(view.status)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{look.shape} {status_words(view)}", style=f"bold {look.colour}")
        text.append(f"  {plan_position(view)}" if view.plan else "")
        text.append(f"  {count(view.step, 'step')}")
        text.append(f"  {duration(view.elapsed - view.paused_for + since)}", style="dim")
        if view.paused_for >= 1:
            text.append(f" +{duration(view.paused_for)} paused", style="dim yellow")
        text.append("  ").append_text(meter(view))
        if view.waiting_for and view.status in (*IN_TRANSIT, "queued"):
            text.append(f"  waiting for {view.waiting_for}", style="yellow")
        return text


def meter(view: RunView) -> Text:
    """The cap that is nearest, as a meter; what was spent, in figures."""
    text = Text()
    found = max(caps(view), key=lambda one: one[1] / one[2], default=None)
    if found is not None:
        share = min(1.0, found[1] / found[2])
        full = round(share * METER)
        style = "red" if share >= 0.9 else "yellow" if share >= 0.7 else "green"
        text.append("▰" * full, style=style).append("▱" * (METER - full), style="dim").append(" ")
    return text.append(budget_words(view), style="dim")
