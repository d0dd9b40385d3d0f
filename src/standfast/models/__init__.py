"""Models: `openai`, `anthropic`, `local`, and `scripted` for tests. Each gives a Model to call in one's own loop."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from standfast.errors import Misuse
from standfast.models.calling import RETRIES, Model
from standfast.models.local import LocalProvider
from standfast.models.scripted import Line, ScriptedModel, ScriptedProvider, Think, Use, script, use
from standfast.replies import ProviderError, Reply, ToolCall, Usage

if TYPE_CHECKING:  # their packages are extras
    from anthropic import Anthropic, AsyncAnthropic
    from openai import AsyncOpenAI, OpenAI

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
    "anthropic",
    "local",
    "openai",
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


def openai(
    model: str,
    client: AsyncOpenAI | OpenAI | None = None,
    *,
    api: Literal["chat", "responses"] = "chat",
    price: tuple[float, float] | None = None,
    retries: int = RETRIES,
    **options: Any,
) -> Model:
    """A model behind OpenAI's API, or behind any server that speaks it (give a client with that base_url).

    Without a client, the SDK's own: OPENAI_API_KEY, OPENAI_BASE_URL. `price` is for a million input and a million
    output tokens, for the budget's cost. Options (`temperature=0`) go with every request.
    """
    from standfast.models.openai_chat import OpenAIChat  # noqa: PLC0415 - the SDK is an extra
    from standfast.models.openai_responses import OpenAIResponses  # noqa: PLC0415

    if api not in ("chat", "responses"):
        raise Misuse(f"api={api!r} is no API of OpenAI's that standfast speaks", hint='give "chat" or "responses"')
    kind = OpenAIChat if api == "chat" else OpenAIResponses
    return Model(kind(model, client=client, price=price, options=options), retries=retries)


def anthropic(
    model: str,
    client: AsyncAnthropic | Anthropic | None = None,
    *,
    price: tuple[float, float] | None = None,
    retries: int = RETRIES,
    **options: Any,
) -> Model:
    """A model behind Anthropic's API.

    Without a client, the SDK's own: ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL. `price` is for a million input and a
    million output tokens, for the budget's cost. Options go with every request; `max_tokens` is 8192 if not given.
    """
    from standfast.models.anthropic_messages import AnthropicMessages  # noqa: PLC0415 - the SDK is an extra

    return Model(AnthropicMessages(model, client=client, price=price, options=options), retries=retries)


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
