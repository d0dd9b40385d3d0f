"""Small things that many tests need."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from standfast import Handle, RunView, StoreBusy

T = TypeVar("T")


def pauses() -> Iterator[float]:
    """Seconds between looks at what takes as long as it takes: soon again at first, then ever less often.

    Every look costs those time that are looked at, and whoever else is on the machine.
    """
    pause = 0.005
    while True:
        yield pause
        pause = min(1.2 * pause, 0.05)


async def eventually(look: Callable[[], Any], timeout: float = 120) -> Any:
    """The first truthy value of `look()` (awaited if need be); fails after `timeout` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    for pause in pauses():
        found = look()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert loop.time() < end, f"not so within {timeout} s"
        await asyncio.sleep(pause)
    raise AssertionError


async def held(run: Handle[Any], *holds: str) -> RunView:
    """The view, once the run is paused with exactly these holds."""
    async with asyncio.timeout(120):
        for pause in pauses():
            view = await run.view()
            if view.status == "paused" and set(view.holds) == set(holds):
                return view
            assert view.status not in ("done", "cancelled", "failed"), view
            await asyncio.sleep(pause)
    raise AssertionError


async def patiently(ask: Callable[[], Awaitable[T]], timeout: float = 120) -> T:
    """What is asked of a store that another process writes to: asked again while it is locked, as its error says.

    A pause between the tries leaves the processor, and the lock, to whoever has them.
    """
    end = asyncio.get_running_loop().time() + timeout
    while True:
        try:
            return await ask()
        except StoreBusy:
            if asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(0.05)


@contextmanager
def database(path: Path | str, **options: Any) -> Iterator[sqlite3.Connection]:
    """A store's file, for whoever goes behind standfast's back: committed and closed at the end.

    `with sqlite3.connect(...)` only commits; Python 3.13 warns of what is left open, in whatever test comes next.
    """
    with closing(sqlite3.connect(path, **options)) as db, db:
        yield db
