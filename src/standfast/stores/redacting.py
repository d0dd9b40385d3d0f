"""No secret is written, and nobody waits for the store while one is looked for.

Inside a transaction lines that are about to be written are only looked at. Where one may hold a secret, the transaction
is rolled back, its texts are redacted while the store is free for others, and it is run again with what became of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pydantic_core import to_json

MOST_TRIES = 4  # then a text differs at every try: it is redacted while others wait


class Redacting(Protocol):
    """What takes secrets out of lines of JSON."""

    def passes(self, lines: bytes) -> bool:
        """Is there no secret in them, for certain? In time proportional to their length."""
        ...

    def text(self, text: str) -> str:
        """The text without secrets."""
        ...

    def line_by(self, line: bytes, text: Callable[[str], str]) -> bytes:
        """A line without secrets, if this is what becomes of each text."""
        ...


class Unredacted(Exception):  # noqa: N818 - a fact, which is not reported to anybody
    """These lines may hold a secret: roll back, have them redacted, and begin again."""

    def __init__(self, lines: bytes) -> None:
        super().__init__("lines that may hold a secret are not written")
        self.lines = lines


class Cleaning:
    """What one transaction writes, over all its tries."""

    __slots__ = ("_known", "_redactor", "_tries")

    def __init__(self, redactor: Redacting) -> None:
        self._redactor = redactor
        self._known: dict[str, str] = {}  # texts, and what is written in their place
        self._tries = 0

    def clean(self, lines: bytes) -> bytes:
        """In a transaction: the lines as they are written; raises Unredacted."""
        redactor = self._redactor
        if redactor.passes(lines):
            return lines
        if self._tries >= MOST_TRIES:
            return self._each(lines, redactor.text)

        def known(text: str) -> str:
            found = self._known.get(text)
            if found is None:
                if not redactor.passes(to_json(text)):
                    raise Unredacted(lines)
                return text
            return found

        return self._each(lines, known)

    def clean_each(self, lines: list[bytes]) -> list[bytes]:
        """The same for lines that are not written together: one try finds what is in all of them."""
        return self.clean(b"\n".join(lines)).split(b"\n")

    def redact(self, lines: bytes) -> None:
        """Outside of it, before the next try."""
        self._tries += 1

        def learn(text: str) -> str:
            if text not in self._known:
                self._known[text] = self._redactor.text(text)
            return self._known[text]

        self._each(lines, learn)

    def _each(self, lines: bytes, text: Callable[[str], str]) -> bytes:
        return b"\n".join([self._redactor.line_by(line, text) for line in lines.split(b"\n")])
