"""Which field of a state a text is for: the one that an agent names, else the only one that must be given."""

from __future__ import annotations

from typing import Any

from standfast.errors import Misuse
from standfast.json_values import is_object


def only_text(schema: Any) -> str:
    """The field that a bare text can only be meant for: all that a state asks for is this one text. Else empty."""
    required: Any = schema.get("required", []) if is_object(schema) else []
    return str(required[0]) if len(required) == 1 and _is_text(schema, required[0]) else ""


def must_take_text(agent: str, field: str, schema: Any) -> None:
    """Return if a text alone makes a state; Misuse where the agent is declared, not when somebody starts it."""
    if not _is_text(schema, field):
        known = [name for name in schema.get("properties", {}) if _is_text(schema, name)]
        raise Misuse(
            f"agent {agent}: text_field={field!r} is not a str field of its state",
            hint=f"name one of {', '.join(known)}" if known else "its state has no str field",
        )
    others = [name for name in schema.get("required", []) if name != field]
    if others:
        raise Misuse(
            f"agent {agent}: text_field={field!r}, but its state also needs {', '.join(others)}",
            hint="give them defaults: a text alone must be enough to start a run",
        )


def _is_text(schema: Any, field: str) -> bool:
    found: Any = schema.get("properties", {}).get(field) if is_object(schema) else None
    if not is_object(found):
        return False
    options: Any = found.get("anyOf") or [found]
    return any(is_object(one) and one.get("type") == "string" and "format" not in one for one in options)
