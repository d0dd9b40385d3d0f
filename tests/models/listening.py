"""Asking a provider outside a run, and watching what the processor does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from standfast.abc import Provider
from standfast.replies import Counted, Delta, Finished, Request, Text, Usage

STORY = "Tell me a long story about a dragon and a princess."
LONG = "word " * 2000  # minutes of reading, at the speed of a busy machine


def request(text: str = STORY, **options: Any) -> Request:
    return Request([{"role": "user", "content": text}], options=options)


@dataclass
class Heard:
    """What came of one request."""

    deltas: list[Delta] = field(default_factory=list[Delta])

    @property
    def text(self) -> str:
        return "".join(d.text for d in self.deltas if isinstance(d, Text))

    @property
    def texts(self) -> int:
        return sum(isinstance(d, Text) for d in self.deltas)

    @property
    def usage(self) -> Usage:
        return [d.usage for d in self.deltas if isinstance(d, Counted)][-1]

    @property
    def finished(self) -> Finished:
        last = self.deltas[-1]
        assert isinstance(last, Finished)
        return last


async def listen(provider: Provider, asked: Request, heard: Heard | None = None) -> Heard:
    heard = heard if heard is not None else Heard()
    async with provider.stream(asked) as deltas:
        async for delta in deltas:
            heard.deltas.append(delta)
    return heard


async def until(look: Callable[[], Any], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, f"not so within {seconds} s"
        await asyncio.sleep(0.005)


async def cut(task: asyncio.Task[Any]) -> None:
    """Cancel a task; returns when it has ended."""
    task.cancel()
    await asyncio.wait([task], timeout=60)
    assert task.cancelled()


async def busy(seconds: float = 1.0) -> float:
    """How much of one processor this process uses now: about 1 while a model speaks, 0 while nothing runs."""
    began, used = time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    return (time.process_time() - used) / (time.monotonic() - began)
