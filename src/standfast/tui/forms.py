"""The widgets of a form: a label, its input, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Checkbox, Input, Label, Select, TextArea

from standfast.records import Json
from standfast.tui.fields import Field, read


class SchemaForm(Vertical):
    """Fields that a person fills in; `values()` reads them all, or says what is wrong."""

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__(classes="form")
        self.fields = list(fields)

    def compose(self) -> ComposeResult:
        if not self.fields:
            yield Label("it takes nothing")
        for number, field in enumerate(self.fields):
            if field.kind == "boolean":
                yield Checkbox(Content(field.label), field.initial == "true", id=f"field-{number}", compact=True)
                continue
            how = {"lines": " (one a line)", "json": " (JSON)"}.get(field.kind, "")
            need = "" if field.required else " (optional)"
            yield Label(Text(f"{field.label}{how}{need}{f': {field.help}' if field.help else ''}"))
            if field.kind == "choice":
                options = [(Content(str(one)), str(one)) for one in field.choices]
                known = field.initial in [value for _, value in options]
                yield Select(options, value=field.initial if known else Select.NULL, id=f"field-{number}", compact=True)
            elif field.kind in ("long", "lines", "json"):
                yield TextArea(field.initial, id=f"field-{number}", compact=True, tab_behavior="focus")
            else:
                yield Input(field.initial, id=f"field-{number}", compact=True)

    def typed(self, number: int) -> str:
        """What stands in a field now."""
        found: Any = self.query_one(f"#field-{number}")
        if isinstance(found, TextArea):
            return found.text
        if isinstance(found, Checkbox):
            return "true" if found.value else "false"
        value = found.value
        return "" if value is Select.NULL else str(value)

    def values(self) -> Json:
        """All that was given; Misuse if something is missing or wrong."""
        given: Json = {}
        for number, field in enumerate(self.fields):
            there, value = read(field, self.typed(number))
            if there:
                given[field.name] = value
        return given

    def begin(self) -> None:
        """Put the cursor into the first field."""
        for one in self.query("#field-0"):
            one.focus()
