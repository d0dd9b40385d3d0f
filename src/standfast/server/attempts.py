"""Attempts that were refused are in the record of the house, however many there are: a flood fills no disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from standfast.abc import Tx
from standfast.errors import StandfastError
from standfast.house_events import AttemptRefused
from standfast.rates import Rate
from standfast.runtime import Runtime

log = logging.getLogger("standfast")

AT_ONCE = 50  # of one actor, or of all strangers together
A_SECOND = 0.1  # after that: the others are counted
GATHER = 0.05
STRANGERS = "strangers"
MOST_ACTORS = 1_000
LONGEST = 300


@dataclass(slots=True)
class _LeftOut:
    last: AttemptRefused
    count: int


class Attempts:
    """Writes refused attempts soon after they were made, and says how many it left out."""

    def __init__(self, runs: Runtime) -> None:
        self._runs = runs
        self._rate = Rate(A_SECOND, AT_ONCE)
        self._waiting: list[AttemptRefused] = []
        self._left_out: dict[str, _LeftOut] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def refused(self, by: str | None, route: str, what: str, run: str | None, why: str) -> None:
        """Somebody tried what they may not do; `by` None: nobody knows who."""
        event = AttemptRefused(
            by=by,
            route=route if len(route) <= LONGEST else route[:LONGEST],
            what=what[:LONGEST],
            run=run and run[:LONGEST],
            why=why[:LONGEST],
        )
        who = by or STRANGERS
        if who not in self._left_out and len(self._left_out) >= MOST_ACTORS:
            who = STRANGERS
        if self._rate.allows(who):
            missed = self._left_out.pop(who, None)
            event.left_out = missed.count if missed is not None else 0
            self._waiting.append(event)
        else:
            known = self._left_out.setdefault(who, _LeftOut(event, 0))
            known.last, known.count = event, known.count + 1
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write(), name="standfast attempts")

    async def _write(self) -> None:
        while self._waiting or self._left_out:
            await self._pause(GATHER)
            self._tell_left_out(all_of_them=self._closing.is_set())
            if self._waiting:
                some, self._waiting = self._waiting, []
                await self._keep(some)
            elif self._left_out:
                await self._pause(1.0)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return

    def _tell_left_out(self, *, all_of_them: bool) -> None:
        """What was left out is told with its count, once the actor may be written of again."""
        for who, missed in list(self._left_out.items()):
            if all_of_them or self._rate.allows(who):
                del self._left_out[who]
                self._waiting.append(replace(missed.last, left_out=missed.count - 1))

    async def _keep(self, events: Sequence[AttemptRefused]) -> None:
        def note(tx: Tx) -> None:
            tx.note(*events)

        try:
            self._runs.read(lambda _: None)  # strangers make no store
            await self._runs.control(note)
        except StandfastError as error:
            log.error("standfast: %d refused attempts could not be recorded: %s", len(events), error)

    async def close(self) -> None:
        """Everything that was refused is written."""
        self._closing.set()
        if self._task is not None:
            await asyncio.wait([self._task])
