"""How schemas and instructions differ between two versions of an agent, field by field and line by line (R16)."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any, Final, TypeAlias

from standfast.json_values import is_object, short

_MOST: Final = 12  # differences that are named; more are counted
_DEEPEST: Final = 6  # schemas may refer to themselves
_MOST_LOOKS: Final = 10_000  # at pairs of schemas, then there may be more
_SMALL: Final = 50  # lines; so many are compared each with each
_LINE_DIGITS: Final = 4  # enough to see that a line has changed, and too little to confirm a guess of what it says


def schema_difference(old: Any, new: Any) -> str:
    """The fields that are new, gone or of another type; empty if only words about them have changed, or nothing."""
    looking = _Looking(old, new)
    found = list(looking.fields(old, new, "", 0))
    return _few(found, whole=looking.left > 0)


class _Looking:
    """Two schemas that are compared, each pair of parts once: however often they refer to themselves."""

    def __init__(self, old: Any, new: Any) -> None:
        self._roots = old, new
        self._seen: dict[tuple[int, int], int] = {}  # pairs, and how far down they were met
        self.left = _MOST_LOOKS

    def fields(self, old: Any, new: Any, path: str, depth: int) -> Iterator[str]:
        old, new = _followed(old, self._roots[0]), _followed(new, self._roots[1])
        pair = id(old), id(new)
        if self.left <= 0 or self._seen.get(pair, depth + 1) <= depth:
            return
        self.left -= 1
        if is_object(old) and is_object(new):
            self._seen[pair] = depth
        before, after = _properties(old), _properties(new)
        if depth <= _DEEPEST and (before or after):
            yield from self._named(old, new, path, depth)
        elif _type(old) != _type(new):
            yield f"{path or 'it'}: {short(_type(old), 80)} -> {short(_type(new), 80)}"
        elif depth <= _DEEPEST and (inner := (_items(old), _items(new))) != (None, None):
            yield from self.fields(*inner, f"{path}[]", depth + 1)

    def _named(self, old: Any, new: Any, path: str, depth: int) -> Iterator[str]:
        before, after = _properties(old), _properties(new)
        required = _required(new)
        was_required = _required(old)
        for name in after:
            if name not in before:
                yield f"new field {_under(path, name)} ({'required' if name in required else 'with a default'})"
        for name in before:
            if name not in after:
                yield f"field {_under(path, name)} is gone"
        for name in before:
            if name in after:
                yield from self.fields(before[name], after[name], _under(path, name), depth + 1)
                if (name in required) != (name in was_required):
                    yield f"{_under(path, name)} is {'now' if name in required else 'no longer'} required"


def _required(schema: Any) -> frozenset[str]:
    found: Any = schema.get("required") if is_object(schema) else None
    return frozenset(one for one in found or () if isinstance(one, str))


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _followed(schema: Any, root: Any) -> Any:
    """A reference within the schema, taken."""
    for _ in range(_DEEPEST):
        ref = schema.get("$ref") if is_object(schema) else None
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return schema
        found: Any = root
        for part in ref[2:].split("/"):
            found = found.get(part) if is_object(found) else None
        schema = found
    return schema


def _properties(schema: Any) -> dict[str, Any]:
    found = schema.get("properties") if is_object(schema) else None
    return found if is_object(found) else {}


def _items(schema: Any) -> Any:
    return schema.get("items") if is_object(schema) else None


def _type(schema: Any) -> str:
    """A type in a word or two."""
    if not is_object(schema):
        return "anything"
    if isinstance(kind := schema.get("type"), str):
        return f"one of {json.dumps(schema['enum'])}" if "enum" in schema else kind
    several: list[Any] | None = schema.get("anyOf")
    if several is not None:
        return " | ".join(_type(one) for one in several)
    if isinstance(ref := schema.get("$ref"), str):
        return ref.rpartition("/")[2]
    return f"exactly {json.dumps(schema['const'])}" if "const" in schema else "anything"


def line_marks(text: str) -> list[str]:
    """A mark for each line of the instructions: what they say is not kept."""
    return [sha256(line.strip().encode()).hexdigest()[:_LINE_DIGITS] for line in text.splitlines()]


def line_difference(old: Sequence[str], new: Sequence[str]) -> str:
    """Which lines of the instructions have changed, by their numbers."""
    found: list[str] = []
    for i, j, k, m in _stretches(old, new):
        if i == j:
            found.append(f"{_lines(k, m)} new")
        elif k == m:
            found.append(f"{_lines(i, j)} removed")
        else:
            found.append(f"{_lines(i, j)} changed" + (f", now {_lines(k, m)}" if (i, j) != (k, m) else ""))
    return _few(found)


Stretch: TypeAlias = tuple[int, int, int, int]
"""Lines i to j of the old text, in the place of which lines k to m of the new one stand."""


def _stretches(old: Sequence[str], new: Sequence[str]) -> Iterator[Stretch]:
    """Where they differ, in time almost proportional to their lengths.

    Few lines are compared each with each. Of many, those that stand once in both texts show what belongs together.
    """
    i, j, k, m = _trimmed(old, new, (0, len(old), 0, len(new)))
    if max(j - i, m - k) <= _SMALL:
        yield from _closely(old, new, (i, j, k, m))
        return
    for a, b in [*_common(old, new, (i, j, k, m)), (j, m)]:
        yield from _closely(old, new, _trimmed(old, new, (i, a, k, b)))
        i, k = a + 1, b + 1


def _trimmed(old: Sequence[str], new: Sequence[str], stretch: Stretch) -> Stretch:
    """Without the lines at both ends that are the same."""
    i, j, k, m = stretch
    while i < j and k < m and old[i] == new[k]:
        i, k = i + 1, k + 1
    while i < j and k < m and old[j - 1] == new[m - 1]:
        j, m = j - 1, m - 1
    return i, j, k, m


def _closely(old: Sequence[str], new: Sequence[str], stretch: Stretch) -> Iterator[Stretch]:
    """Each line with each, if they are few; else all of it has changed."""
    i, j, k, m = stretch
    if max(j - i, m - k) > _SMALL:
        yield stretch
    else:
        for what, a, b, c, d in SequenceMatcher(None, old[i:j], new[k:m], autojunk=False).get_opcodes():
            if what != "equal":
                yield i + a, i + b, k + c, k + d


def _common(old: Sequence[str], new: Sequence[str], stretch: Stretch) -> list[tuple[int, int]]:
    """Lines that stand once in both texts, as many as are in the same order in both: the longest rising sequence."""
    i, j, k, m = stretch
    here, there = Counter(old[i:j]), {line: n for n, line in enumerate(new[k:m], k)}
    once = Counter(new[k:m])
    pairs = [(n, there[old[n]]) for n in range(i, j) if here[old[n]] == 1 and once[old[n]] == 1]
    ends: list[int] = []  # the places in the new text at which the best sequences of each length end
    last: list[int] = []  # and which pair that is
    before: list[int] = []
    for at, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [at]
        before.append(last[length - 1] if length else -1)
    found: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = before[at]
    return found[::-1]


def _lines(first: int, end: int) -> str:
    return f"line {end}" if end - first == 1 else f"lines {first + 1} to {end}"


def _few(found: list[str], *, whole: bool = True) -> str:
    more = len(found) - _MOST
    shown = found if more <= 0 else [*found[:_MOST], f"and {more} more"]
    return ", ".join(shown if whole else [*shown, "and perhaps others"])
