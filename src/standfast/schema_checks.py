"""Does a value fit a schema? Found out with a bound on the work, whatever the value.

The schema is its author's, the value anybody's. Patterns run in linear time; so does the search for equal elements.
What a schema that refers to itself makes of a deep value (each level once for each alternative) is counted, and ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from pydantic_core import to_json

from standfast.json_values import is_array, is_object, short
from standfast.linear_patterns import Uncheckable, fits
from standfast.records import Json

MOST_CHECKS = 500_000  # keywords that are looked at: some seconds
_VALUES = frozenset({"const", "enum", "default", "examples"})  # in there nothing is a schema

Keyword = Callable[[Any, Any, Any, Any], Any]

_left: ContextVar[list[int]] = ContextVar("checks left")


class TooMuch(Exception):  # noqa: N818 - it states the fact
    """The value was not checked to its end."""


class Checker:
    """A schema that values can be checked against."""

    def __init__(self, schema: Json, *, any_draft: bool = False) -> None:
        """`any_draft`: the schema says which draft it is of; else it is of 2020-12."""
        import jsonschema  # noqa: PLC0415 - takes 100 ms, and few processes need it
        import referencing  # noqa: PLC0415

        untyped: Any = jsonschema
        newest = untyped.Draft202012Validator
        kind = untyped.validators.validator_for(schema, default=newest) if any_draft else newest
        nothing_else: Any = referencing.Registry[Any]()  # a schema is never looked up on the net
        self._best: Callable[[Any], Any] = untyped.exceptions.best_match
        self._validator: Any = _bounded(kind)(_of_this_draft(schema), registry=nothing_else)

    def error(self, value: Any) -> Any:
        """What is wrong with the value, as jsonschema puts it, or None; TooMuch if that cannot be found out."""
        token = _left.set([MOST_CHECKS])
        try:
            return self._best(self._validator.iter_errors(value))
        except Uncheckable as error:
            raise TooMuch(
                f"the pattern {short(str(error), 80)} looks around or refers back, which can take for ever"
            ) from error
        finally:
            _left.reset(token)


@lru_cache(maxsize=16)
def _bounded(kind: Any) -> Any:
    """The validator of a draft, with all of its work counted, and none of it left to Python's engine for patterns."""
    import jsonschema  # noqa: PLC0415

    untyped: Any = jsonschema
    keywords: dict[str, Keyword] = dict(kind.VALIDATORS)
    for name, own in _OWN.items():
        if name in keywords:
            keywords[name] = own(keywords[name])
    return untyped.validators.extend(kind, {name: _counted(keyword) for name, keyword in keywords.items()})


def _counted(keyword: Keyword) -> Keyword:
    def check(validator: Any, wanted: Any, value: Any, schema: Any) -> Any:
        left = _left.get()
        left[0] -= 1
        if left[0] < 0:
            raise TooMuch(f"its schema asks for more than {MOST_CHECKS:,} checks")
        return keyword(validator, wanted, value, schema)

    return check


def _of_this_draft(schema: Any) -> Any:
    """The schema without names of drafts: each would bring a validator of its own, which has no bounds."""
    if is_object(schema):
        return {
            key: child if key in _VALUES else _of_this_draft(child)
            for key, child in schema.items()
            if not (key == "$schema" and isinstance(child, str))
        }
    return [_of_this_draft(child) for child in schema] if is_array(schema) else schema


# --- keywords that would take long --------------------------------------------------------------------


def _pattern(_: Keyword) -> Keyword:
    def check(validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "string") and not fits(pattern, value):
            yield _error(f"{value!r} does not match {pattern!r}")

    return check


def _pattern_properties(_: Keyword) -> Keyword:
    def check(validator: Any, patterns: Json, value: Any, _schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "object"):
            for pattern, inner in patterns.items():
                for name in value:
                    if fits(pattern, name):
                        yield from validator.descend(value[name], inner, path=name, schema_path=pattern)

    return check


def _additional_properties(plain: Keyword) -> Keyword:
    def check(validator: Any, allowed: Any, value: Any, schema: Json) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if not is_object(patterns) or not validator.is_type(value, "object"):
            yield from plain(validator, allowed, value, schema) or ()
            return
        known: Any = schema.get("properties", {})
        extras = [name for name in value if name not in known and not any(fits(one, name) for one in patterns)]
        if validator.is_type(allowed, "object"):
            for name in extras:
                yield from validator.descend(value[name], allowed, path=name)
        elif not allowed and extras:
            yield _error(f"{', '.join(map(repr, sorted(extras)))} match none of {', '.join(map(repr, patterns))}")

    return check


def _unevaluated_properties(plain: Keyword) -> Keyword:
    """Names of patterns are looked for by jsonschema itself here, wherever they stand: that is left to nobody."""

    def check(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[Any]:
        if b'"patternProperties"' in to_json(validator.schema) + to_json(schema):
            raise TooMuch("unevaluatedProperties beside patternProperties is not supported")
        yield from plain(validator, allowed, value, schema) or ()

    return check


def _unique_items(_: Keyword) -> Keyword:
    def check(validator: Any, wanted: Any, value: Any, _schema: Any) -> Iterator[Any]:
        if wanted and validator.is_type(value, "array") and len({to_json(_same(one)) for one in value}) < len(value):
            yield _error(f"{short(repr(value), 200)} has elements that are equal")

    return check


def _same(value: Any) -> Any:
    """The same for equal JSON: 1.0 is 1, and the order of names means nothing."""
    if is_object(value):
        return {key: _same(value[key]) for key in sorted(value)}
    if is_array(value):
        return [_same(child) for child in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _error(text: str) -> Any:
    import jsonschema  # noqa: PLC0415

    untyped: Any = jsonschema
    return untyped.exceptions.ValidationError(text)


_OWN: dict[str, Callable[[Keyword], Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
