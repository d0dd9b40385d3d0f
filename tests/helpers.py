"""Small things that many tests need."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def eventually(look: Callable[[], Any], timeout: float = 10) -> Any:
    """The first truthy value of `look()` (awaited if need be); fails after `timeout` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while True:
        found = look()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert loop.time() < end, f"not so within {timeout} s"
        await asyncio.sleep(0.01)
