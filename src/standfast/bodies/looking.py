"""Looking at all processes takes a while: the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def in_a_thread(look: Callable[[], T]) -> T:
    """What `look` gives, in a thread of its own: those of asyncio may all be taken by code that hangs."""
    own = ThreadPoolExecutor(1, thread_name_prefix="standfast-looking")
    try:
        looking = asyncio.wrap_future(own.submit(look))  # the driver's own: no call is to wait for it
    except RuntimeError:  # no more threads: a stop must not fail for that
        return look()
    finally:
        own.shutdown(wait=False)
    return await looking
