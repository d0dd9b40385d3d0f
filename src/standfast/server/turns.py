"""Stops are never refused; so that nobody can keep others waiting with them, each visitor has a line of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from standfast.rates import Rate
from standfast.server.actors import Actor

AT_WORK = 8  # stops of one kind of one visitor that are being carried out
STOPS_A_SECOND, STOPS_AT_ONCE = 100.0, 500.0  # of the sockets of one visitor


@dataclass(slots=True)
class _Line:
    turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_WORK))
    there: int = 0  # at work or waiting


class Turns:
    """Few stops of one visitor are at work; the others of the same visitor wait in order, and nobody else does.

    A force may have to wait for a process to die: pauses and cancels do not wait for it.
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], _Line] = {}
        self._rate = Rate(STOPS_A_SECOND, STOPS_AT_ONCE)

    def too_many(self, actor: Actor) -> bool:
        """Has this visitor asked for so many stops that what it says next may wait a moment? Counts one more."""
        return not self._rate.allows(_key(actor))

    @asynccontextmanager
    async def one(self, actor: Actor, verb: str) -> AsyncGenerator[None]:
        """The visitor's turn to have this verb carried out."""
        key = (_key(actor), verb)
        line = self._lines.setdefault(key, _Line())
        line.there += 1
        try:
            async with line.turn:
                yield
        finally:
            line.there -= 1
            if not line.there:
                del self._lines[key]


def _key(actor: Actor) -> str:
    return actor.token or actor.name
