"""Models: `openai`, `anthropic`, `local`, and `scripted` for tests. Each gives a Model to call in one's own loop."""

from __future__ import annotations

from typing import Any

from standfast.models.calling import RETRIES, Model
from standfast.models.scripted import Line, ScriptedModel, ScriptedProvider, Think, Use, script, use
from standfast.replies import ProviderError, Reply, ToolCall, Usage

__all__ = [
    "Line",
    "Model",
    "ProviderError",
    "Reply",
    "ScriptedModel",
    "Think",
    "ToolCall",
    "Usage",
    "Use",
    "scripted",
    "use",
]


def scripted(
    *lines: Any, name: str = "scripted", delay: float = 0.0, again: bool = False, retries: int = RETRIES
) -> ScriptedModel:
    """A model that says these lines, one a reply: `scripted("Let me see.", use("search", q="x"), "It is 42.")`.

    A tuple is one reply of several parts; one list alone is the whole script. `delay` is the time between words;
    `again` begins anew after the last line.
    """
    return ScriptedModel(ScriptedProvider(script(lines), name=name, delay=delay, again=again), retries=retries)
