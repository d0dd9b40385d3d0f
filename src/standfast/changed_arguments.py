"""Arguments as a person gives them: what they leave out stays, and a name that the schema does not know is a slip.

A model class drops names that it does not know, so a slip of the pen would perform the call as it was. Schemas leave
their objects open unless they say otherwise; here only those that say so are.
"""

from __future__ import annotations

from typing import Any, Final

from standfast.codec import JsonSchema
from standfast.json_values import is_array, is_object
from standfast.records import Json

_NAMED: Final = ("properties", "patternProperties")  # schemas of values, by name
_DEFINED: Final = ("$defs", "definitions")
_VALUES: Final = (
    "additionalProperties",
    "contains",
    "items",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_EITHER: Final = ("anyOf", "oneOf")
_PARTS: Final = ("allOf", "if", "then", "else", "not")  # each knows only some of the names
_OPEN: Final = ("additionalProperties", "unevaluatedProperties", "patternProperties")  # it says itself what it takes


def changed(original: Json, changes: Json, schema: Json) -> Json:
    """The arguments after a person's changes: objects of fields are merged, all else is replaced as a whole.

    Null is a value, and a dict of free names is one: nothing else could take a name out of it.
    """
    return _with(original, changes, _fields(original, changes, schema, schema) or {}, schema)


def validate(original: Json, after: Json, schema: Json, what: str) -> None:
    """Return if changed arguments fit, with no name that neither the schema knows nor the call had; or WrongState."""
    JsonSchema.validate(schema, after, what)
    JsonSchema.validate(closed(schema), _but_for_its_own(original, after, schema, schema), what)


def closed(schema: Json) -> Json:
    """The schema, in which only objects that say so take names that they do not know."""
    closing = _Closing()
    while True:  # what is found to be part of something else must not be closed by itself
        before = len(closing.parts)
        found: Json = closing.look(schema, "#", part=False)
        if len(closing.parts) == before:
            return found


def _merged(original: Any, changes: Any, schema: Any, root: Any) -> Any:
    if not is_object(original) or not is_object(changes):
        return changes
    fields = _fields(original, changes, schema, root)
    if fields is None:
        return changes
    return _with(original, changes, fields, root)


def _with(original: Json, changes: Json, fields: Json, root: Any) -> Json:
    new = {name: _merged(original.get(name), value, fields.get(name), root) for name, value in changes.items()}
    return {**original, **new}


def _but_for_its_own(original: Any, after: Any, schema: Any, root: Any) -> Any:
    """The arguments without names that the call itself had beyond those of its schema."""
    if not is_object(original) or not is_object(after):
        return after
    fields = _fields(original, after, schema, root)
    if fields is None:
        return after
    kept = {name: value for name, value in after.items() if name in fields or name not in original}
    return {name: _but_for_its_own(original.get(name), value, fields.get(name), root) for name, value in kept.items()}


def _fields(original: Json, changes: Json, schema: Any, root: Any) -> Json | None:
    """The schemas of the object's fields; None for a dict, and where the changes make another kind of object of it."""
    kinds = [kind for kind in _kinds(schema, root, frozenset()) if "object" in _types(kind)]
    known = [fields for kind in kinds if is_object(fields := kind.get("properties"))]
    if len(kinds) == 1:
        return known[0] if known else None
    together = {**original, **changes}
    return next((fields for fields in known if _takes(fields, together)), None)


def _types(kind: dict[str, Any]) -> Any:
    return kind.get("type", "object")


def _kinds(schema: Any, root: Any, seen: frozenset[str]) -> list[Json]:
    """The schemas that a value may follow, one or the other."""
    if not is_object(schema):
        return []
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref not in seen and "properties" not in schema:
        return _kinds(_at(ref, root), root, seen | {ref})
    either = [one for key in (*_EITHER, "allOf") for one in schema.get(key, ())]
    if either and "properties" not in schema:
        return [kind for one in either for kind in _kinds(one, root, seen)]
    return [schema]


def _takes(fields: Json, value: Json) -> bool:
    """Are these its fields, with the words in them that tell one kind of object from another?"""
    return all(name in fields and _says(fields[name], said) for name, said in value.items())


def _says(field: Any, value: Any) -> bool:
    if not is_object(field):
        return True
    return field.get("const", value) == value and value in field.get("enum", [value])


def _at(ref: str, root: Any) -> Any:
    found = root
    for name in ref.removeprefix("#").split("/")[1:]:
        found = found.get(name.replace("~1", "/").replace("~0", "~")) if is_object(found) else None
    return found if ref.startswith("#") else None


class _Closing:
    """A walk over a schema, after which its objects are closed."""

    def __init__(self) -> None:
        self.parts: set[str] = set()  # places that are only a part of what describes an object

    def look(self, schema: Any, place: str, *, part: bool) -> Any:
        """The schema at this place; `part`: what stands around it closes the object."""
        if not is_object(schema):
            return schema
        part = part or place in self.parts
        composed = any(key in schema for key in ("allOf", "if", "dependentSchemas")) or (
            "properties" in schema and any(key in schema for key in (*_EITHER, "$ref"))
        )
        ref = schema.get("$ref")
        if isinstance(ref, str) and (part or composed):
            self.parts.add(ref)
        found = {key: self._child(key, child, f"{place}/{key}", part, composed) for key, child in schema.items()}
        if part or any(key in schema for key in _OPEN):
            return found
        if composed or ref in self.parts:
            return {**found, "unevaluatedProperties": False}
        return {**found, "additionalProperties": False} if "properties" in schema else found

    def _child(self, key: str, child: Any, place: str, part: bool, composed: bool) -> Any:
        if key in (*_NAMED, *_DEFINED, "dependentSchemas") and is_object(child):
            inner = key == "dependentSchemas"
            return {name: self.look(one, f"{place}/{name}", part=inner) for name, one in child.items()}
        if key in _VALUES:
            return self._each(child, place, part=False)
        if key in _EITHER:
            return self._each(child, place, part=part or composed)
        return self._each(child, place, part=True) if key in _PARTS else child

    def _each(self, child: Any, place: str, *, part: bool) -> Any:
        if is_array(child):
            return [self.look(one, f"{place}/{at}", part=part) for at, one in enumerate(child)]
        return self.look(child, place, part=part)
