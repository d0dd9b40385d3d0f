"""Secrets that a user names: an exact text, or a pattern, which runs on an engine that no text can slow down.

Python's own engine tries every way in which a pattern may fit, and holds the interpreter meanwhile: a text can be made
for a pattern that keeps every thread of the process, stops included, waiting for minutes. RE2 reads a text once for
each match; a pattern that may read far and then match little may read only so much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from standfast.errors import Misuse
from standfast.secret_shapes import LONGEST_HELD, Span, begun_at_the_end, one_of
from standfast.short_or_long import may_be_both

BEGIN = 8  # characters of an exact text that are looked for first
MOST_READ_AGAIN = 1_024  # times the length of a text: what all matches of a pattern in it may read, at the most
ALWAYS_LOOKED_AT = 64  # characters that are held back and looked at again with each piece
_GOES_ON = r"[^\s\"'<>]*"
_LONE = re.compile("[\ud800-\udfff]")  # halves of a character, which are no UTF-8
_PLAIN = re.compile(r"[\w \-:/@#%&=,;<>~\"'!]+")


@dataclass(frozen=True, slots=True)
class Secret:
    """A kind of secret of your own: what it looks like, and the words it begins with.

    Where `pattern` has a group, only that group is the secret. `begins` makes the search quick, and lets a text that
    comes in pieces be held back until it is known whether it is one; without it each piece is looked at alone.
    Patterns are RE2's (`pip install 'standfast[redact]'`): no look-around, no references back, `\\z` for `\\Z`.
    """

    name: str
    pattern: str
    begins: tuple[str, ...] = ()
    goes_on: str = _GOES_ON  # what may follow the beginning while the secret is not finished
    exact: str = ""  # this very text: then the pattern is not used


def exactly(name: str, value: str) -> Secret:
    """This very text."""
    return Secret(name, re.escape(value), exact=value)


def as_secret(n: int, given: Secret | str) -> Secret:
    """A pattern that was given without a name; one without any sign of a pattern is that very text."""
    if isinstance(given, Secret):
        return given
    return exactly(f"own{n}", given) if _PLAIN.fullmatch(given) else Secret(f"own{n}", given)


class Exact:
    """Texts that are looked for as they are."""

    def __init__(self, texts: dict[str, int]) -> None:
        self.texts = texts  # and the place of each among the kinds
        self.begins = {text[:BEGIN] for text in texts}
        self.begin = re.compile(one_of([*self.begins]))
        self.begun = begun_at_the_end([*self.begins])
        self.partly = re.compile(self.begun)
        self.by_begin = {begin: [one for one in texts if one.startswith(begin)] for begin in self.begins}
        self.sizes = sorted({len(begin) for begin in self.begins})

    def finder(self, at: int) -> ExactFinder:
        return ExactFinder(self, at)

    def at(self, text: str, place: int) -> Iterator[str]:
        """The texts that may stand there, by their beginnings."""
        for size in self.sizes:
            yield from self.by_begin.get(text[place : place + size], ())


class ExactFinder:
    """Looks for exact texts."""

    __slots__ = ("_looked", "_of", "busy")

    def __init__(self, of: Exact, at: int) -> None:
        self._of, self._looked, self.busy = of, at, False

    def shift(self, count: int) -> None:
        self._looked -= count

    def go_on(self, text: str, final: bool, found: list[Span]) -> int:
        self.busy = False
        while (began := self._of.begin.search(text, self._looked)) is not None:
            place = began.start()
            for one in self._of.at(text, place):
                if text.startswith(one, place):
                    found.append((place, place + len(one), self._of.texts[one]))
                elif not final and len(text) - place < len(one) and one.startswith(text[place:]):
                    self.busy = True
            if self.busy:
                self._looked = place
                return place
            self._looked = place + 1
        at = len(text)
        if not final:
            partly = self._of.partly.search(text, max(self._looked, at - BEGIN))
            at = at if partly is None else partly.start()
        self._looked = at
        return at


class Own:
    """A pattern of a user."""

    def __init__(self, secret: Secret, order: int) -> None:
        self.secret, self.order = secret, order
        self._pattern = _compiled(secret.pattern)
        self._bounded = may_be_both(secret.pattern)
        self.begin = re.compile(one_of(secret.begins)) if secret.begins else None
        if secret.begins:
            self.begun = begun_at_the_end(secret.begins)
            self.partly = re.compile(self.begun)
            self.longest = max(map(len, secret.begins))
            words = "|".join(_escaped(begin) for begin in secret.begins)
            self._open = _compiled(rf"(?:{words})(?:{secret.goes_on})\z")
            self.ends = re.compile(r"[\s\"'<>]") if secret.goes_on == _GOES_ON else None  # what an open one cannot hold

    def spans(self, text: str, at: int = 0) -> Iterator[Span]:
        """Where it is found; past the bound of what may be read, all of the rest is taken for one."""
        left = MOST_READ_AGAIN * (len(text) - at)
        for found in self._pattern.finditer(whole(text), at):
            if left < 0:
                yield found.start(), len(text), self.order
                return
            if self._bounded:
                left -= len(text) - found.end()  # to know that it ends there, the rest may have been read
            first, last = found.span(1 if self._pattern.groups and found.start(1) >= 0 else 0)
            if last > first:
                yield first, last, self.order

    def found(self, text: str) -> bool:
        return self._pattern.search(whole(text)) is not None

    def opened(self, text: str, at: int) -> int:
        """Where one may have begun that goes on after the end, or the end."""
        found = self._open.search(whole(text), at)
        return len(text) if found is None else int(found.start())

    def finder(self, at: int) -> OwnFinder:
        return OwnFinder(self, at)


class OwnFinder:
    """Looks for a pattern whose beginnings are known.

    RE2 cannot go on where it was. What is held back is looked at again only if that may change anything, and once
    enough has come since the last time: so all looks together read a few times what there is.
    """

    __slots__ = ("_looked", "_may_end", "_of", "_read", "_seen", "busy")

    def __init__(self, of: Own, at: int) -> None:
        self._of, self._looked, self.busy = of, at, False
        self._read = self._seen = at  # how far it has been looked at, and how far for what ends an open one
        self._may_end = True  # such a thing has come since

    def shift(self, count: int) -> None:
        self._looked -= count
        self._read -= count
        self._seen -= count

    def go_on(self, text: str, final: bool, found: list[Span]) -> int:
        if self.busy and not final and not self._is_time(text):
            return self._looked
        self._read = self._seen = len(text)
        self._may_end = self._of.ends is None
        self.busy = False
        assert self._of.begin is not None
        if self._of.begin.search(text, self._looked) is None:
            at = len(text)
            if not final:
                partly = self._of.partly.search(text, max(self._looked, at - self._of.longest))
                at = at if partly is None else partly.start()
            self._looked = at
            return at
        spans = list(self._of.spans(text, self._looked))
        held = len(text) if final else self._held(text, spans)
        found += [span for span in spans if span[0] < held]
        self.busy = held < len(text)
        self._looked = held
        return held

    def _is_time(self, text: str) -> bool:
        """To look again at what is held back."""
        held = len(text) - self._looked
        if held <= ALWAYS_LOOKED_AT or held > LONGEST_HELD:
            return True
        if not self._may_end:
            assert self._of.ends is not None
            self._may_end = self._of.ends.search(text, self._seen) is not None
            self._seen = len(text)
        return self._may_end and 8 * (len(text) - self._read) >= held

    def _held(self, text: str, spans: Sequence[Span]) -> int:
        held = min(self._of.opened(text, self._looked), self._partly(text))
        if len(text) - held > LONGEST_HELD:
            return len(text)
        return next((first for first, last, _ in spans if first < held < last), held)

    def _partly(self, text: str) -> int:
        partly = self._of.partly.search(text, max(self._looked, len(text) - self._of.longest))
        return len(text) if partly is None else partly.start()


def whole(text: str) -> str:
    """The text as UTF-8 can hold it."""
    return text if text.isascii() else _LONE.sub("\ufffd", text)


def _escaped(text: str) -> str:
    return "".join(one if one.isalnum() or ord(one) > 127 else rf"\x{{{ord(one):x}}}" for one in text)


def _compiled(pattern: str) -> Any:
    """The pattern for RE2; explains what it cannot take."""
    try:
        re2: Any = import_module("re2")  # only for who has patterns of their own
    except ImportError as error:
        raise Misuse(
            f"the pattern {pattern!r} needs RE2, which is not installed",
            hint="pip install 'standfast[redact]'; an exact text needs no pattern",
        ) from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise Misuse(f"a pattern of a secret cannot be read: {why}", hint=_hint(pattern)) from error


def _hint(pattern: str) -> str:
    if any(sign in pattern for sign in ("(?=", "(?!", "(?<=", "(?<!")):
        return "RE2 has no look-around: put the secret itself into a group, as in `key=(\\w+)`"
    if re.search(r"\\[1-9]|\(\?P=", pattern):
        return "RE2 has no references back to a group: write out what may stand there"
    if r"\Z" in pattern:
        return r"RE2 writes \z for \Z"
    return "give a regular expression of RE2: https://github.com/google/re2/wiki/Syntax"
