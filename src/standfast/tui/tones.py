"""Colours that can be read on the ground they stand on: one set for a dark screen, one for a light one."""

from __future__ import annotations

from typing import Final

from textual.widget import Widget

from standfast.cli.words import Colour

DARK: Final[dict[Colour, str]] = {
    "blue": "#7aa7ff",
    "green": "#6ccf7f",
    "yellow": "#f0c24b",
    "red": "#ff8078",
    "magenta": "#d69bf0",
    "cyan": "#5fc9d6",
    "bright_black": "#9aa3ad",
    "white": "#e8eaed",
}
LIGHT: Final[dict[Colour, str]] = {
    "blue": "#1d4fb8",
    "green": "#1c6b30",
    "yellow": "#7a5200",
    "red": "#b3261e",
    "magenta": "#7a2f9c",
    "cyan": "#0b6470",
    "bright_black": "#59616b",
    "white": "#20242a",
}
EFFECTS: Final[dict[str, Colour]] = {
    "read": "bright_black",
    "idempotent": "cyan",
    "write": "yellow",
    "irreversible": "red",
}


def tone(widget: Widget, colour: Colour) -> str:
    """The colour as it is on this screen now."""
    dark: bool = widget.app.current_theme.dark  # pyright: ignore[reportUnknownMemberType]
    return (DARK if dark else LIGHT)[colour]


def effect_tone(widget: Widget, effect: str) -> str:
    """The colour of an effect's badge."""
    return tone(widget, EFFECTS.get(effect, "white"))
