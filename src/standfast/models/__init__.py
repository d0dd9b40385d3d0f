"""Models: `openai`, `anthropic`, `local`, and `scripted` for tests. Each gives a Model to call in one's own loop."""

from __future__ import annotations

from typing import Any

from standfast.models.calling import Model
from standfast.models.scripted import Line, ScriptedProvider, Think, Use, script, use
from standfast.replies import ProviderError, Reply, ToolCall, Usage

__all__ = [
    "Line",
    "Model",
    "ProviderError",
    "Reply",
    "Think",
    "ToolCall",
    "Usage",
    "Use",
    "scripted",
    "use",
]


def scripted(*lines: Any, name: str = "scripted", delay: float = 0.0, again: bool = False, retries: int = 4) -> Model:
    """A model that says these lines, one a reply: `scripted("Let me see.", use("search", q="x"), "It is 42.")`.

    A list is one reply of several parts. `delay` is the time between words; `again` begins anew after the last line.
    """
    return Model(ScriptedProvider(script(lines), name=name, delay=delay, again=again), retries=retries)
