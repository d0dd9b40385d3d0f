"""Characters as they are meant: those that are written by number or by name are read as what they stand for.

`\\x59`, `0x59`, `%59`, `\\131`, `\\u0059` and `&#89;` are a Y, `&nbsp;` is a space, and bytes make letters as in UTF-8.
Characters that nobody sees, Unicode's tags and the variation selectors that stand for bytes, are those they number.
What begins like an escape and is none is read as it stands. All this goes one character at a time, so that it does not
matter how a stream is cut into pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5

_NAME_LETTERS = 8  # of an entity; longer ones are those of rare signs
_BYTES = {chr(0xE0100 + byte - 16): byte for byte in range(16, 256)}  # variation selectors 17 to 256
_TAGS = {chr(0xE0000 + code): chr(code) for code in range(0x20, 0x7F)}

SPECIAL = frozenset(("\\", "0", "%", "&", *_TAGS, *_BYTES))  # what is not always read as it stands
_ESCAPES = re.compile(r"[\\%&\U000E0020-\U000E007E\U000E0100-\U000E01EF]|0(?=[xX])")  # SPECIAL, but a 0 by itself

_H = "[0-9a-fA-F]"
_BEGUN = re.compile(
    rf"\\([xX]{_H}?|u({_H}{{0,3}}|\{{{_H}{{0,6}})|U{_H}{{0,7}}|[0-3][0-7]?)?|0([xX]{_H}?)?|%{_H}?"
    rf"|&(\#([0-9]{{0,7}}|[xX]{_H}{{0,6}})|[a-zA-Z][a-zA-Z0-9]{{0,{_NAME_LETTERS - 1}}})?"
)
_WHOLE = re.compile(
    rf"(?:\\[xX]|0[xX]|%)(?P<byte>{_H}{{2}})|\\(?P<octal>[0-3][0-7]{{2}})|\\u(?P<unit>{_H}{{4}})"
    rf"|\\u\{{(?P<braces>{_H}{{1,6}})\}}|\\U(?P<long>{_H}{{8}})|&\#[xX](?P<hexadecimal>{_H}{{1,6}});"
    rf'|&\#(?P<decimal>[0-9]{{1,7}});|&(?P<name>[a-zA-Z][a-zA-Z0-9]*);|\\(?P<sign>[nrtbf"/])'
)
_BASE = {"octal": 8, "decimal": 10}  # others are hexadecimal


class Reader:
    """Reads one stream; says where each character stands."""

    def __init__(self) -> None:
        self.midway = False  # does what comes next depend on what came?
        self._begun: list[tuple[str, int]] = []  # an escape, as far as it has come
        self._bytes: list[tuple[int, int]] = []  # of a letter that takes several
        self._high = 0  # the first half of a surrogate pair

    def read(self, character: str, at: int) -> list[tuple[str, int]]:
        """The characters that are known now, each with where it, or its escape, begins."""
        found = list(self._read(character, at))
        self.midway = bool(self._begun or self._bytes or self._high)
        return found

    def _read(self, character: str, at: int) -> Iterator[tuple[str, int]]:
        if self._begun:
            self._begun.append((character, at))
            yield from self._escape()
        elif character not in SPECIAL:
            if character.isalnum():  # what stands between the bytes of a letter is formatting
                yield from self._no_more_bytes()
            self._high = 0
            yield character, at
        elif character in _TAGS:
            yield _TAGS[character], at
        elif character in _BYTES:
            yield from self._byte(_BYTES[character], at)
        else:
            self._begun.append((character, at))

    def _escape(self) -> Iterator[tuple[str, int]]:
        text = "".join(one for one, _ in self._begun)
        if _BEGUN.fullmatch(text):
            return
        begun, self._begun = self._begun, []
        at = begun[0][1]
        whole = _WHOLE.fullmatch(text)
        kind = whole.lastgroup if whole else None
        if whole is None or kind is None or (kind == "name" and f"{whole[kind]};" not in html5):
            if begun[0][0].isalnum():
                yield from self._no_more_bytes()
            yield begun[0]  # no escape: its first character is itself, and another may begin behind it
            for character, place in begun[1:]:
                yield from self._read(character, place)
        elif kind == "name":
            for character in html5[f"{whole[kind]};"]:
                yield character, at
        elif kind == "sign":
            yield ("\n" if whole[kind] == "n" else " "), at
        elif kind in ("byte", "octal"):
            yield from self._byte(int(whole[kind], _BASE.get(kind, 16)), at)
        else:
            yield from self._number(int(whole[kind], _BASE.get(kind, 16)), at)

    def _number(self, code: int, at: int) -> Iterator[tuple[str, int]]:
        high, self._high = self._high, 0
        if 0xD800 <= code < 0xDC00:
            self._high = code
        elif high and 0xDC00 <= code < 0xE000:
            yield from self._plain(chr(0x10000 + ((high - 0xD800) << 10) + code - 0xDC00), at)
        elif code <= 0x10FFFF:
            yield from self._plain(chr(code), at)

    def _plain(self, character: str, at: int) -> Iterator[tuple[str, int]]:
        yield from self._no_more_bytes()
        if character in _BYTES:
            yield from self._byte(_BYTES[character], at)
        else:
            yield _TAGS.get(character, character), at

    def _byte(self, byte: int, at: int) -> Iterator[tuple[str, int]]:
        self._bytes.append((byte, at))
        try:
            text = bytes(one for one, _ in self._bytes).decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                return
            last = self._bytes.pop()
            if self._bytes:
                yield from self._no_more_bytes()
                yield from self._byte(*last)
            else:
                yield chr(byte), at  # Latin 1
            return
        began = self._bytes[0][1]
        self._bytes = []
        for character in text:
            yield character, began

    def _no_more_bytes(self) -> Iterator[tuple[str, int]]:
        """Those that made no letter together are letters of Latin 1."""
        alone, self._bytes = self._bytes, []
        for byte, at in alone:
            yield chr(byte), at


def as_read(text: str) -> str:
    """The whole text as it is read."""
    reader = Reader()
    text += "\n"  # no escape goes on behind it
    found: list[str] = []
    at = 0
    while special := _ESCAPES.search(text, at):
        found.append(text[at : special.start()])
        at = special.start()
        while True:
            found += [one for one, _ in reader.read(text[at], at)]
            at += 1
            if not reader.midway or at == len(text):
                break
    return "".join((*found, text[at:]))[:-1]
