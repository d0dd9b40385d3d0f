"""Redaction: secrets of well-known shapes do not get into the record; equal ones can still be matched.

A secret is replaced by `[redacted:name:hash]`. The hash is keyed, so that it tells nothing to who does not have the
key, and is the same for the same secret, so that it can be followed through the record.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from standfast.errors import Misuse
from standfast.json_values import is_array, is_object

SHORTEST = 12  # characters of a value of the environment that is taken for a secret
MOST_OF_ENVIRONMENT = 50
_NAMED = re.compile(r"(?:API_?KEY|TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PASSWORD|PASSWD)$", re.IGNORECASE)
MARK = "[redacted:"
_IDS = frozenset(["id", "run", "agent", "tool", "call", "mail", "order", "parent", "fork", "forked_from"])
_WORDS = frozenset(["type", "status", "effect", "channel", "kind", "outcome", "trigger", "undo", "decision", "answer"])
_NAMES = _IDS | _WORDS | {"action", "then"}  # fields of events that hold a name of code, an id or a word of ours
_PARTS = frozenset(["in_flight", "receipt", "undone", "residue", "kept", "marks", "clients", "spans", "held_beside"])
LONGEST_HELD = 16_384  # characters of a text that may be a secret not yet finished, before it is let go


@dataclass(frozen=True, slots=True)
class Secret:
    """A kind of secret: what it looks like, and the words it begins with.

    Where `pattern` has a group, only that group is the secret. `begins` makes the search quick, and lets a text that
    comes in pieces be held back until it is known whether it is one; without it each piece is looked at alone.
    """

    name: str
    pattern: str
    begins: tuple[str, ...] = ()
    goes_on: str = r"[^\s\"'<>]*"  # what may follow the beginning while the secret is not finished


KNOWN: tuple[Secret, ...] = (
    Secret(
        "private_key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        ("-----BEGIN",),
        r"(?![\s\S]*-----END [A-Z ]*PRIVATE KEY-----)(?: [A-Z ]*-{0,5}\Z| [A-Z ]*PRIVATE KEY-----[\s\S]*|\Z)",
    ),
    Secret("url_password", r"://[^\s/:@\"'<>]*:([^\s/@\"'<>]{3,})@", ("://",), r"[^\s/@\"'<>]*"),
    Secret("bearer", r"\b[Bb]earer\s+([A-Za-z0-9._~+/=-]{16,})", ("Bearer", "bearer"), r"\s*[^\s\"'<>]*"),
    Secret("jwt", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}", ("eyJ",)),
    Secret("api_key", r"\bsk-[\w-]{16,}", ("sk-",)),
    Secret("aws_key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", ("AKIA", "ASIA")),
    Secret("github_token", r"\bgh[pousr]_\w{20,}", ("gh",)),
    Secret("github_token", r"\bgithub_pat_\w{20,}", ("github_pat_",)),
    Secret("slack_token", r"\bxox[abeoprs]-[\w-]{10,}", ("xox",)),
    Secret("google_key", r"\bAIza[\w-]{35}", ("AIza",)),
    Secret("standfast_token", r"\bsf_[\w-]{40,}", ("sf_",)),
)


class Redactor:
    """Replaces secrets in text and in JSON. What it does not know the shape of, it does not see."""

    def __init__(self, *more: Secret | str, known: Sequence[Secret] = KNOWN, key: bytes | None = None) -> None:
        own = [Secret(f"own{n}", one) if isinstance(one, str) else one for n, one in enumerate(more, 1)]
        self.secrets = (*known, *own)
        self.key = key or secrets.token_bytes(32)  # a runtime gives it one that lasts
        try:
            self._patterns = [(one.name, re.compile(one.pattern)) for one in self.secrets]
            self._open = [re.compile(_open(one)) for one in self.secrets if one.begins]
            quick = [one for one in self.secrets if one.begins]
            self._quick = [
                (_rarest(written), written, re.compile(_as_written(one, written)))
                for one in quick
                for written in map(_in_json, one.begins)
            ]
            self._marks = re.compile(
                rf"\[redacted:(?:{'|'.join({re.escape(one.name) for one in self.secrets})}):[0-9a-f]{{8}}\]"
            )
        except re.error as error:
            raise Misuse(f"a pattern of a secret cannot be read: {error}", hint="give a regular expression") from error
        self._blind = len(quick) < len(self.secrets)  # one of them can only be found by looking at every text

    def text(self, text: str) -> str:
        """The text without secrets; one that is without them already stays as it is."""
        return self.replaced(text)[0]

    def replaced(self, text: str) -> tuple[str, Replaced]:
        """The same, and what was replaced where."""
        passes: Replaced = []
        for name, pattern in self._patterns:
            here: list[tuple[int, int, int]] = []
            text = pattern.sub(partial(self._mark, name, here), text)
            if here:
                passes.append(here)
        return text, passes

    def _mark(self, name: str, here: list[tuple[int, int, int]], found: re.Match[str]) -> str:
        whole, start = found[0], found.start()
        first, last = found.span(1 if found.re.groups and found[1] is not None else 0)
        if self._is_marked(found.string, first, last):
            return whole
        mark = f"[redacted:{name}:{self.hash_of(found.string[first:last])}]"
        here.append((first, last, len(mark)))
        return whole[: first - start] + mark + whole[last - start :]

    def _is_marked(self, text: str, first: int, last: int) -> bool:
        """Is this a part of what stands in the place of a secret?"""
        begin = text.rfind(MARK, 0, first + len(MARK))
        found = None if begin < 0 else self._marks.match(text, begin)
        return found is not None and last <= found.end()

    def hash_of(self, secret: str) -> str:
        """What stands for a secret: who has the secret and the key can look for it."""
        return hmac.new(self.key, secret.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:8]

    def line(self, line: bytes) -> bytes:
        """A line of a record without secrets in its texts; unchanged to the byte where there are none.

        Names of code and ids keep it readable and are left as they are, in their own places alone: not in what a call
        was given, what came of it, or what was said.
        """
        return self._without(line, self._clean_part)

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

    def _may_hold_one(self, line: bytes) -> bool:
        """The quick look, which every row that is written passes: a single byte, then a few, then the pattern."""
        for rarest, begin, pattern in self._quick:
            if rarest in line and begin in line and pattern.search(line) is not None:
                return True
        return False

    def _clean_part(self, value: Any) -> Any:
        """An event, or a part of one whose fields are ours."""
        if is_array(value):
            return [self._clean_part(one) for one in value]
        if not is_object(value):
            return self.values(value)
        asked = value.get("type") == "attempt_refused"  # the run is then whatever a stranger has typed
        return {name: self._clean_field(name, one, asked and name == "run") for name, one in value.items()}

    def _clean_field(self, name: str, value: Any, typed: bool) -> Any:
        if name in _NAMES and not typed:
            return value if isinstance(value, str) else self._clean_part(value)
        return self._clean_part(value) if name in _PARTS else self.values(value)

    def values(self, value: Any) -> Any:
        """JSON values without secrets in any text or name."""
        if isinstance(value, str):
            return self.text(value)
        if is_array(value):
            return [self.values(one) for one in value]
        if is_object(value):
            return {self.text(name): self.values(one) for name, one in value.items()}
        return value

    def settled(self, text: str) -> int:
        """How many characters from the beginning cannot be part of a secret that goes on after the end."""
        if len(text) > LONGEST_HELD:
            return len(text)
        cut = min((found.start() for one in self._open if (found := one.search(text))), default=len(text))
        while cut < len(text) and (earlier := self._around(text, cut)) is not None:
            cut = earlier
        return cut

    def _around(self, text: str, place: int) -> int | None:
        """Where a secret begins that a cut at this place would go through."""
        found = (match for _, pattern in self._patterns for match in pattern.finditer(text))
        return next((match.start() for match in found if match.start() < place < match.end()), None)


def of_environment(variables: Mapping[str, str]) -> list[Secret]:
    """What the environment holds under the name of a secret, whatever it looks like: keys of providers above all."""
    found = {value: name for name, value in sorted(variables.items()) if _NAMED.search(name)}
    long_enough = [(name, value) for value, name in found.items() if len(value) >= SHORTEST]
    return [exactly(name, value) for name, value in long_enough[:MOST_OF_ENVIRONMENT]]


def exactly(name: str, value: str) -> Secret:
    """This very text."""
    begin = value[:8]
    return Secret(name, re.escape(value), (begin,), rf"[\s\S]{{0,{max(len(value) - len(begin) - 1, 0)}}}")


def as_redactor(given: Redactor | Sequence[Secret | str] | bool) -> Redactor | None:
    """The redactor that is meant: True for the shapes that are known, more shapes beside them, or none."""
    if isinstance(given, Redactor):
        return given
    if isinstance(given, bool):
        return Redactor(*of_environment(os.environ)) if given else None
    if isinstance(given, str):
        raise Misuse("redact is a list of patterns", hint=f"redact=[{given!r}]")
    return Redactor(*given, *of_environment(os.environ))


Replaced: TypeAlias = list[list[tuple[int, int, int]]]
"""What was replaced in a text, pass by pass: from where to where, and how long what stands there now is."""


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
        came, at = self.came, self.told
        self.came, self.told = came + len(text), at + len(told)
        if replaced:
            self._changed.append((came, self.came, at, self.told, replaced))
        return told

    def place(self, place: int, *, is_end: bool = False) -> int:
        """Of a character, or of the end of a span; within a secret, of the mark in its place."""
        for came, came_to, told, told_to, replaced in reversed(self._changed):
            if place >= came_to:
                return told_to + place - came_to
            if place >= came:
                return told + _through(replaced, place - came, is_end)
        return place


def _through(replaced: Replaced, place: int, is_end: bool) -> int:
    for one_pass in replaced:
        shift = 0
        for first, last, length in one_pass:
            if place <= first:
                break
            if place < last:
                place = first + length * is_end
                break
            shift += length - (last - first)
        place += shift
    return place


@dataclass(slots=True)
class Stream:
    """A text that comes in pieces: what may be an unfinished secret is held back until it is known."""

    redactor: Redactor
    held: str = field(default="")
    places: Places = field(default_factory=Places)

    def feed(self, text: str) -> str:
        """What can be said now."""
        whole = self.held + text
        settled = self.redactor.settled(whole)
        self.held = whole[settled:]
        return self.places.without_secrets(self.redactor, whole[:settled])

    def finish(self) -> str:
        """The rest."""
        rest, self.held = self.held, ""
        return self.places.without_secrets(self.redactor, rest)


def _open(one: Secret) -> str:
    """Matches where a secret may have begun and has not ended: its beginning to the end, or a part of that."""
    ways = [f"{re.escape(begin)}{one.goes_on}" for begin in one.begins]
    ways += [re.escape(begin[:count]) for begin in one.begins for count in range(len(begin) - 1, 0, -1)]
    edge = r"(?<![A-Za-z0-9])" if one.pattern.startswith(r"\b") else ""
    return rf"{edge}(?:{'|'.join(ways)})\Z"


def _rarest(begin: bytes) -> int:
    """The byte of a beginning that ordinary text has least often: one byte is found the fastest."""
    rare = b"QZXJKVYWqzUHGxBFPjMCDLRNOSITEA/-~+_:."
    return min(begin, key=lambda c: rare.find(c) if c in rare else len(rare))


def _in_json(text: str) -> bytes:
    """The text as it stands in a line of JSON, where quotes, backslashes and newlines are escaped."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


def _as_written(one: Secret, begin: bytes) -> bytes:
    """What is searched for in JSON, once the beginning is there: never less than the pattern finds in the text."""
    if one not in KNOWN:
        return re.escape(begin)  # only who wrote the pattern knows what of it JSON escapes
    pattern = one.pattern.removeprefix(r"\b")  # a plain beginning is found faster
    pattern = pattern.replace("(?:-----END [A-Z ]*PRIVATE KEY-----|\\Z)", "")
    return pattern.replace(r"\s+", r"(?:\s|\\[nrtf]|\\u[0-9a-f]{4}|[\x80-\xff])+").encode()
