"""A form from a JSON schema: simple fields have an input of their own, all else is written as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import JsonValue
from pydantic_core import from_json

from standfast.errors import Misuse
from standfast.json_values import is_array, is_object
from standfast.records import Json

Kind = Literal["text", "long", "number", "integer", "boolean", "choice", "lines", "json"]
_LONG = re.compile(r"text|task|prompt|question|body|topic", re.IGNORECASE)
_PLAIN: dict[str, Kind] = {"integer": "integer", "number": "number", "boolean": "boolean"}


@dataclass(frozen=True, slots=True)
class Field:
    """One value that a person gives."""

    name: str
    label: str
    kind: Kind
    required: bool
    help: str = ""
    choices: tuple[JsonValue, ...] = ()
    initial: str = ""


def fields_of(schema: Any) -> list[Field]:
    """The fields of an object's schema, in its order."""
    properties = schema.get("properties") if is_object(schema) else None
    if not is_object(properties):
        return []
    required = schema.get("required")
    needed: list[Any] = required if is_array(required) else []
    found: list[Field] = []
    for name, given in properties.items():
        one = _resolved(given if is_object(given) else {}, schema)
        kind = _kind(one, schema)
        enum: Any = one.get("enum")
        found.append(
            Field(
                name,
                str(one.get("title") or name),
                kind,
                name in needed,
                str(one.get("description") or ""),
                tuple(enum) if is_array(enum) else (),
                shown(one.get("default"), kind),
            )
        )
    return found


def _resolved(one: Json, root: Json) -> Json:
    ref = one.get("$ref")
    if not isinstance(ref, str):
        return one
    found: Any = root
    for part in ref.removeprefix("#/").split("/"):
        found = found.get(part) if is_object(found) else None
    return {**found, **one} if is_object(found) else one


def _kind(one: Json, root: Json) -> Kind:
    if is_array(one.get("enum")):
        return "choice"
    options: Any = one.get("anyOf")
    real = [o for o in options if is_object(o) and o.get("type") != "null"] if is_array(options) else []
    if len(real) == 1:
        return _kind(_resolved(real[0], root), root)
    kind = str(one.get("type"))
    if kind == "string":
        return "long" if _LONG.search(str(one.get("title") or "")) else "text"
    if kind == "array":
        items = one.get("items")
        return "lines" if is_object(items) and items.get("type") == "string" else "json"
    return _PLAIN.get(kind, "json")


def shown(value: Any, kind: Kind) -> str:
    """How a value stands in its input."""
    if value is None:
        return ""
    if kind == "lines" and is_array(value):
        return "\n".join(map(str, value))
    if kind == "json":
        return json.dumps(value, indent=2, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def read(field: Field, typed: str) -> tuple[bool, JsonValue]:
    """Was something given, and what; Misuse says what is wrong with it."""
    if not typed.strip() and field.kind != "boolean":
        if field.required:
            raise Misuse(f"{field.label} is needed", hint="nothing was sent")
        return False, None
    match field.kind:
        case "integer" | "number":
            try:
                return True, int(typed) if field.kind == "integer" else float(typed)
            except ValueError:
                what = "a whole number" if field.kind == "integer" else "a number"
                raise Misuse(f"{field.label}: {typed!r} is not {what}", hint="nothing was sent") from None
        case "boolean":
            return True, typed == "true"
        case "choice":
            return True, next((one for one in field.choices if str(one) == typed), typed)
        case "lines":
            return True, [line.strip() for line in typed.splitlines() if line.strip()]
        case "json":
            try:
                return True, from_json(typed, allow_inf_nan=False)
            except ValueError as error:
                raise Misuse(f"{field.label} is not JSON: {error}", hint="nothing was sent") from None
        case _:
            return True, typed
