"""The control bar: Pause, Redirect, Cancel in this order, each with its consequence in words (R25)."""

from __future__ import annotations

import time
from typing import Final

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Static

from standfast.cli.words import budget_words, caps, consequences, count, duration, look_of, plan_position, status_words
from standfast.names import name_words
from standfast.records import RunView
from standfast.tui.tones import tone

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

    class Stuck(Message):
        """A stop has been on its way for so long that somebody may want to force it."""

    def __init__(self) -> None:
        super().__init__(id="bar")
        self._view: RunView | None = None
        self._seen = 0.0
        self._transit: float | None = None
        self._told_stuck = 0.0
        self.armed = False  # x was pressed once
        self.suspecting = False  # so was S
        self.force: tuple[str, str] | None = None  # label and words, once it is known what could be done

    def compose(self) -> ComposeResult:
        yield Static(id="status")
        with Horizontal(id="controls"):
            for control, label in (("pause", "Pause"), ("redirect", "Redirect"), ("cancel", "Cancel")):
                with Vertical(classes="control"):
                    yield Button(label, id=control, compact=True)
                    yield Static(id=f"{control}-words", classes="words")
            with Vertical(classes="control", id="force-control"):
                yield Button("Force stop  F", id="force", compact=True)
                yield Static(id="force-words", classes="words")

    def on_mount(self) -> None:
        self.set_interval(0.5, self.draw)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.post_message(self.Pressed(event.button.id or ""))

    def show(self, view: RunView) -> None:
        """The run as it is now."""
        if view.status not in IN_TRANSIT:
            self._transit = self.force = None
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
        again = "press x again" if self.armed else "press S again: suspicious" if self.suspecting else ""
        self.query_one("#cancel", Button).label = f"Cancel: {again}" if again else "Cancel  x x"
        if view.status == "paused" and view.taken_by:
            words["pause"] = f"{name_words(view.taken_by, view.taken_token, 'somebody')} has it: t hands it back"
        for control, text in words.items():
            self.query_one(f"#{control}-words", Static).update(Text(text))
        self.set_class(over, "over")
        now = time.monotonic()
        if self._transit is not None and now - max(self._transit, self._told_stuck) > TRANSIT_SECONDS:
            self._told_stuck = now
            self.post_message(self.Stuck())
        self.query_one("#force-control").display = self.force is not None
        if self.force is not None:
            self.query_one("#force", Button).label = self.force[0]
            self.query_one("#force-words", Static).update(Text(self.force[1]))

    def _state(self, view: RunView) -> Text:
        since = 0.0 if view.status in ("paused", "cancelled", "done", "failed") else time.monotonic() - self._seen
        look = look_of(view.status)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{look.shape} {status_words(view)}", style=f"bold {tone(self, look.colour)}")
        text.append(f"  {plan_position(view)}" if view.plan else "")
        text.append(f"  {count(view.step, 'step')}")
        text.append(f"  {duration(view.elapsed - view.paused_for + since)}", style="dim")
        if view.paused_for >= 1:
            text.append(f" +{duration(view.paused_for)} paused", style=tone(self, "yellow"))
        text.append("  ").append_text(meter(view, self))
        if view.waiting_for and view.status in (*IN_TRANSIT, "queued"):
            text.append(f"  waiting for {view.waiting_for}", style=tone(self, "yellow"))
        return text


def meter(view: RunView, on: Widget) -> Text:
    """The cap that is nearest, as a meter; what was spent, in figures."""
    text = Text()
    found = max(caps(view), key=lambda one: one[1] / one[2], default=None)
    if found is not None:
        share = min(1.0, found[1] / found[2])
        full = round(share * METER)
        style = tone(on, "red" if share >= 0.9 else "yellow" if share >= 0.7 else "green")
        text.append("▰" * full, style=style).append("▱" * (METER - full), style="dim").append(" ")
    return text.append(budget_words(view), style="dim")
