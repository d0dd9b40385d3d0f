"""A worker process: it holds the agents' code and drives their runs until it is told to go.

Started by the control process as `python -m standfast.server.worker FD STORE MODULE:NAME ...`; the
names come from the operator's command line, never from the store.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import signal
import sys
import threading
import time
from typing import Any

from standfast.agent import Agent, as_agent
from standfast.errors import Misuse, StandfastError
from standfast.json_values import is_array
from standfast.runtime import Runtime
from standfast.server.lines import Speaker
from standfast.server.surface import About

log = logging.getLogger("standfast")
LEAVE_SECONDS = 15.0  # an orphan whose event loop is blocked goes by itself after this


def agents_of(names: list[str]) -> list[Agent[Any, Any]]:
    """The agents that `module:name` mean; a name may be an agent, something that carries one, or a list of them."""
    found: list[Agent[Any, Any]] = []
    for each in names:
        module, colon, name = each.partition(":")
        if not colon or not module or not name:
            raise Misuse(f"{each!r} names no agent", hint="write module:name, such as shop.agents:mailer")
        try:
            thing: Any = importlib.import_module(module)
        except ImportError as error:
            raise Misuse(
                f"the module of {each!r} cannot be imported: {error}",
                hint="check its name, and start the server in the folder (or environment) where it can be imported",
            ) from error
        for part in name.split("."):
            if not hasattr(thing, part):
                raise Misuse(f"there is no {name!r} in {module}", hint="write module:name of an agent in it")
            thing = getattr(thing, part)
        many: list[Any] = thing if is_array(thing) else [thing]
        found += [as_agent(one) for one in many]
    return found


class Loop:
    """Does this process's event loop turn? Asked from another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._turned = time.monotonic()
        self._asked = False

    def silent_for(self) -> float:
        """Seconds since it turned last."""
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

    speaker = Speaker(fd, alive=Loop(loop).silent_for, gone=gone)
    loop.add_signal_handler(signal.SIGTERM, leave.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is the control process's business
    speaker.start()
    agents = agents_of(names)
    runs = Runtime(store, agents, lease_seconds=lease_seconds)
    runs.hub.taps.append(speaker.delta)
    abouts = {agent.name: About.of(agent) for agent in agents}
    async with runs:
        told = {name: [about.description, list(about.models)] for name, about in abouts.items()}
        speaker.say({"ready": told})
        await leave.wait()
        speaker.say({"leaving": True})
    speaker.close()


def main(argv: list[str]) -> int:
    """The exit code: 0 if it was told to go, 78 if its agents cannot be loaded."""
    fd, lease_seconds, store, *names = argv
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - sys.path holds texts
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    logging.basicConfig(format="%(levelname)s %(message)s")
    try:
        asyncio.run(work(int(fd), store, names, float(lease_seconds)))
    except StandfastError as error:
        log.error("standfast: this worker cannot work: %s", error)
        return 78
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
