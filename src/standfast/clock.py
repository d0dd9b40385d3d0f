"""Real time and real ids; and the clock that nobody can set."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from functools import cache
from pathlib import Path

from standfast.records import Moment

_SINCE_BOOT: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


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


def uptime() -> float:
    """Seconds since the machine was started, which nobody can set back as they can the wall clock."""
    return time.clock_gettime(_SINCE_BOOT)


@cache
def boot_id() -> str:
    """What tells this machine, since it was started, from every other."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116 - Path.stat needs a Path for nothing
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text('ascii').strip()}/{namespace}"
    except OSError:
        return ""


def moment(at: float) -> Moment:
    """This moment: `at` by the wall clock, and by the one that nobody can set."""
    return Moment(at, uptime(), boot_id() or None)


def _sortable() -> str:
    return f"{int(time.time() * 1000):011x}{secrets.token_hex(5)}"
