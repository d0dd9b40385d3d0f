"""What a tool does to the world, read from its annotations.

| annotations | effect |
|---|---|
| readOnlyHint | read |
| idempotentHint | idempotent |
| destructiveHint, said and true | irreversible: a person is asked first |
| anything else, or nothing | write |

The first line that fits counts. A hint that is not given counts as nothing: the protocol's default for
destructiveHint is true, which would have every tool of every careless server ask.
"""

from __future__ import annotations

from standfast.json_values import is_object
from standfast.records import Effect, Json


def effect_of(tool: Json) -> Effect:
    """The effect that a tool's annotations declare."""
    hints = tool.get("annotations")
    if not is_object(hints):
        return "write"
    if hints.get("readOnlyHint") is True:
        return "read"
    if hints.get("idempotentHint") is True:
        return "idempotent"
    return "irreversible" if hints.get("destructiveHint") is True else "write"
