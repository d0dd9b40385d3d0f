"""What secrets of well-known kinds look like, and a search for them that reads every character a few times at most.

A shape is a beginning and stretches of characters, each of which ends at the first character that is not of its kind.
So there is never a choice to come back to: a text made to be slow to search takes no longer than any other, and a text
that comes in pieces is searched on from where the last piece ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

LONGEST_HELD = 16_384  # characters, from its beginning on, of what may be a secret and is not yet known to be one
LONGEST_HEADER = 64  # characters between BEGIN or END and PRIVATE KEY
LOOK_BACK = 128  # characters before the place that was reached which a search may look at once more
_WORD = "A-Za-z0-9_"
_BASE64URL = "A-Za-z0-9_-"
_LONGEST_COLOUR = 36  # characters between the bracket and the letter of a terminal's colour


def _edge() -> str:
    """Not within a word. The last letter of an escape is not one of the word that follows it.

    Texts hold other texts: JSON, a repr, a query, the output of a terminal. A line break is then a backslash and an n.
    """
    escapes = (
        *(r"\\[nrtfbv0]", r"\\x[0-9A-Fa-f]{2}", r"\\[0-7]{3}", r"\\u[0-9A-Fa-f]{4}", r"\\U[0-9A-Fa-f]{8}"),
        *(r"%[0-7][0-9A-Fa-f]", r"%25[0-9A-Fa-f]{2}", r"%[0-9A-Fa-f]{2}%[0-9A-Fa-f]{2}"),
        *(r"\x1b[()][A-Z0-9]", r"\x1b\[[A-Za-z]", r"1[bB]\[[A-Za-z]", r"033\[[A-Za-z]", r"\\e\[[A-Za-z]"),
        *(rf"\[[0-9;:?]{{{count}}}[A-Za-z]" for count in range(1, _LONGEST_COLOUR + 1)),
    )
    return f"(?:(?<![A-Za-z0-9]){''.join(f'|(?<={one})' for one in escapes)})"


_EDGE: Final = _edge()


@dataclass(frozen=True, slots=True)
class Stretch:
    """So many characters of one kind in a row, as many as there are, and what comes at once after them."""

    characters: str  # as within the brackets of a regular expression
    least: int
    then: str = ""
    up_to: str = ""  # it ends before the last of these characters that is in it


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret: the words it begins with, and what follows them."""

    name: str
    begins: tuple[str, ...]
    stretches: tuple[Stretch, ...]
    look: str  # is in every line of JSON with such a secret; may be in others
    secret: int | None = None  # the secret is this stretch alone; None: all of it
    edge: bool = True  # it does not begin within a word


_KEY_NAME = "PRIVATE KEY"
_BLOCK = " BLOCK"  # as OpenPGP ends it
_URL_USER = r"^\s/:@\"'<>"
_CAMEL_KEYS = ("SecretAccessKey", "secretAccessKey", "awsSecretAccessKey")
_URL_SAFE = "A-Za-z0-9+=_.~!$*-"
KEY_BLOCK: Final = Shape(
    "private_key",
    ("-----BEGIN ",),
    (Stretch("A-Z ", len(_KEY_NAME), "-----"),),
    rf"-----BEGIN [A-Z ]{{0,{LONGEST_HEADER}}}{_KEY_NAME}(?:{_BLOCK})?-----",
    edge=False,
)
_JSON_SPACE = r"(?:\s|\\[nrtf]|\\u[0-9a-f]{4}|[\x80-\xff])"


def _plain(name: str, *begins: str, least: int, characters: str = _BASE64URL) -> Shape:
    """A beginning, and as many characters as follow."""
    words = "|".join(map(re.escape, begins))
    return Shape(name, begins, (Stretch(characters, least),), rf"(?:{words})[{characters}]{{{least}}}")


KNOWN: tuple[Shape, ...] = (
    KEY_BLOCK,
    Shape(
        "url_password",
        ("://",),
        (Stretch(_URL_USER, 0, ":"), Stretch(r"^\s/\"'<>", 3, up_to="@")),
        rf"://[{_URL_USER}]*:[^\s/\"'<>]{{3,}}@",
        secret=1,
        edge=False,
    ),
    Shape(  # with a slash in it: what stands before the slash is not a port
        "url_password",
        ("://",),
        (
            Stretch(_URL_USER + r"\[", 0, ":"),
            Stretch("0-9", 0),
            Stretch(_URL_SAFE, 1, "/"),
            Stretch(_URL_SAFE + "/", 0, "@"),
        ),
        rf"://[{_URL_USER}]*:[{_URL_SAFE}]+/[{_URL_SAFE}/]*@",
        secret=1,
        edge=False,
    ),
    Shape(
        "bearer",
        ("Bearer", "bearer", "BEARER"),
        (Stretch(r"\s", 1), Stretch("A-Za-z0-9._~+/=-", 16)),
        rf"(?:[Bb]earer|BEARER){_JSON_SPACE}+[A-Za-z0-9._~+/=-]{{16}}",
        secret=1,
    ),
    Shape(
        "bearer",
        ("Bearer%20", "bearer%20", "BEARER%20"),
        (Stretch("A-Za-z0-9._~+/=-", 16),),
        r"(?:[Bb]earer|BEARER)%20[A-Za-z0-9._~+/=-]{16}",
        secret=0,
    ),
    Shape(
        "jwt",
        ("eyJ",),
        (Stretch(_BASE64URL, 8, ".eyJ"), Stretch(_BASE64URL, 8, "."), Stretch(_BASE64URL, 8)),
        rf"\.eyJ[{_BASE64URL}]{{8}}",
    ),
    _plain("api_key", "sk-", least=16),
    _plain("aws_key", "AKIA", "ASIA", least=16, characters="A-Z0-9"),
    Shape(  # it looks like nothing by itself: known by its name
        "aws_secret",
        (*("secret_access_key", "SECRET_ACCESS_KEY", "secret-access-key"), *_CAMEL_KEYS),
        (Stretch(r"\s\"'\\:=>)\]", 1), Stretch("A-Za-z0-9/+", 40)),
        r"(?:secret[_-]access[_-]key|SECRET_ACCESS_KEY|ecretAccessKey)",
        secret=1,
    ),
    _plain("github_token", *[f"gh{letter}_" for letter in "pousr"], least=20, characters=_WORD),
    _plain("github_token", "github_pat_", least=20, characters=_WORD),
    _plain("slack_token", *[f"xox{letter}-" for letter in "abeoprs"], least=10),
    Shape(
        "slack_token",
        ("xapp-",),
        (Stretch("0-9", 1, "-"), Stretch(_BASE64URL, 10)),
        rf"xapp-[0-9]+-[{_BASE64URL}]{{10}}",
    ),
    _plain("google_key", "AIza", least=35),
    _plain("standfast_token", "sf_", least=40),
)

Span = tuple[int, int, int]
"""From where to where a secret stands, and the place of its kind among the kinds that are looked for."""


class Finder(Protocol):
    """Looks for one kind of secret in a text that grows at its end."""

    busy: bool  # has seen a beginning, and does not know yet

    def go_on(self, text: str, final: bool, found: list[Span]) -> int:
        """Look at what is new; gives the place from which on the text may be a secret that is not finished."""
        ...

    def shift(self, count: int) -> None:
        """So many characters are no longer at the beginning of the text."""
        ...


class Searched:
    """A shape as it is searched for. Most processes meet no secret: what is slow to compile waits for the first."""

    def __init__(self, shape: Shape, order: int) -> None:
        self.shape, self.order = shape, order
        self._edge = _EDGE if shape.edge else ""
        self.begun = begun_at_the_end(shape.begins, self._edge)
        self.longest = max(map(len, shape.begins))
        self.others = [re.compile(_other(one.characters)) for one in shape.stretches]
        first = self.others[0]
        self.inside = not any(first.search(word) for word in shape.begins)  # a stretch may hold more beginnings

    @cached_property
    def begin(self) -> re.Pattern[str]:
        words = one_of(self.shape.begins)
        return re.compile(f"(?={words}){self._edge}{words}" if self._edge else words)

    @cached_property
    def partly(self) -> re.Pattern[str]:
        return re.compile(self.begun)

    def finder(self, at: int) -> Finder:
        return (KeyFinder if self.shape is KEY_BLOCK else ShapeFinder)(self, at)


def one_of(words: Sequence[str]) -> str:
    """Matches one of them, the longest that is there."""
    return f"(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})"


def begun_at_the_end(words: Sequence[str], edge: str = "") -> str:
    """Matches a part of one of them that a text ends with."""
    parts = {word[:count] for word in words for count in range(1, len(word))}
    return rf"{edge}{one_of([*parts])}\Z" if parts else r"(?!)"


def _other(characters: str) -> str:
    return f"[{characters[1:]}]" if characters.startswith("^") else f"[^{characters}]"


class ShapeFinder:
    """Looks for one shape: at most one beginning at a time, from left to right."""

    __slots__ = (
        *("_begin", "_more", "_of", "_part", "_resume", "_scan", "_secret", "_skips", "_start", "_tail", "busy"),
        "looked",
    )

    def __init__(self, of: Searched, at: int) -> None:
        self._of = of
        self.looked = at  # up to here there is no beginning that is not known
        self.busy = False
        self._start: int = 0
        self._secret: int = 0
        self._part: int = 0
        self._begin = self._scan = self._resume = 0
        self._skips = False  # within a first stretch that is too long
        self._more = False  # the end that was just found is that of a piece
        self._tail = False  # after a part of a secret that was too long for one

    def shift(self, count: int) -> None:
        self.looked -= count
        self._begin -= count
        self._start -= count
        self._scan -= count
        self._resume -= count
        self._secret -= count

    def go_on(self, text: str, final: bool, found: list[Span]) -> int:
        while self.busy or self._begins(text):
            if self._skips:
                if not self._skipped(text, final):
                    return self.looked
                continue
            end = self._end(text, final)
            if end is None:
                return self._begin
            if end < 0:
                self._failed()
                continue
            if end > self._secret:
                found.append((self._secret, end, self._of.order))
            self._ended(end)
        return self._partly(text, final)

    def _begins(self, text: str) -> bool:
        began = self._of.begin.search(text, self.looked)
        if began is None:
            return False
        self.busy, self._tail, self._part = True, False, 0
        self._begin = self._secret = began.start()
        self._start = self._scan = began.end()
        self._resume = self._begin + 1
        return True

    def _partly(self, text: str, final: bool) -> int:
        """Where the text ends with a part of a beginning, or where it ends."""
        at = len(text)
        if not final:
            partly = self._of.partly.search(text, max(self.looked, at - self._of.longest))
            at = at if partly is None else partly.start()
        self.looked = at
        return at

    def _end(self, text: str, final: bool) -> int | None:
        """Where the secret ends; None: not known yet; -1: it is none."""
        shape = self._of.shape
        limit = self._begin + LONGEST_HELD
        while True:
            stretch = shape.stretches[self._part]
            last = self._part == len(shape.stretches) - 1
            other = self._of.others[self._part].search(text, self._scan, limit + 1)
            end = min(len(text), limit + 1) if other is None else other.start()
            self._scan = end
            if end > limit:
                return self._piece(limit) if last or self._part else self._too_long(end)
            if other is None and not final:
                return None
            if stretch.up_to:
                end = max(self._start, text.rfind(stretch.up_to, self._start, end))
            if end - self._start < stretch.least and not self._tail:
                return self._no(end)
            if stretch.then and not text.startswith(stretch.then, end):
                if not final and stretch.then.startswith(text[end:]):
                    return None
                return end if self._tail else self._no(end)
            if shape.secret == self._part:
                self._secret = self._start
            if last:
                return end
            if self._part == 0 and self._of.inside:
                self._resume = end
            self._part += 1
            self._start = self._scan = end + len(stretch.then)

    def _no(self, end: int) -> int:
        """It is none; nor is any other that begins in its first stretch, which ends where this one did."""
        if self._part == 0 and self._of.inside:
            self._resume = end
        return -1

    def _too_long(self, end: int) -> int:
        """Of its first stretch nothing is secret: it is let out, and what comes after it is looked at."""
        self._skips = True
        self._resume = end
        return -1

    def _piece(self, limit: int) -> int:
        """A secret that is longer than any: replaced piece by piece."""
        if self._of.shape.secret == self._part and not self._tail:
            self._secret = self._start
        self._tail = self._more = True
        return max(limit, self._start)

    def _failed(self) -> None:
        self.looked = self._resume
        self.busy = self._skips

    def _skipped(self, text: str, final: bool) -> bool:
        """Is the stretch that is too long over, and known whether the rest of a secret follows it?"""
        other = self._of.others[0].search(text, self.looked)
        self.looked = end = len(text) if other is None else other.start()
        if other is None:
            return False
        then = self._of.shape.stretches[0].then
        follows = text.startswith(then, end)
        if not follows and not final and then.startswith(text[end:]):
            return False
        self._skips = False
        self.busy = follows
        self._part = 1
        self._begin = self._secret = self._resume = end
        self._start = self._scan = end + len(then)
        return True

    def _ended(self, end: int) -> None:
        if self._more:
            self._more = False
            self._begin = self._secret = self._start = end
            self._scan = self._again(end)
        else:
            self.busy = self._tail = False
            self.looked = end

    def _again(self, end: int) -> int:
        """From where on the next piece of a secret is searched."""
        return end


class KeyFinder(ShapeFinder):
    """Looks for blocks of private keys, which end with a line of their own, or with the text."""

    __slots__ = ()

    def _end(self, text: str, final: bool) -> int | None:
        if self._part == 0 and (known := self._header(text, final)) != 0:
            return known
        limit = self._begin + LONGEST_HELD
        ended = _KEY_END.search(text, self._scan, limit)
        if ended is not None:
            self._tail = False
            return ended.end()
        if len(text) > limit:
            self._tail = self._more = True
            return limit
        if final:
            self._tail = False
            return len(text)
        self._scan = max(self._scan, len(text) - _LONGEST_KEY_END)
        return None

    def _header(self, text: str, final: bool) -> int | None:
        """0: it is one of a private key; None: not known yet; -1: it is not."""
        [stretch] = self._of.shape.stretches
        limit = self._start + LONGEST_HEADER + len(_KEY_NAME + _BLOCK)
        other = self._of.others[0].search(text, self._scan, limit + 1)
        end = self._scan = min(len(text), limit + 1) if other is None else other.start()
        if end > limit:
            return -1
        if other is None and not final:
            return None
        named = end - len(_BLOCK) if text.endswith(_BLOCK, self._start, end) else end
        if not text.endswith(_KEY_NAME, self._start, named) or named > limit - len(_BLOCK):
            return -1
        if not text.startswith(stretch.then, end):
            return None if not final and stretch.then.startswith(text[end:]) else -1
        self._part, self._scan = 1, end + len(stretch.then)
        return 0

    def _again(self, end: int) -> int:
        return end - _LONGEST_KEY_END  # its last line may stand across the end of a piece


_KEY_END = re.compile(rf"-----END [A-Z ]{{0,{LONGEST_HEADER}}}{_KEY_NAME}(?:{_BLOCK})?-----")
_LONGEST_KEY_END = len("-----END -----") + LONGEST_HEADER + len(_KEY_NAME + _BLOCK)
