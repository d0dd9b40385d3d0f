"""The plan with the state of each line and the effects it had; the latest steps of a run without one (R26)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from standfast.cli.words import PLAN_SHAPES, Colour, child_words, ended, flying
from standfast.names import name_words
from standfast.records import PlanItem, RunView
from standfast.tui.model import CallLine, RunModel
from standfast.tui.tones import EFFECTS, effect_tone, tone
from standfast.unread import NOT_READ

STEPS: Final = 12  # of a run without a plan
COLOURS: Final[dict[str, Colour]] = {"running": "green", "done": "blue", "dropped": "bright_black", "stopped": "red"}
SHAPES: Final = {**PLAN_SHAPES, "stopped": "■"}


def calls_of(item: PlanItem, view: RunView, model: RunModel) -> list[CallLine]:
    """What was called for a line of the plan: from the step that began it to the one that began the next."""
    if item.step is None:
        return []
    later = view.plan[view.plan.index(item) + 1 :]
    return model.calls_of(item.step, next((one.step for one in later if one.step is not None), None))


class Plan(VerticalScroll):
    """The plan, what is in flight, what a person changed."""

    def __init__(self) -> None:
        super().__init__(id="plan", can_focus=False)

    def compose(self) -> ComposeResult:
        yield Static(id="plan-text")

    def show(self, view: RunView, model: RunModel) -> None:
        """The plan as it is now."""
        text = Text()
        for item in view.plan:
            status = "stopped" if item.status == "running" and ended(view.status) else item.status
            self._line(text, status, item.title, calls_of(item, view, model))
            if item.was:
                text.append(f"  was: {item.was}\n", style="dim")
        if not view.plan:
            text.append("no plan: its steps\n", style="dim")
            for step in range(max(0, view.step - STEPS + 1), view.step + (0 if ended(view.status) else 1)):
                now = "queued" if view.status in ("queued", "paused") else "running"
                self._line(text, "done" if step < view.step else now, f"step {step}", model.calls_of(step, step + 1))
        if view.in_flight:
            text.append(f"\nin flight\n{flying(view.in_flight)}\n", style=tone(self, "cyan"))
        if view.taken_by:
            who = name_words(view.taken_by, view.taken_token, "somebody")
            text.append(
                f"\n{who} has it:\nu performs a tool,\nt hands it back\n",
                style=tone(self, "magenta"),
            )
        if view.changed:
            text.append(f"\nwhat you changed\n{view.changed}\n", style=tone(self, "cyan"))
        if view.error:
            text.append(f"\n{view.error}\n", style=tone(self, "red"))
        for child, words in view.child_needs.items():
            colour = tone(self, "red" if NOT_READ in words else "yellow")
            text.append(f"\n{child_words(child, words)}\n", style=colour)
        for line in view.not_read:
            text.append(f"\n{line}\n", style=tone(self, "red"))
        self.query_one("#plan-text", Static).update(text)

    def _line(self, text: Text, status: str, title: str, calls: Sequence[CallLine]) -> None:
        colour = COLOURS.get(status)
        style = "" if colour is None else tone(self, colour)
        text.append(f"{SHAPES[status]} {title}\n", style=f"bold {style}" if status == "running" else style)
        found = [effect for effect in reversed(EFFECTS) if any(call.effect == effect for call in calls)]
        undone = sum(call.undo == "undone" for call in calls)
        doubts = any(call.status == "in doubt" for call in calls)
        if not (found or undone or doubts):
            return
        text.append(" ")
        for effect in found:
            text.append(f" {effect}", style=effect_tone(self, effect))
        if undone:
            text.append(f" {undone} undone", style=tone(self, "cyan"))
        if doubts:
            text.append(" in doubt", style=f"bold {tone(self, 'yellow')}")
        text.append("\n")
