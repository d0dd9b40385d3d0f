"""The model the demo agents think with: the real small one where it is installed, else one that says fixed lines.

Its name says which: `SmolLM2-135M-Instruct`, or `scripted`. $STANDFAST_DEMO_MODEL (local or scripted) decides for you.
"""

from __future__ import annotations

import importlib.util
import os

from examples.agents.world import pace

from standfast import models
from standfast.models import Line, Model, weights


def has_local_model() -> bool:
    """Is `models.local` ready here? Looks for its parts, loads nothing."""
    return importlib.util.find_spec("xllamacpp") is not None and weights.installed() is not None


def thinker(*lines: Line, most_tokens: int = 160) -> Model:
    """A model for a demo; `lines` are what the scripted one says, again and again."""
    wanted = os.environ.get("STANDFAST_DEMO_MODEL") or ("local" if has_local_model() else "scripted")
    if wanted == "local":
        return models.local(max_tokens=most_tokens)
    return models.scripted(*lines, delay=0.05 * pace(), again=True)
