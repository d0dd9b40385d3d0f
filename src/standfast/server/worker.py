"""A worker process: it holds the agents' code and drives their runs until it is told to go.

Started by the control process as `python -m standfast.server.worker FD STORE MODULE:NAME ...`; the
names come from the operator's command line, never from the store.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time

from standfast.errors import StandfastError, StoreError
from standfast.loading import agents_named
from standfast.redaction import Redactor, of_environment
from standfast.runtime import Runtime
from standfast.server.about import About
from standfast.server.lines import NO_AGENTS, NO_STORE, Speaker
from standfast.server.logs import log_to_stderr

log = logging.getLogger("standfast")
LEAVE_SECONDS = 15.0  # an orphan whose event loop is blocked goes by itself after this


class Loop:
    """Does this process's event loop turn? Asked from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turned = time.monotonic()
        self._asked = False

    def silent_for(self) -> float:
        """Seconds since it turned last; asking makes it turn."""
        if not self._asked and not self._loop.is_closed():
            self._asked = True
            self._loop.call_soon_threadsafe(self._turn)
        return round(time.monotonic() - self._turned, 3)

    def _turn(self) -> None:
        self._asked = False
        self._turned = time.monotonic()


async def work(fd: int, store: str, names: list[str], lease_seconds: float) -> None:
    """Drive until SIGTERM, or until the control process is gone."""
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()

    def gone() -> None:
        log.warning("standfast: the control process is gone, this worker leaves too")
        loop.call_soon_threadsafe(leave.set)
        timer = threading.Timer(LEAVE_SECONDS, os._exit, (70,))
        timer.daemon = True
        timer.start()

    turning = Loop(loop)
    runs: Runtime | None = None

    def alive() -> tuple[float, str, str]:
        if runs is None:
            return turning.silent_for(), "", ""
        return turning.silent_for(), runs.blocked_by, runs.storage

    speaker = Speaker(fd, alive=alive, gone=gone)
    loop.add_signal_handler(signal.SIGTERM, leave.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is the control process's business
    speaker.start()
    agents = agents_named(names)
    runs = Runtime(store, agents, lease_seconds=lease_seconds)
    runs.hub.taps.append(speaker.delta)
    abouts = {agent.name: About.of(agent) for agent in agents}
    try:
        async with runs:
            told = {name: [about.description, list(about.models), about.instructions] for name, about in abouts.items()}
            speaker.say({"ready": told})
            await leave.wait()
            speaker.say({"leaving": True})
    except StoreError as error:
        speaker.say({"cannot": f"it could not use the store: {error}"})
        raise
    finally:
        speaker.close()


def main(argv: list[str]) -> int:
    """The exit code: 0 if it was told to go, 78 if its agents cannot be loaded, 74 if the store cannot be used."""
    fd, lease_seconds, store, *names = argv
    log_to_stderr(Redactor(*of_environment(os.environ)))
    try:
        asyncio.run(work(int(fd), store, names, float(lease_seconds)))
    except StoreError as error:
        log.error("standfast: this worker cannot use the store: %s", error)
        return NO_STORE
    except StandfastError as error:
        log.error("standfast: this worker cannot work: %s", error)
        return NO_AGENTS
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
