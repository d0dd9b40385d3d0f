"""Redaction: secrets of well-known shapes do not get into the record; equal ones can still be matched.

A secret is replaced by `[redacted:name:hash]`. The hash is keyed, so that it says nothing to whoever does not have the
key, and is the same for the same secret, so that it can be followed through the record.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from standfast.errors import Misuse
from standfast.json_values import is_array, is_object
from standfast.own_patterns import BEGIN, Exact, Own, Secret, as_secret, exactly
from standfast.secret_shapes import KNOWN, LONGEST_HELD, LOOK_BACK, Finder, Searched, Shape, Span, one_of

__all__ = [
    "KNOWN",
    "LONGEST_HELD",
    "MARK",
    "Places",
    "Redactor",
    "Secret",
    "Stream",
    "as_redactor",
    "exactly",
    "of_environment",
]

SHORTEST = 12  # characters of a value of the environment that is taken for a secret
MOST_OF_ENVIRONMENT = 50
_NAMED = re.compile(r"(?:API_?KEY|TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD|PASSWD)$", re.IGNORECASE)
MARK = "[redacted:"
_IDS = frozenset(["id", "run", "agent", "tool", "call", "mail", "order", "parent", "fork", "forked_from"])
_WORDS = frozenset(["type", "status", "effect", "channel", "kind", "outcome", "trigger", "undo", "decision", "answer"])
_NAMES = _IDS | _WORDS | {"action", "then"}  # fields of events that hold a name of code, an id or a word of ours
_PARTS = frozenset(["in_flight", "receipt", "undone", "residue", "kept", "marks", "clients", "spans", "held_beside"])
MOST_LOOKED_AT = 4_096  # bytes of a line that patterns of users are tried on while a transaction waits


class Redactor:
    """Replaces secrets in text and in JSON. What it does not know the shape of, it does not see."""

    def __init__(self, *more: Secret | str, known: Sequence[Shape] = KNOWN, key: bytes | None = None) -> None:
        own = [as_secret(n, one) for n, one in enumerate(more, 1)]
        self.names = [*[one.name for one in known], *[one.name for one in own]]
        self.key = key or secrets.token_bytes(32)
        self.lasting: Callable[[], bytes | None] | None = None  # gives the key that lasts; asked for the first secret
        shapes = [Searched(shape, order) for order, shape in enumerate(known)]
        exact: dict[str, int] = {}
        for order, one in enumerate(own, len(known)):
            if one.exact:
                exact.setdefault(one.exact, order)
        patterns = [Own(one, order) for order, one in enumerate(own, len(known)) if not one.exact]
        self._kinds: list[Searched | Exact | Own] = [*shapes, *([Exact(exact)] if exact else [])]
        self._kinds += [one for one in patterns if one.begin is not None]
        self._blind = [one for one in patterns if one.begin is None]  # found only by looking at every text
        words = [word for shape in known for word in shape.begins]
        words += [word for one in own for word in one.begins]
        words += Exact(exact).begins if exact else ()
        self._begin = re.compile(one_of(words) if words else r"(?!)")  # plain words are found the fastest
        self._parts = tuple({word[:count] for word in words for count in range(1, len(word))})
        self._longest_begin = max(map(len, words), default=1)
        self._looks = [*_looks(known), *_own_looks(own)]
        self._marks = re.compile(rf"\[redacted:(?:{'|'.join({re.escape(one) for one in self.names})}):[0-9a-f]{{8}}\]")
        self.look_back = max(LOOK_BACK, len(MARK) + 10 + max(map(len, self.names), default=0))

    @cached_property
    def _partly(self) -> re.Pattern[str]:
        return re.compile("|".join([kind.begun for kind in self._kinds]) or r"(?!)")  # slow, and for live text only

    def text(self, text: str) -> str:
        """The text without secrets; one that is without them already stays as it is."""
        return self.replaced(text)[0]

    def replaced(self, text: str) -> tuple[str, Replaced]:
        """The same, and what was replaced where."""
        if not self._blind and self._begin.search(text) is None:
            return text, []
        found: list[Span] = []
        for finder in self.finders(0):
            finder.go_on(text, True, found)
        return self.without(text, 0, len(text), self.joined(text, found))

    # --- for a text that comes in pieces -------------------------------------------------------------

    def finders(self, at: int) -> list[Finder]:
        """Search a text from there on."""
        return [kind.finder(at) for kind in self._kinds]

    def calm(self, text: str, at: int) -> int:
        """How far there is no beginning of a secret, nor a part of one at the end; -1: there is a whole one."""
        if self._begin.search(text, at) is not None:
            return -1
        if not text.endswith(self._parts):
            return len(text)
        partly = self._partly.search(text, max(at, len(text) - self._longest_begin))
        return len(text) if partly is None else partly.start()

    def joined(self, text: str, spans: Iterable[Span]) -> list[Span]:
        """In order; those that overlap are one, and those within a mark of ours are none."""
        joined: list[Span] = []
        for first, last, order in sorted(spans):
            if self._is_marked(text, first, last):
                continue
            if joined and first < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(last, joined[-1][1]), min(order, joined[-1][2]))
            else:
                joined.append((first, last, order))
        return joined

    def without(self, text: str, start: int, end: int, spans: list[Span]) -> tuple[str, Replaced]:
        """A part of the text without these secrets; what was replaced is counted from its start."""
        if self._blind:
            here = [span for one in self._blind for span in one.spans(text[start:end])]
            blind = [(first + start, last + start, order) for first, last, order in here]
            spans = self.joined(text, [*spans, *blind]) if blind else spans
        if not spans:
            return text[start:end], []
        parts: list[str] = []
        replaced: Replaced = []
        at = start
        for first, last, order in spans:
            mark = f"[redacted:{self.names[order]}:{self.hash_of(text[first:last])}]"
            parts += (text[at:first], mark)
            replaced.append((first - start, last - start, len(mark)))
            at = last
        parts.append(text[at:end])
        return "".join(parts), replaced

    def _is_marked(self, text: str, first: int, last: int) -> bool:
        """Is this a part of what stands in the place of a secret?"""
        begin = text.rfind(MARK, max(0, first - self.look_back), first + len(MARK))
        found = None if begin < 0 else self._marks.match(text, begin)
        return found is not None and last <= found.end()

    def hash_of(self, secret: str) -> str:
        """What stands for a secret: who has the secret and the key can look for it."""
        if (lasting := self.lasting) is not None:
            self.key = lasting() or self.key
            self.lasting = None  # after it: another thread must not use the one that does not last
        return hmac.new(self.key, secret.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:8]

    # --- JSON ----------------------------------------------------------------------------------------

    def line(self, line: bytes) -> bytes:
        """A line of a record without secrets in its texts; unchanged to the byte where there are none.

        Names of code and ids keep it readable and are left as they are, in their own places alone: not in what a call
        was given, what came of it, or what was said.
        """
        return self._without(line, _Walk(self.text).part)

    def json(self, raw: bytes) -> bytes:
        """The same for JSON of which nothing is ours: arguments, results."""
        return self._without(raw, self.values)

    def _without(self, line: bytes, clean: Callable[[Any], Any]) -> bytes:
        if not self._blind and not self._may_hold_one(line):
            return line
        value = from_json(line)
        cleaned = clean(value)
        return line if cleaned == value else to_json(cleaned, inf_nan_mode="constants")

    def lines(self, lines: bytes) -> bytes:
        """The same for several lines."""
        if not self._blind and not self._may_hold_one(lines):
            return lines
        return b"\n".join([self.line(line) for line in lines.split(b"\n")])

    def passes(self, lines: bytes) -> bool:
        """The quick look at lines that are about to be written: they hold no secret, for certain.

        It takes time in proportion to their length, and little of it: it runs while others wait for the store.
        """
        if self._may_hold_one(lines):
            return False
        if not self._blind:
            return True
        if len(lines) > MOST_LOOKED_AT:
            return False
        texts = [text for line in lines.split(b"\n") for text in _texts(from_json(line))]
        return not any(one.found(text) for text in texts for one in self._blind)

    def _may_hold_one(self, line: bytes) -> bool:
        """A single byte, then a few, then the pattern."""
        for rarest, begin, pattern in self._looks:
            if rarest in line and begin in line and (pattern is None or pattern.search(line) is not None):
                return True
        return False

    def values(self, value: Any) -> Any:
        """JSON values without secrets in any text or name."""
        return _Walk(self.text).values(value)

    def line_by(self, line: bytes, text: Callable[[str], str]) -> bytes:
        """A line of a record as `line` would leave it, if this is what becomes of each text."""
        value = from_json(line)
        cleaned = _Walk(text).part(value)
        return line if cleaned == value else to_json(cleaned, inf_nan_mode="constants")


class _Walk:
    """Through JSON, to the texts in it."""

    __slots__ = ("_text",)

    def __init__(self, text: Callable[[str], str]) -> None:
        self._text = text

    def part(self, value: Any) -> Any:
        """An event, or a part of one whose fields are ours."""
        if is_array(value):
            return [self.part(one) for one in value]
        if not is_object(value):
            return self.values(value)
        asked = value.get("type") == "attempt_refused"  # the run is then whatever a stranger has typed
        return {name: self._field(name, one, asked and name == "run") for name, one in value.items()}

    def _field(self, name: str, value: Any, typed: bool) -> Any:
        if name in _NAMES and not typed:
            return value if isinstance(value, str) else self.part(value)
        return self.part(value) if name in _PARTS else self.values(value)

    def values(self, value: Any) -> Any:
        """What is not ours: every text, every name."""
        if isinstance(value, str):
            return self._text(value)
        if is_array(value):
            return [self.values(one) for one in value]
        if is_object(value):
            return {self._text(name): self.values(one) for name, one in value.items()}
        return value


def of_environment(variables: Mapping[str, str]) -> list[Secret]:
    """What the environment holds under the name of a secret, whatever it looks like: keys of providers above all."""
    found = {value: name for name, value in sorted(variables.items()) if _NAMED.search(name)}
    long_enough = [(name, value) for value, name in found.items() if len(value) >= SHORTEST]
    return [exactly(name, value) for name, value in long_enough[:MOST_OF_ENVIRONMENT]]


def as_redactor(given: Redactor | Sequence[Secret | str] | bool) -> Redactor | None:
    """The redactor that is meant: True for the shapes that are known, more shapes beside them, or none."""
    if isinstance(given, Redactor):
        return given
    if isinstance(given, bool):
        return Redactor(*of_environment(os.environ)) if given else None
    if isinstance(given, str):
        raise Misuse("redact is a list of patterns", hint=f"redact=[{given!r}]")
    return Redactor(*given, *of_environment(os.environ))


Replaced: TypeAlias = list[tuple[int, int, int]]
"""What was replaced in a text: from where to where, and how long what stands there now is."""


@dataclass(slots=True)
class Places:
    """Where the characters of a text stand once its secrets are replaced; the text may come in pieces."""

    came: int = 0  # characters so far
    told: int = 0  # and without secrets
    _changed: list[tuple[int, int, int, int, Replaced]] = field(
        default_factory=list[tuple[int, int, int, int, "Replaced"]]
    )  # pieces in which something was replaced: from where to where, before and after

    def without_secrets(self, redactor: Redactor, text: str) -> str:
        """The next piece."""
        told, replaced = redactor.replaced(text)
        self.add(len(text), len(told), replaced)
        return told

    def add(self, length: int, told: int, replaced: Replaced) -> None:
        """The next piece, and what has become of it."""
        came, at = self.came, self.told
        self.came, self.told = came + length, at + told
        if replaced:
            self._changed.append((came, self.came, at, self.told, replaced))

    def place(self, place: int, *, is_end: bool = False) -> int:
        """Of a character, or of the end of a span; within a secret, of the mark in its place."""
        for came, came_to, told, told_to, replaced in reversed(self._changed):
            if place >= came_to:
                return told_to + place - came_to
            if place >= came:
                return told + _through(replaced, place - came, is_end)
        return place


def _through(replaced: Replaced, place: int, is_end: bool) -> int:
    shift = 0
    for first, last, length in replaced:
        if place <= first:
            break
        if place < last:
            return first + shift + length * is_end
        shift += length - (last - first)
    return place + shift


class Stream:
    """A text that comes in pieces: what may be an unfinished secret is held back until it is known.

    Only what is new is looked at. Joined, what it lets out is what the text as a whole would have become.
    """

    __slots__ = ("_finders", "_found", "_start", "_text", "places", "redactor")

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor
        self.places = Places()
        self._text = ""  # what is held back, and a little of what came before it
        self._start = 0  # where that begins which is held back
        self._found: list[Span] = []  # secrets in it
        self._finders: list[Finder] | None = None  # None: nothing may be a secret

    @property
    def held(self) -> str:
        """What may be a secret, or is one that is not finished."""
        return self._text[self._start :]

    def feed(self, text: str) -> str:
        """What can be said now."""
        whole = self._text + text
        redactor = self.redactor
        if self._finders is None:
            calm = redactor.calm(whole, self._start)
            if calm >= 0:
                return self._say(whole, calm, [])
            self._finders = redactor.finders(self._start)
        self._text = whole
        return self._go_on(self._finders, False)

    def finish(self) -> str:
        """The rest. What comes after it is another text."""
        text = self._text
        told = self._say(text, len(text), []) if self._finders is None else self._go_on(self._finders, True)
        self._text, self._start, self._finders = "", 0, None
        return told

    def _go_on(self, finders: list[Finder], final: bool) -> str:
        whole, redactor = self._text, self.redactor
        new: list[Span] = []
        held = min([finder.go_on(whole, final, new) for finder in finders], default=len(whole))
        if new:
            self._found = redactor.joined(whole, [*self._found, *new])
        among = bisect_left(self._found, (held, 0, 0))
        if among and self._found[among - 1][1] > held:  # one that is not finished may belong to it
            among -= 1
            held = self._found[among][0]
        said, self._found = self._found[:among], self._found[among:]
        told = self._say(whole, held, said)
        self._keep(finders, len(whole) - len(self._text))
        return told

    def _say(self, whole: str, held: int, found: list[Span]) -> str:
        """All up to there; a little of it is kept to look back at."""
        told, replaced = self.redactor.without(whole, self._start, held, found)
        self.places.add(held - self._start, len(told), replaced)
        cut = max(0, held - self.redactor.look_back)
        self._text, self._start = whole[cut:], held - cut
        return told

    def _keep(self, finders: list[Finder], cut: int) -> None:
        if self._start == len(self._text) and not any(finder.busy for finder in finders):
            self._finders = None
        elif cut:
            for finder in finders:
                finder.shift(cut)
            self._found = [(first - cut, last - cut, order) for first, last, order in self._found]


def _looks(shapes: Sequence[Shape]) -> list[tuple[int, bytes, re.Pattern[bytes] | None]]:
    """What is searched for in JSON: a rare byte, a beginning, and what is there if one of the shapes is."""
    return [
        (_rarest(begin.encode()), begin.encode(), re.compile(shape.look.encode()))
        for shape in shapes
        for begin in _shortest(shape.begins)
    ]


def _shortest(begins: Sequence[str]) -> Sequence[str]:
    """What all of them begin with, if that is not too little to be rare."""
    common = next(begins[0][:size] for size in range(len(begins[0]), -1, -1) if _all_begin(begins, begins[0][:size]))
    return [common] if len(common) > 1 else begins


def _all_begin(words: Sequence[str], begin: str) -> bool:
    return all(word.startswith(begin) for word in words)


def _own_looks(own: Sequence[Secret]) -> list[tuple[int, bytes, re.Pattern[bytes] | None]]:
    """The same, by beginnings: what JSON may escape in what follows is not known."""
    words = [_in_json(word) for one in own for word in ((one.exact[:BEGIN],) if one.exact else one.begins)]
    return [(_rarest(word), word, None) for word in words]


def _texts(value: Any) -> list[str]:
    found: list[str] = []

    def note(text: str) -> str:
        found.append(text)
        return text

    _Walk(note).part(value)
    return found


def _rarest(begin: bytes) -> int:
    """The byte of a beginning that ordinary text has least often: one byte is found the fastest."""
    rare = b"QZXJKVYWqzUHGxBFPjMCDLRNOSITEA/-~+_:."
    return min(begin, key=lambda c: rare.find(c) if c in rare else len(rare))


def _in_json(text: str) -> bytes:
    """The text as it stands in a line of JSON, where quotes, backslashes and newlines are escaped."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")
