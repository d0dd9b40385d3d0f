"""A new run, from a form made of the agent's state; a text for agents that take one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Input, Label, Select, Static

from standfast.cli.words import joined
from standfast.errors import Misuse
from standfast.json_values import is_array
from standfast.records import Json
from standfast.tui.dialogs import Dialog
from standfast.tui.fields import Field, fields_of
from standfast.tui.forms import SchemaForm


def fields_for(agent: Json) -> list[Field]:
    """What a run of this agent begins with: its text, or all of its state."""
    every = fields_of(agent.get("schema"))
    text = agent.get("text_field")
    if not text:
        return every
    mine = [replace(field, kind="long", required=True) for field in every if field.name == text]
    return mine or [Field(str(text), str(text), "long", required=True)]


class StartDialog(Dialog):
    """Choose an agent, say what it begins with; comes to `start` and its arguments."""

    BINDINGS: ClassVar[list[BindingType]] = [("ctrl+s", "start", "Start")]

    def __init__(self, agents: Sequence[Json]) -> None:
        super().__init__()
        self._agents = {str(agent["name"]): agent for agent in agents}
        self._chosen = next(iter(self._agents))

    def compose(self) -> ComposeResult:
        names = [(Content(name), name) for name in self._agents]
        with VerticalScroll(classes="box"):
            yield Label("new run", classes="title")
            yield Select(names, value=self._chosen, allow_blank=False, id="agent", compact=True)
            yield Static(self._about(), id="about")
            yield self._form()
            yield Label("labels (optional)")
            yield Input(placeholder="team=growth, ticket=42", id="labels", compact=True)
            with Vertical(classes="choices"):
                yield Button("Start (Ctrl+S)", id="start", compact=True, variant="primary")
                yield Button("Never mind (Esc)", id="close", compact=True)
            yield Static("", id="problem", classes="problem")

    def _form(self) -> SchemaForm:
        return SchemaForm(fields_for(self._agents[self._chosen]))

    def _about(self) -> Text:
        agent = self._agents[self._chosen]
        models: Any = agent.get("models")
        plan: Any = agent.get("plan")
        steps = " → ".join(str(one[1]) for one in plan if is_array(one)) if is_array(plan) else ""
        thinks = f"model: {', '.join(map(str, models))}" if models else ""
        return Text(joined([str(agent.get("description") or ""), thinks, steps], "\n"), style="dim")

    async def on_select_changed(self, event: Select.Changed) -> None:
        if event.select.id != "agent" or event.value in (self._chosen, Select.NULL):
            return
        self._chosen = str(event.value)
        self.query_one("#about", Static).update(self._about())
        old = self.query_one(SchemaForm)
        await self.query_one(".box").mount(self._form(), after=old)
        await old.remove()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "start":
            self.action_start()
        else:
            self.end_with(None)

    def action_start(self) -> None:
        """Hand it over, if everything that is needed is there."""
        agent = self._agents[self._chosen]
        text = agent.get("text_field")
        try:
            given = self.query_one(SchemaForm).values()
            labels = labels_of(self.query_one("#labels", Input).value)
        except Misuse as error:
            self.query_one("#problem", Static).update(Text(error.message))
            return
        args: Json = {"agent": self._chosen, "state": given[str(text)] if text else given}
        self.end_with(("start", {**args, "labels": labels} if labels else args))


def labels_of(typed: str) -> Json:
    """`team=growth, ticket: 42` by name."""
    found: Json = {}
    for part in filter(None, map(str.strip, typed.split(","))):
        name, sign, value = part.partition("=" if "=" in part else ":")
        if not name.strip() or not sign or not value.strip():
            raise Misuse(f"{part!r} is no label", hint="write name=value, name=value")
        found[name.strip()] = value.strip()
    return found
