"""Models: `openai`, `anthropic`, `local`, and `scripted` for tests. Each gives a Model to call in one's own loop."""

from __future__ import annotations

from os import PathLike
from typing import Any

from standfast.models.calling import RETRIES, Model
from standfast.models.local import LocalProvider
from standfast.models.scripted import Line, ScriptedModel, ScriptedProvider, Think, Use, script, use
from standfast.replies import ProviderError, Reply, ToolCall, Usage

__all__ = [
    "Line",
    "LocalProvider",
    "Model",
    "ProviderError",
    "Reply",
    "ScriptedModel",
    "Think",
    "ToolCall",
    "Usage",
    "Use",
    "local",
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


def local(
    path: str | PathLike[str] | None = None,
    *,
    context: int = 4096,
    max_tokens: int = 512,
    temperature: float = 0.0,
    threads: int = 1,
    retries: int = RETRIES,
) -> Model:
    """A real small model in this process, the same answer to the same question; `standfast model install` brings it.

    `path` is a GGUF file of your own. Models of the same weights share memory and take turns.
    """
    provider = LocalProvider(path, context=context, max_tokens=max_tokens, temperature=temperature, threads=threads)
    return Model(provider, retries=retries)
