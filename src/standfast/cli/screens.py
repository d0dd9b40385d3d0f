"""Where `standfast run` writes: a terminal with a live part at the bottom, or plain lines for files and pipes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Protocol, TextIO

from standfast.cli.colours import has_colours, painted
from standfast.cli.words import Colour
from standfast.odd_text import STEERING

INDENT = "    "


def harmless(text: str) -> str:
    """Text of agents and models without control characters: they must not steer the terminal."""
    return STEERING.sub("", text.replace("\r\n", "\n").replace("\t", "    "))


class Screen(Protocol):
    """Permanent lines, a stream of text, and a live part that is replaced."""

    live: bool

    def line(self, text: str, colour: Colour | None = None) -> None:
        """A line that stays."""
        ...

    def stream(self, text: str) -> None:
        """More of a text that is being said."""
        ...

    def end_stream(self) -> None:
        """The text has ended, or something else is said."""
        ...

    def bottom(self, lines: Sequence[str]) -> None:
        """The live part, from now on."""
        ...

    def typed(self) -> None:
        """A person has typed a line below everything."""
        ...


class PlainScreen:
    """Whole lines only, no colours."""

    live = False

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._text = ""

    def line(self, text: str, colour: Colour | None = None) -> None:  # noqa: ARG002 - files have no colours
        self.end_stream()
        self._write(harmless(text))

    def stream(self, text: str) -> None:
        *whole, self._text = (self._text + harmless(text)).split("\n")
        for line in whole:
            self._write(INDENT + line)

    def end_stream(self) -> None:
        if self._text:
            self._write(INDENT + self._text)
            self._text = ""

    def bottom(self, lines: Sequence[str]) -> None:
        """Files have no live part."""

    def typed(self) -> None:
        """Nobody types into a file."""

    def _write(self, line: str) -> None:
        self._out.write(line.rstrip() + "\n")
        self._out.flush()


class TerminalScreen:
    """Lines scroll away above a live part: the line being said, the plan, the state of the run."""

    live = True

    def __init__(self, out: TextIO | None = None, *, colours: bool = True) -> None:
        self._out = out or sys.stdout
        self._colours = colours
        self._text = ""
        self._bottom: list[str] = []
        self._drawn = 0  # lines of the live part that are on the screen

    def line(self, text: str, colour: Colour | None = None) -> None:
        self.end_stream()
        self._above([self._coloured(one, colour) for one in self._wrapped(harmless(text))])

    def stream(self, text: str) -> None:
        *whole, last = (self._text + harmless(text)).split("\n")
        lines = [part for one in whole for part in self._wrapped(INDENT + one)]
        *more, rest = self._wrapped(INDENT + last)
        self._text = last if not more else rest[len(INDENT) :] if rest.startswith(INDENT) else rest
        self._above([*lines, *more])

    def end_stream(self) -> None:
        if self._text:
            text, self._text = self._text, ""
            self._above([INDENT + text])

    def bottom(self, lines: Sequence[str]) -> None:
        shown = [harmless(line) for line in lines]
        if shown != self._bottom:
            self._bottom = shown
            self._above([])

    def typed(self) -> None:
        self._drawn += 1

    def _above(self, lines: Sequence[str]) -> None:
        """Write above the live part, and the live part anew."""
        columns, rows = shutil.get_terminal_size((80, 24))
        shown = [INDENT + self._text] if self._text else []
        shown += [line[: columns - 1] for line in self._bottom[-max(1, rows - 3) :]]
        back = f"\x1b[{self._drawn}A" if self._drawn else ""
        self._out.write(f"\r{back}\x1b[J" + "".join(f"{line}\n" for line in (*lines, *shown)))
        self._out.flush()
        self._drawn = len(shown)

    def _wrapped(self, text: str) -> list[str]:
        """As the terminal would break it, so that the live part is found again."""
        columns = max(20, shutil.get_terminal_size((80, 24)).columns) - 1
        lines: list[str] = []
        for line in text.split("\n"):
            while len(line) > columns:
                cut = line.rfind(" ", columns // 2, columns)
                cut = cut if cut > 0 else columns
                lines.append(line[:cut])
                line = INDENT + line[cut:].lstrip()
            lines.append(line)
        return lines

    def _coloured(self, text: str, colour: Colour | None) -> str:
        return painted(text, colour) if self._colours else text


def screen_for(out: TextIO) -> Screen:
    """The screen that fits where the output goes."""
    if out.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalScreen(out, colours=has_colours(out))
    return PlainScreen(out)
