"""Values to JSON and back, so that what is read is what a new process would read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic_core import from_json, to_json

from standfast.errors import NotStorable, WrongState
from standfast.json_values import (
    DEEPEST,
    LARGEST_VALUE,
    TOO_LARGE,
    canonical,
    fingerprint,
    is_array,
    is_object,
    merge_patch,
    not_finite,
    one_line_diff,
    short,
    why_unreadable,
)
from standfast.log import LOG_MARK, Log, is_model, what_it_says
from standfast.log_places import Dumping, Fetch, Loading, LogRows, branch_logs, collapse_logs, expand_logs
from standfast.odd_text import mended
from standfast.outside import Outside
from standfast.records import Json
from standfast.schema_checks import Checker, TooMuch

__all__ = [
    "Codec",
    "Fetch",
    "JsonSchema",
    "LogRows",
    "StateCodec",
    "branch_logs",
    "canonical",
    "collapse_logs",
    "expand_logs",
    "fingerprint",
    "from_json",
    "merge_patch",
    "one_line_diff",
    "storable",
    "to_json",
]

T = TypeVar("T")

_LIST_LIKE = {"list", "tuple", "set", "frozenset", "deque"}  # the same JSON

# Core schema types that can hold no float.
_NO_FLOAT = frozenset(
    {"str", "int", "bool", "none", "literal", "enum", "date", "datetime", "time", "timedelta", "uuid", "url", "bytes"}
    | {"list", "dict", "tuple", "set", "frozenset", "nullable", "default", "union", "tagged-union"}
    | {"model", "model-fields", "model-field", "dataclass", "dataclass-args", "dataclass-field"}
    | {"typed-dict", "typed-dict-field", "definitions", "definition-ref"}
)


# Core schema types of which a value is as deep as its type is written.
_SHALLOW = (_NO_FLOAT | {"float", "decimal"}) - {"definitions", "definition-ref"}

# Core schema types whose JSON tells what was written, if it is read strictly (a key of a dict does not).
_UNMISTAKABLE = frozenset(
    {"str", "int", "bool", "none", "list", "nullable", "default", "model", "model-fields", "model-field"}
)


class Codec(Generic[T]):
    """JSON for values of one type. What dumps without an error loads again."""

    def __init__(self, type_: Any) -> None:
        self.type = type_
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(type_)
            kinds, self.has_logs = _kinds(self._adapter.core_schema)
            self._to_json = self._adapter.serializer.to_json
            self._to_python = self._adapter.serializer.to_python
            self._from_json: Callable[..., T] = self._adapter.validator.validate_json
        except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError) as error:
            raise NotStorable(
                f"{_name(type_)} cannot be stored: {what_it_says(error)}",
                hint="use pydantic models, dataclasses, TypedDicts and JSON's own types, defined at module level",
            ) from error
        if "generator" in kinds:
            raise NotStorable(
                f"{_name(type_)} holds an Iterable, which can be read only once",
                hint="use list[...] for it, or Json (a plain dict) for types of a provider's SDK",
            )
        self._may_hold_floats = not kinds.keys() <= _NO_FLOAT
        self._may_be_deep = not kinds.keys() <= _SHALLOW
        self._unmistakable = kinds.keys() <= _UNMISTAKABLE and kinds["model"] <= 1
        self._class: type[Any] | None = type_ if isinstance(type_, type) and is_model(type_) else None
        # Other classes than declared can sit in fields that are models.
        self._may_hold_others = kinds["model"] + kinds["dataclass"] > (self._class is not None)

    @cached_property
    def schema(self) -> Json:
        """The JSON schema of what `dump` writes."""
        try:
            schema = self._adapter.json_schema(by_alias=False, mode="validation")
        except PydanticUserError as error:
            raise NotStorable(f"{_name(self.type)} has no JSON schema: {what_it_says(error)}") from error
        if (path := _secret_path(schema, "")) is not None:
            raise NotStorable(
                f"{_name(self.type)} holds a secret at {path}, of which JSON keeps only asterisks",
                path=path,
                hint="keep secrets out of what is stored: give them to the Runtime (provide=) and take them by use()",
            )
        return schema

    def dump(self, value: T) -> bytes:
        """The value as JSON that `load` will take; NotStorable names the field that stands in the way."""
        raw = self.write(value)
        if b"null" in raw:  # the serializer lets None pass in every field
            self.load(raw)
        return raw

    def write(self, value: T, context: Dumping | None = None, *, quiet: bool = False) -> bytes:
        """As `dump`, for callers that `load` at once: a None that does not fit is found by that.

        `quiet` is for callers that load strictly: that finds what the serializer would complain of.
        """
        try:  # False and not "none": pydantic takes 1 us to read a word
            raw = self._to_json(
                value, warnings=False if quiet else "error", round_trip=True, by_alias=False, context=context
            )
        except Exception as error:  # noqa: BLE001 - classes may have serializers of their own
            raw = self._dump_unless_wrong(value, context, error)
        if len(raw) > DEEPEST and (why := why_unreadable(raw, may_be_deep=self._may_be_deep)):
            raise _not_storable(self.type, self._failing_path(value, context), why)
        if len(raw) > LARGEST_VALUE:
            raise _too_large(self.type, value, len(raw))
        if self._may_hold_floats and b"null" in raw:
            self._refuse_lost_floats(value, context)
        if self._may_hold_others or (self._class is not None and type(value) is not self._class):
            self._refuse_other_classes(value, raw, context)
        return raw

    def load(
        self, raw: bytes, context: Loading | None = None, *, by_alias: bool = False, strict: bool | None = None
    ) -> T:
        """The value again; NotStorable if the JSON does not fit the type."""
        try:
            return self._from_json(raw, by_alias=by_alias, by_name=True, strict=strict, context=context)
        except ValidationError as error:
            path, why = _first_error(error)
            raise _not_storable(self.type, path, why) from error

    def parse(self, raw: bytes) -> T:
        """A value from outside (a model's arguments, say), where fields may go by their aliases."""
        return self.load(raw, by_alias=True)

    def accept(self, value: Any) -> T:
        """A value from outside (an instance, or plain JSON) as this type; WrongState names the field."""
        try:
            return self._adapter.validate_python(value, by_alias=True, by_name=True)
        except ValidationError as error:
            path, why = _first_error(error)
            raise WrongState(
                f"{_name(self.type)} does not fit{f' at {path}' if path else ''}: {why}",
                hint=f"give a {_name(self.type)}, or JSON of its shape",
            ) from error

    def _dump_unless_wrong(self, value: T, context: Dumping | None, error: Exception) -> bytes:
        # The serializer's complaint names no path, and it complains of tuples in a list field,
        # which are fine: let strict validation of what it would write decide.
        try:
            raw = self._to_json(value, warnings=False, round_trip=True, by_alias=False, context=context)
        except Exception as fatal:
            path = self._failing_path(value, context)
            raise _not_storable(self.type, path, what_it_says(fatal)) from fatal
        try:
            loading = None if context is None else Loading(_no_rows)
            self._from_json(raw, strict=True, by_alias=False, by_name=True, context=loading)
        except ValidationError as wrong:
            path, why = _first_error(wrong)
            raise _not_storable(self.type, path, why) from wrong
        complaint = str(error)
        if not set(re.findall(r"input_type=(\w+)", complaint)) <= _LIST_LIKE:
            path = ".".join(re.findall(r"field_name='([^']*)'", complaint)[:1])
            raise _not_storable(self.type, path, what_it_says(error)) from error
        return raw

    def _failing_path(self, value: T, context: Dumping | None) -> str:
        for key, part in _parts(value):
            try:
                unreadable = why_unreadable(self._to_json(value, include={key}, warnings=False, context=context))
            except Exception:  # noqa: BLE001 - whatever it is, this is the field
                unreadable = "it cannot be written"
            if unreadable:
                return _joined(_shown(key), _unserializable(part))
        return _unserializable(value)

    def _refuse_lost_floats(self, value: T, context: Dumping | None) -> None:
        # JSON has no NaN: pydantic writes null, which an optional field would read back as None.
        plain = self._to_python(value, warnings=False, round_trip=True, context=context)
        exact = to_json(plain, serialize_unknown=True, bytes_mode="base64")
        if (b"NaN" in exact or b"Infinity" in exact) and (path := not_finite(from_json(exact))) is not None:
            raise _not_storable(self.type, path, "NaN and infinity are not JSON")

    def _refuse_other_classes(self, value: T, raw: bytes, context: Dumping | None) -> None:
        # The serializer takes the declared fields of whatever object it finds, and drops the rest.
        if self._class is not None and not isinstance(value, self._class):
            raise _not_storable(self.type, "", f"it is a {type(value).__name__}, not a {self._class.__name__}")
        try:
            own = self._to_json(
                value, warnings=False, round_trip=True, by_alias=False, serialize_as_any=True, context=context
            )
        except Exception:  # noqa: BLE001 - it was written as its type says, which counts
            own = b""
        if own != raw and value is not None:
            loaded = self.load(raw, None if context is None else Loading(_no_rows))
            other = _other_class(value, loaded, "")
            if other is not None:
                path, found, declared = other
                raise _not_storable(self.type, path, f"a {found} where {declared} is declared would lose what it adds")


class StateCodec(Codec[T]):
    """JSON for states: a Log in them is written as where its rows are, and the new rows beside it."""

    def dump_state(self, value: T, *, home: object = None) -> tuple[bytes, list[LogRows]]:
        """The snapshot, and the rows that have to be written with it.

        `home` stands for what the state belongs to: a Log that was loaded for another home (another
        run, an attempt that was set back) is written anew in full. None: every Log is at home.
        """
        if not self.has_logs:
            return self.dump(value), []
        dumping = Dumping(home)
        return self.write(value, dumping), dumping.rows

    def dump_new(self, value: T) -> tuple[bytes, list[LogRows]]:
        """As dump_state, for a new run: all rows of every Log, under ids of their own; the value is not touched."""
        dumping = Dumping(strange=True)
        return self.write(value, dumping), dumping.rows

    def load_state(self, raw: bytes, fetch: Fetch, *, home: object = None, branched: bool = False) -> T:
        """The state of a snapshot; rows are fetched when a Log is first read. WrongState if it does not fit.

        `branched`: later rows go to new log ids (after rewind, fork, edit).
        """
        context = Loading(fetch, home, branched=branched) if self.has_logs else None
        try:
            return self._from_json(raw, by_alias=False, by_name=True, context=context)
        except ValidationError as error:
            path, why = _first_error(error)
            raise WrongState(
                f"the stored state cannot be read as {_name(self.type)}{f': field {path}' if path else ''}: {why}",
                hint="@agent(migrate=...) makes new state of old; or edit the state; it is kept as it was",
            ) from error

    def round_trip(self, value: T, fetch: Fetch, *, home: object = None) -> tuple[bytes, list[LogRows], T]:
        """dump_state, and the state as a new process would load it; rows in memory stay there."""
        if not self.has_logs:
            raw = self.write(value, None, quiet=self._unmistakable)
            try:
                return raw, [], self._from_json(raw, strict=self._unmistakable or None, by_alias=False, by_name=True)
            except ValidationError:  # the serializer says it better
                raw = self.write(value, None)
                return raw, [], self.load(raw, None)
        dumping = Dumping(home)
        raw = self.write(value, dumping)
        return raw, dumping.rows, self.load(raw, Loading(fetch, home, dumping.near))


def storable(value: Any) -> bytes:
    """A value from outside as JSON that can be read again; NotStorable names the part that cannot be stored."""
    return _ANYTHING.dump(value)


class JsonSchema:
    """Validation for processes that have the stored schema but not the code."""

    @staticmethod
    def fits(checks: Outside, schema: Json, value: Any, what: str = "the state") -> None:
        """As `validate`, for verbs: what takes long is done outside of the transaction."""
        checks.found(lambda: JsonSchema.validate(schema, value, what), to_json(schema), to_json(value))

    @staticmethod
    def validate(schema: Json, value: Any, what: str = "the state") -> None:
        """Return if the value fits; WrongState names the field that does not."""
        try:
            error = Checker(schema).error(value)
        except TooMuch as much:
            raise WrongState(
                f"{what} cannot be checked: {much}",
                hint="nothing was changed; the agent's author can change the schema",
            ) from much
        if error is not None:
            path = ".".join(str(part) for part in error.absolute_path)
            raise WrongState(
                f"{what} does not fit{f' at {path}' if path else ''}: {short(error.message, 160)}",
                hint=f"its schema asks for {short(to_json(error.schema).decode(), 160)}",
            )


def _no_rows(_log_id: str, _start: int, _stop: int) -> list[bytes]:
    return []


def _kinds(schema: Any) -> tuple[Counter[str], bool]:
    """The types in a core schema, and whether a Log is among them (what is inside a Log does not count)."""
    kinds: Counter[str] = Counter()
    logs = False
    todo: list[Any] = [schema]
    while todo:
        node = todo.pop()
        if is_object(node):
            if is_object(marks := node.get("metadata")) and LOG_MARK in marks:
                logs = True
                continue
            if isinstance(node.get("type"), str):
                kinds[node["type"]] += 1
            todo += [child for key, child in node.items() if key not in ("metadata", "default", "config")]
        elif isinstance(node, list | tuple):
            todo += cast("list[Any]", node)
    return kinds, logs


def _secret_path(schema: Any, path: str) -> str | None:
    """Where a JSON schema has one of pydantic's secret types."""
    if is_object(schema):
        if schema.get("format") == "password" and schema.get("writeOnly") is True:
            return path
        children: Iterable[tuple[Any, Any]] = schema.items()
    elif is_array(schema):
        children = enumerate(schema)
    else:
        return None
    for key, child in children:
        inner = path if key in ("properties", "$defs", "items", "anyOf") else f"{path}.{key}" if path else str(key)
        found = _secret_path(child, inner)
        if found is not None:
            return found
    return None


def _first_error(error: ValidationError) -> tuple[str, str]:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ".".join(str(part) for part in first["loc"]), first["msg"]


def _parts(value: object) -> Iterable[tuple[Any, Any]]:
    """What a value is made of, by field, key or index."""
    if isinstance(value, BaseModel):
        return dict(value).items()
    if is_dataclass(value):
        return [(field.name, getattr(value, field.name, None)) for field in dataclass_fields(value)]
    if is_object(value):
        return value.items()
    if isinstance(value, list | tuple | set | frozenset):
        return enumerate(cast("Iterable[Any]", value))
    return ()


def _unserializable(value: Any, depth: int = 0) -> str:
    """The path of the innermost part that has no JSON."""
    for key, part in _parts(value) if depth < 100 else ():
        if isinstance(part, Log):
            continue
        try:
            unreadable = why_unreadable(to_json(part))
        except Exception:  # noqa: BLE001 - whatever it is, it is in this part
            unreadable = "it cannot be written"
        if unreadable:
            return _joined(_shown(key), _unserializable(part, depth + 1))
    return ""


def _shown(key: object) -> str:
    """A key in a path: a number may be too long to be printed, and half a character is no text."""
    try:
        return mended(short(str(key), 80))
    except Exception:  # noqa: BLE001 - a key of somebody's class may say anything
        return f"a key of type {type(key).__name__}"


def _joined(path: str, inner: str) -> str:
    return f"{path}.{inner}" if path and inner else path or inner


def _other_class(value: Any, loaded: Any, path: str) -> tuple[str, str, str] | None:
    """Where an object was read back as another class: path, its class, the declared one."""
    if is_model(type(loaded)) and type(value) is not type(loaded):
        return path, type(value).__name__, type(loaded).__name__
    read = dict(_parts(loaded))
    for key, part in _parts(value):
        if key in read:
            found = _other_class(part, read[key], _joined(path, _shown(key)))
            if found is not None:
                return found
    return None


def _not_storable(type_: Any, path: str, why: str) -> NotStorable:
    return NotStorable(
        f"{_name(type_)} cannot be stored{f': field {path}' if path else ''}: {why}",
        path=path,
        hint="keep to the declared types, and to values that JSON can hold",
    )


def _too_large(type_: Any, value: object, size: int) -> NotStorable:
    sizes = [
        (len(to_json(part, serialize_unknown=True, bytes_mode="base64")), _shown(key)) for key, part in _parts(value)
    ]
    most, path = max(sizes, default=(0, ""))
    where = f", {most:,} of them at {path}" if path else ""
    told = f"{_name(type_)} has {size:,} bytes as JSON{where}, and {LARGEST_VALUE:,} is the most"
    return NotStorable(told, path=path, hint=TOO_LARGE)


def _name(type_: Any) -> str:
    if type_ is Any:
        return "the value"
    return getattr(type_, "__name__", None) or str(type_)


_ANYTHING: Codec[Any] = Codec(Any)
