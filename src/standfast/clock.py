"""Real time and real ids."""

from __future__ import annotations

import asyncio
import secrets
import time


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def back_off(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    """Ids that nobody can guess and that sort by time."""

    def run(self) -> str:
        return f"run-{_sortable()}"

    def mail(self) -> str:
        return f"mail-{_sortable()}"

    def process(self) -> str:
        return f"driver-{secrets.token_hex(6)}"

    def halt(self) -> str:
        return f"halt-{secrets.token_hex(4)}"


def _sortable() -> str:
    return f"{int(time.time() * 1000):011x}{secrets.token_hex(5)}"
