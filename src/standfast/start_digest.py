"""What tells one start from another with the same id, whether or not the agent's code is here."""

from __future__ import annotations

from typing import Any, cast

from standfast.codec import fingerprint
from standfast.json_values import is_array, is_object
from standfast.records import Json

_OF_ITS_OWN = object()  # a default that the schema does not tell


def start_digest(agent: str, state: Any, schema: Json) -> str:
    """The same for a state with its defaults written out and for one that leaves them out."""
    asked: Json = {"agent": agent, "state": _without_defaults(state, schema, schema)}
    return fingerprint(asked)


def _without_defaults(value: Any, schema: Any, root: Json) -> Any:
    schema = _resolved(schema, root)
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if is_array(value) and is_object(schema.get("items")):
        return [_without_defaults(item, schema["items"], root) for item in value]
    fields = schema.get("properties")
    if not is_object(value) or not is_object(fields):
        return value
    required = schema.get("required", ())
    kept: dict[str, Any] = {}
    for name, given in value.items():
        field = fields.get(name, {})
        plain = _without_defaults(given, field, root)
        if name in required or not _is_default(plain, field, root):
            kept[name] = plain
    return kept


def _is_default(value: Any, field: Any, root: Json) -> bool:
    default = field.get("default", _OF_ITS_OWN)
    if default is _OF_ITS_OWN:
        return value in ([], {})  # what default factories make, nearly always
    return bool(value == _without_defaults(default, field, root))


def _resolved(schema: Any, root: Json) -> Any:
    while is_object(schema) and "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        schema = cast("dict[str, Any]", root.get("$defs") or {}).get(name, {})
    return schema if is_object(schema) else {}
