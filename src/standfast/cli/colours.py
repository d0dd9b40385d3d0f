"""Lines that are coloured where the terminal has colours; the words alone must say the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from standfast.cli.words import Colour

_CODES: Final[dict[Colour, str]] = {
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "white": "37",
    "bright_black": "90",
}


class Tinted(str):
    """A line that is shown in a colour, from a place in it on."""

    __slots__ = ("colour", "start")

    colour: Colour
    start: int

    def __new__(cls, text: str, colour: Colour, start: int = 0) -> Tinted:
        line = super().__new__(cls, text)
        line.colour, line.start = colour, start
        return line


def has_colours(out: TextIO) -> bool:
    """Is it a terminal, and does nobody want it plain?"""
    return out.isatty() and os.environ.get("TERM") != "dumb" and "NO_COLOR" not in os.environ


def painted(text: str, colour: Colour | None) -> str:
    """The text with the codes of a terminal around it."""
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if colour is not None else text
