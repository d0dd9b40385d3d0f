"""A person in the run: perform a tool, hand it back, go back to a step, go on from one (R10, R24, R29)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar

from pydantic_core import from_json
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Label, Select, Static, TextArea

from standfast.errors import Misuse, StandfastError
from standfast.records import Json, RunView
from standfast.tui.dialogs import Dialog
from standfast.tui.fields import fields_of
from standfast.tui.forms import SchemaForm


class PerformDialog(Dialog):
    """Choose a tool and its arguments; comes to `perform`."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+s", "perform", "Perform")]

    def __init__(self, tools: Sequence[Json]) -> None:
        super().__init__()
        self._tools = {str(tool["name"]): tool for tool in tools}
        self._chosen = next(iter(self._tools))

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box"):
            yield Label("perform a tool, through the run's own gate", classes="title")
            names = [(Content(f"{name} · {tool.get('effect')}"), name) for name, tool in self._tools.items()]
            yield Select(names, value=self._chosen, allow_blank=False, id="tool", compact=True)
            yield self._form()
            with Vertical(classes="choices"):
                yield Button("Perform it (Ctrl+S)", id="perform", compact=True, variant="primary")
                yield Button("Never mind (Esc)", id="close", compact=True)
            yield Static("", id="problem", classes="problem")

    def _form(self) -> SchemaForm:
        return SchemaForm(fields_of(self._tools[self._chosen].get("schema")))

    async def on_select_changed(self, event: Select.Changed) -> None:
        if event.select.id == "tool" and event.value not in (self._chosen, Select.NULL):
            self._chosen = str(event.value)
            old = self.query_one(SchemaForm)
            await self.query_one(".box").mount(self._form(), after=old)
            await old.remove()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "perform":
            self.action_perform()
        else:
            self.end_with(None)

    def action_perform(self) -> None:
        """Hand it over, if everything that is needed is there."""
        try:
            args = self.query_one(SchemaForm).values()
        except Misuse as error:
            self.query_one("#problem", Static).update(Text(error.message))
            return
        self.end_with(("perform", {"tool": self._chosen, "args": args}))


class HandBackDialog(Dialog):
    """A note for the agent; comes to `hand_back`."""

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box"):
            yield Label("hand it back: the agent goes on where you leave it", classes="title")
            yield Input(placeholder="what you did, for the agent (optional)", id="note", compact=True)
            with Vertical(classes="choices"):
                yield Button("Hand back (Enter)", id="hand-back", compact=True, variant="primary")
                yield Button("Keep it (Esc)", id="close", compact=True)

    def on_mount(self) -> None:
        self.query_one("#note", Input).focus()

    def on_input_submitted(self) -> None:
        self.end_with(("hand_back", {"note": self.query_one("#note", Input).value.strip()}))

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "hand-back":
            self.on_input_submitted()
        else:
            self.end_with(None)


class StepDialog(Dialog):
    """From a step on: undo back to it, fork it, change its state and run that, or save everything.

    Comes to `rewind`, `fork` or `save` with its arguments.
    """

    def __init__(self, view: RunView, state: Callable[[int], Awaitable[Any]]) -> None:
        super().__init__()
        self._run = view
        self._state = state
        self._at: int | None = None  # the step whose state is being edited

    def compose(self) -> ComposeResult:
        over = self._run.status in ("cancelled", "done", "failed")
        with VerticalScroll(classes="box"):
            yield Label(f"go on from a step (0 to {self._run.step})", classes="title")
            yield Input(str(self._run.step), type="integer", id="step", compact=True)
            yield TextArea("", id="state", compact=True, tab_behavior="focus")
            with Vertical(classes="choices"):
                yield Button("Fork: a new run from there (Enter)", id="fork", compact=True, variant="primary")
                yield Button("Edit its state and run that", id="edit", compact=True)
                yield Button("Run it with this state", id="rerun", compact=True, variant="primary")
                if not over and self._run.status != "cancelling":
                    yield Button("Undo back to it, and hold the run there", id="rewind", compact=True)
                yield Button("Save run, receipt and record as JSON", id="save", compact=True)
                yield Button("Never mind (Esc)", id="close", compact=True)
            yield Static("", id="problem", classes="problem")

    def on_mount(self) -> None:
        self.query_one("#state").display = False
        self.query_one("#rerun").display = False
        self.query_one("#step", Input).focus()

    def on_input_submitted(self) -> None:
        self._with_step("fork", "at")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        match event.button.id:
            case "fork":
                self._with_step("fork", "at")
            case "rewind":
                self._with_step("rewind", "to")
            case "edit":
                self._edit()
            case "rerun":
                self._rerun()
            case "save":
                self.end_with(("save", {}))
            case _:
                self.end_with(None)

    def _step(self) -> int | None:
        typed = self.query_one("#step", Input).value.strip()
        if typed.isdigit() and int(typed) <= self._run.step:
            return int(typed)
        self._problem(f"there is no step {typed or 'without a number'}: the run is at step {self._run.step}")
        return None

    def _with_step(self, verb: str, name: str) -> None:
        step = self._step()
        if step is not None:
            self.end_with((verb, {name: step}))

    @work(exclusive=True)
    async def _edit(self) -> None:
        step = self._step()
        if step is None:
            return
        try:
            state = await self._state(step)
        except StandfastError as error:
            self._problem(str(error))
            return
        self._at = step
        area = self.query_one("#state", TextArea)
        area.load_text(json.dumps(state, indent=2, ensure_ascii=False))
        area.display = True
        rerun = self.query_one("#rerun", Button)
        rerun.label = f"Run it from step {step} with this state"
        rerun.display = True
        self.query_one("#edit").display = False
        area.focus()

    def _rerun(self) -> None:
        try:
            state: Any = from_json(self.query_one("#state", TextArea).text)
        except ValueError as error:
            self._problem(f"this is not JSON: {error}")
            return
        self.end_with(("fork", {"at": self._at, "state": state}))

    def _problem(self, text: str) -> None:
        self.query_one("#problem", Static).update(Text(text))
