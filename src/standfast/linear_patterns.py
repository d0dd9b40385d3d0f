"""Patterns of a schema, on engines that no text can slow down.

Python's own engine tries every way in which a pattern may fit and holds the interpreter meanwhile: `(a+)+$` and forty
characters keep every thread of a process, stops included, waiting for hours. A bound of length does not help there,
and a bound of time cannot be kept by a thread that does not get the interpreter. So patterns run on the engine that
pydantic has for them, or on RE2 where it is installed; both read a text once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

from pydantic_core import SchemaError, SchemaValidator, core_schema

from standfast.own_patterns import whole

_AHEAD = {"(?=": True, "(?!": False}

Search = Callable[[str], bool]


class Uncheckable(ValueError):  # noqa: N818 - it states the fact
    """No engine that reads a text once knows this pattern."""


def fits(pattern: str, text: str) -> bool:
    """Is the pattern somewhere in the text? In time proportional to the text; else Uncheckable."""
    return all(search(text) is wanted for search, wanted in _searches(pattern))


@lru_cache(maxsize=1000)
def _searches(pattern: str) -> tuple[tuple[Search, bool], ...]:
    plain = _translated(pattern)
    search = _engine(plain)
    if search is not None:
        return ((search, True),)
    found: list[tuple[Search, bool]] = []
    for part, wanted in _apart(plain):
        search = _engine(part)
        if search is None:
            raise Uncheckable(pattern)
        found.append((search, wanted))
    if not found:
        raise Uncheckable(pattern)
    return tuple(found)


def _translated(pattern: str) -> str:
    """The pattern as engines of that kind read it: `\\z` for Python's `\\Z`, and no sets inside of classes."""
    signs = list(pattern)
    for place, depth in _places(pattern):
        if signs[place] == "\\" and pattern[place : place + 2] == r"\Z":
            signs[place + 1] = "z"
        elif depth is None and signs[place] in "[&~":
            signs[place] = "\\" + signs[place]
    return "".join(signs)


def _engine(pattern: str) -> Search | None:
    """A search for the pattern; None if neither engine knows it."""
    try:
        known = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return _re2(pattern)
    return lambda text: known.isinstance_python(whole(text))


def _re2(pattern: str) -> Search | None:
    try:
        re2: Any = import_module("re2")
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        known = re2.compile(pattern, options)
    except re2.error:
        return None
    return lambda text: known.search(whole(text)) is not None


def _apart(pattern: str) -> list[tuple[str, bool]]:
    """A pattern that looks ahead from the beginning of the text, as patterns, each with whether it has to fit.

    `^(?=.*\\d)(?!admin).{8,}$` is the one everybody writes, and says no more than three patterns do. Look-around in
    other places, and references back, cannot be taken apart: nothing is returned.
    """
    if not pattern.startswith("^"):
        return []
    found: list[tuple[str, bool]] = []
    at = 1
    while (wanted := _AHEAD.get(pattern[at : at + 3])) is not None:
        end = _closing(pattern, at)
        if end is None:
            return []
        found.append((f"^(?:{pattern[at + 3 : end]})", wanted))
        at = end + 1
    rest = pattern[at:]
    if not found or _closing(f"({rest})", 0) != len(rest) + 1 or _has_choice(rest):
        return []
    return [*found, (f"^{rest}", True)]


def _closing(pattern: str, at: int) -> int | None:
    """Where the group that opens here is closed."""
    return next((place for place, depth in _places(pattern, at) if depth == 0 and pattern[place] == ")"), None)


def _has_choice(pattern: str) -> bool:
    """Is there a `|` outside of every group? Then only its first branch begins at `^`."""
    return any(depth == 0 and pattern[place] == "|" for place, depth in _places(pattern))


def _places(pattern: str, at: int = 0) -> Iterator[tuple[int, int | None]]:
    """The signs of a pattern, escaped ones as one, with how deep in groups each leaves us; None inside of a class."""
    depth, first = 0, -1  # where the first sign of the class is that we are in
    while at < len(pattern):
        sign = pattern[at]
        if first >= 0:
            yield at, None
            if sign == "]" and at > first:  # one that comes first is of the class
                first = -1
        else:
            depth += (sign == "(") - (sign == ")")
            yield at, depth
            if sign == "[":
                first = at + (2 if pattern[at + 1 : at + 2] == "^" else 1)
        at += 2 if sign == "\\" else 1
