"""The operator's process beside a server: started, looked after, and left running if the server dies (R34)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

from standfast.operator.client import socket_of
from standfast.server.limits import HALT_TOKEN, without_secrets

log = logging.getLogger("standfast")

LOOK_SECONDS = 1.0
LEAVE_SECONDS = 3.0


class OperatorProcess:
    """Keeps one operator of a store running; another server's will do as well."""

    def __init__(self, store: Path, port: int | None, token: str | None) -> None:
        self._store = store
        self._port = port
        self._token = token
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """From now on there is one."""
        self._begin()
        self._keeper = asyncio.create_task(self._keep(), name="standfast operator")

    async def close(self) -> None:
        """The server goes in good order, and takes its operator along."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _begin(self) -> None:
        port = [] if self._port is None else ["--port", str(self._port)]
        environment = without_secrets()
        if self._token is not None:
            environment[HALT_TOKEN] = self._token  # not on the command line, where every process reads it
        self._process = subprocess.Popen(  # a session of its own: Ctrl-C at the server's terminal is not for it
            [sys.executable, "-m", "standfast.operator", str(self._store), "--server", str(os.getpid()), *port],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            assert self._process is not None
            ended = self._process.poll()
            if ended is None or self._answers():
                continue
            if ended == 1:
                log.error("standfast: there is no operator's socket; `standfast halt` works straight on the store")
                return
            self._begin()

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as to:
            to.settimeout(LOOK_SECONDS)
            try:
                to.connect(str(socket_of(self._store)))
            except OSError:
                return False
            return True
