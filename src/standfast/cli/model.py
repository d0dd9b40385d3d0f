"""`standfast model`: the small local model."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import time
from pathlib import Path

import click

from standfast.cli import installing
from standfast.cli.saying import size, tell
from standfast.models import weights
from standfast.models.local import LocalProvider
from standfast.replies import Counted, ProviderError, Reasoning, Request, Text, Usage


@click.group()
def model() -> None:
    """A real small model in your own process: no key, no network."""


@model.command()
def install() -> None:
    """Bring the small model into this environment; done again, it changes nothing."""
    installing.install()


@model.command(name="list")
def list_() -> None:
    """Show which models are here."""
    found = weights.installed()
    if found is None:
        tell(f"no model is installed here ({weights.INSTALL})")
        return
    path, _ = found
    try:
        checked = weights.check(path)
    except ProviderError as error:
        tell(f"{weights.model_name(path)}  damaged: {error}")
        return
    ready = importlib.util.find_spec("xllamacpp") is not None
    state = "ready" if ready else f"xllamacpp is not installed ({weights.INSTALL})"
    tell(f"{checked.name}  {size(checked.size)}  up to {checked.context} tokens  {state}  {path}")


@model.command(name="try")
@click.argument("prompt")
@click.option("--path", type=click.Path(path_type=Path), help="A GGUF file of your own.")
@click.option("--system", default="", help="Instructions for the model.")
@click.option("--max-tokens", default=512, show_default=True, type=click.IntRange(min=1), help="The longest answer.")
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(min=0), help="0: always the same.")
def try_(prompt: str, path: Path | None, system: str, max_tokens: int, temperature: float) -> None:
    """Stream an answer to PROMPT; Ctrl-C stops it at once."""
    provider = LocalProvider(path, max_tokens=max_tokens, temperature=temperature)
    usage, seconds = asyncio.run(_speak(provider, Request([{"role": "user", "content": prompt}], system=system)))
    sys.stdout.write("\n")
    speed = f", {usage.output_tokens / seconds:.0f} a second" if seconds else ""
    click.echo(f"{provider.name}: read {usage.input_tokens} tokens, said {usage.output_tokens}{speed}", err=True)


async def _speak(provider: LocalProvider, request: Request) -> tuple[Usage, float]:
    usage, began = Usage(), 0.0
    async with provider.stream(request) as deltas:
        async for delta in deltas:
            if isinstance(delta, Text | Reasoning):
                began = began or time.monotonic()
                sys.stdout.write(delta.text)
                sys.stdout.flush()
            elif isinstance(delta, Counted):
                usage = delta.usage
    return usage, time.monotonic() - began if began else 0.0
