"""Arguments as people give them: of the right kind, or Misuse before anything is written.

What is stored is read back with strict types, so one wrong value would make its whole run unreadable.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from standfast.errors import Misuse
from standfast.json_values import is_object


def text(name: str, value: Any) -> str:
    """The text itself, or Misuse if it is none that can be stored."""
    if not isinstance(value, str):
        raise Misuse(f"{name} must be a text, not {value!r}", hint=f"give {name} as a str; nothing was changed")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Misuse(
                f"{name} holds a lone surrogate at position {error.start}, which is no character",
                hint="decode the text with errors='replace'; nothing was changed",
            ) from error
    return value


LONGEST_REASON = 2_000


def reason(value: Any) -> str:
    """The reason for a verb, or Misuse if it is no text; none is too long, so that no stop is refused for it."""
    return shortened(text("reason", value))


def shortened(given: str) -> str:
    """The text itself, or its beginning and how much of it was left out; shortened twice is shortened once."""
    if len(given) <= LONGEST_REASON:
        return given
    kept = LONGEST_REASON - 50  # room for the words that say so
    return f"{given[:kept]}… [{len(given) - kept} characters left out]"


LONGEST_MESSAGE = 10_000  # characters of what an error says
LONGEST_TRACEBACK = 100_000
_NEAR = 500  # a cut is moved so far at most, to fall between two words: half a secret would be known by nobody


def middle_left_out(given: str, most: int) -> str:
    """The text itself, or its beginning and its end, with how much of its middle was left out."""
    return given if len(given) <= most else ends_of(given, given, len(given), most)


def ends_of(before: str, after: str, length: int, most: int) -> str:
    """The beginning of one text and the end of another, which are those of a text of this length."""
    half = (most - 60) // 2  # room for the words that say so
    before, after = before[:half], after[-half:]
    near = min(_NEAR, half // 2)
    if space := max(before.rfind(" ", half - near), before.rfind("\n", half - near)) + 1:
        before = before[:space]
    spaces = [place for mark in " \n" if (place := after.find(mark, 0, near)) >= 0]
    if spaces:
        after = after[min(spaces) :]
    return f"{before}… [{length - len(before) - len(after)} characters left out] …{after}"


MOST_IN_A_RUN_ID = 200


def run_id(value: Any) -> str:
    """An id that can stand in an address, a command and a file's name, or Misuse."""
    given = text("id", value)
    if not given.strip():
        raise Misuse("a run id cannot be empty", hint="leave it out and one is made")
    if len(given) > MOST_IN_A_RUN_ID:
        raise Misuse(f"a run id of {len(given)} characters is too long", hint=f"at most {MOST_IN_A_RUN_ID} characters")
    if given in (".", "..") or "/" in given or not given.isprintable() or given != given.strip():
        raise Misuse(
            f"{given!r} cannot be the id of a run: it could not be named in an address",
            hint="leave out /, control characters and spaces at the ends; . and .. are no ids; nothing was started",
        )
    return given


def text_or_none(name: str, value: Any) -> str | None:
    """The same, where nothing may be given."""
    return None if value is None else text(name, value)


def texts_by_name(name: str, value: Any) -> dict[str, str]:
    """A copy of a dict of texts, or Misuse."""
    if not is_object(value):
        raise Misuse(f"{name} must be a dict, not {value!r}", hint=f'for example {name}={{"team": "sales"}}')
    return {text(f"a key of {name}", key): text(f"{name}[{key!r}]", one) for key, one in value.items()}


MOST_LABELS = 50
LONGEST_LABEL = 500  # characters of a name, and of a value


def labels_by_name(value: Any) -> dict[str, str]:
    """A copy of a run's labels, or Misuse: runs are looked for by them, so they are few and short."""
    given = texts_by_name("labels", value)
    if len(given) > MOST_LABELS:
        raise Misuse(f"{len(given)} labels are too many", hint=f"give at most {MOST_LABELS}; nothing was changed")
    longest = max((max(len(key), len(one)) for key, one in given.items()), default=0)
    if longest > LONGEST_LABEL:
        hint = f"names and values have at most {LONGEST_LABEL} characters; nothing was changed"
        raise Misuse(f"a label of {longest} characters is too long", hint=hint)
    return given


def number(name: str, value: Any, hint: str = "give a finite number") -> float:
    """The number itself, or Misuse if it is none, infinite or NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise Misuse(f"{name} must be a number, not {value!r}", hint=hint)
    return value


def whole(name: str, value: Any, hint: str = "give a whole number") -> int:
    """The whole number itself, or Misuse."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misuse(f"{name} must be a whole number, not {value!r}", hint=hint)
    return value


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """One of the words there are, or Misuse."""
    if value not in known:
        raise Misuse(f"{name}={value!r} is unknown", hint=f"use one of {', '.join(known)}; nothing was changed")
    return str(value)


def some_of(name: str, value: Any, known: Sequence[str]) -> list[str]:
    """One or several of the words there are, or Misuse."""
    several: Sequence[Any] = [*value] if hasattr(value, "__iter__") and not isinstance(value, str) else [value]
    return [one_of(name, one, known) for one in several]


def flag(name: str, value: Any) -> bool:
    """True or False itself, or Misuse."""
    if not isinstance(value, bool):
        raise Misuse(f"{name} must be True or False, not {value!r}", hint=f"give {name} as a bool")
    return value
