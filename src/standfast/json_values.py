"""JSON values as people and stores look at them: compared, patched, told apart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from math import isfinite
from typing import Any, TypeGuard

from pydantic_core import from_json, to_json

LARGEST_VALUE = 32_000_000  # bytes, as JSON: of a state, a result, the arguments of a call, a row of a Log
TOO_LARGE = (
    "keep it in a file or a table of your own, and store where it is; the step is held (paused: error), and a resume "
    "takes it again from its last snapshot"
)

MOST_DIGITS = 4300  # of a number, for readers of JSON
DEEPEST = 190  # lists and objects in one another; readers take 200, and rows and events stand around a value
_DIGITS = b"0123456789"


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """True for a JSON array."""
    return isinstance(value, list)


def sorted_json(value: Any) -> Any:
    """The same JSON value with the keys of every object in order."""
    if is_object(value):
        return {key: sorted_json(value[key]) for key in sorted(value)}
    if is_array(value):
        return [sorted_json(child) for child in value]
    return value


def same_json(left: Any, right: Any) -> bool:
    """True for the same JSON: unlike ==, tells true from 1."""
    return to_json(sorted_json(left)) == to_json(sorted_json(right))


def canonical(raw: bytes) -> bytes:
    """The same JSON with sorted keys."""
    if b"{" not in raw:
        return raw
    return to_json(sorted_json(from_json(raw)))


def why_unreadable(raw: bytes, *, may_be_deep: bool = True) -> str:
    """Why nobody could read JSON that was written: too deep, or a number with too many digits; empty if they can."""
    brackets = raw.count(b"[") + raw.count(b"{") if may_be_deep else 0
    if brackets <= DEEPEST and not _has_many_digits(raw):
        return ""
    around = 200 - DEEPEST
    try:
        from_json(b"[" * around + raw + b"]" * around)
    except ValueError as error:
        deep = "recursion" in str(error)
        return f"more than {DEEPEST} levels deep" if deep else f"a number of more than {MOST_DIGITS} digits"
    return ""


def _has_many_digits(raw: bytes) -> bool:
    """Is there a digit run that is too long for a number, perhaps in a text? Few of its bytes need a look."""
    for at in range(0, len(raw), MOST_DIGITS):
        if raw[at] in _DIGITS:
            before, after = raw[max(0, at - MOST_DIGITS) : at], raw[at : at + MOST_DIGITS + 1]
            run = len(before) - len(before.rstrip(_DIGITS)) + len(after) - len(after.lstrip(_DIGITS))
            if run > MOST_DIGITS:
                return True
    return False


def fingerprint(value: object) -> str:
    """16 hex digits that are the same for equal JSON, whatever the order of its keys."""
    return hashlib.sha256(to_json(sorted_json(from_json(to_json(value))))).hexdigest()[:16]


def merge_patch(target: Any, patch: Any) -> Any:
    """The target with a JSON Merge Patch (RFC 7396) applied; neither is changed."""
    if not is_object(patch):
        return patch
    merged = dict(target) if is_object(target) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def one_line_diff(old: Any, new: Any) -> str:
    """What changed, for people: 'month: "May" -> "June"; customers: +1'."""
    line = "; ".join(_differences(old, new, ""))
    return line if len(line) <= 200 else line[:197] + "..."


def not_finite(value: Any, path: str = "") -> str | None:
    """The path of the first NaN or infinity in a JSON value."""
    if isinstance(value, float):
        return None if isfinite(value) else path
    children: Iterable[tuple[Any, Any]] = ()
    if is_object(value):
        children = value.items()
    elif is_array(value):
        children = enumerate(value)
    for key, child in children:
        found = not_finite(child, f"{path}.{key}" if path else str(key))
        if found is not None:
            return found
    return None


def _differences(old: Any, new: Any, path: str) -> Iterable[str]:
    if same_json(old, new):
        return
    at = f"{path}: " if path else ""
    if is_object(old) and is_object(new):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else key
            if key not in new:
                yield f"{inner}: removed"
            elif key not in old:
                yield f"{inner}: added {_shown(new[key])}"
            else:
                yield from _differences(old[key], new[key], inner)
    elif is_array(old) and is_array(new):
        common = min(len(old), len(new))
        if same_json(old[:common], new[:common]):
            yield f"{at}{len(new) - len(old):+d}"
        elif len(old) == len(new):
            for index in range(common):
                yield from _differences(old[index], new[index], f"{path}.{index}" if path else str(index))
        else:
            yield f"{at}{len(old)} -> {len(new)} items"
    else:
        yield f"{at}{_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    return short(to_json(value).decode(), 40)


def short(text: str, most: int) -> str:
    """The text, cut to so many characters."""
    return text if len(text) <= most else text[: most - 3] + "..."
