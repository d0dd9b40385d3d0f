"""Where the demo agents leave their marks: a folder of their own, so that people can see every effect."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path


def folder() -> Path:
    """`standfast-demo` here, or what $STANDFAST_DEMO_FOLDER says."""
    return Path(os.environ.get("STANDFAST_DEMO_FOLDER") or "standfast-demo")


def place(*parts: str) -> Path:
    """A path in that folder, whose own folder is there."""
    path = folder().joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def pace() -> float:
    """How slowly the demo goes: 1 is right for people, 0 for tests ($STANDFAST_DEMO_PACE)."""
    return float(os.environ.get("STANDFAST_DEMO_PACE") or 1)


async def take_time(seconds: float) -> None:
    """As long as such a thing takes in the world."""
    await asyncio.sleep(seconds * pace())
