"""The openai package, if it is there."""

from __future__ import annotations

from standfast.errors import Misuse
from standfast.models.sdk_errors import Sdk


def openai_sdk() -> Sdk:
    """The SDK; Misuse says how to get it."""
    try:
        import openai  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise Misuse(
            "models.openai needs the openai package, which is not here", hint="pip install 'standfast[openai]'"
        ) from error
    return Sdk("openai", openai, openai.OpenAIError, "OPENAI_API_KEY")
