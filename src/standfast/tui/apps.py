"""What textual gives without its type parameter, with a type that checkers know."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import DataTable


def app_of(screen: Screen[Any]) -> App[Any]:
    """The app that shows this screen."""
    return screen.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def table_of(widget: Widget, selector: str) -> DataTable[Any]:
    """The table that this selector finds."""
    return widget.query_one(selector, DataTable)  # pyright: ignore[reportUnknownVariableType]
