"""Real processes for tests: killed as a crash kills them, and awaited without sleeping."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers import eventually

PROGRAMS = Path(__file__).parents[1] / "programs"


class Worker:
    """The program worker.py in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "runs.db"
        self._process: subprocess.Popen[str] | None = None

    def _start(self, *args: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-W", "error", str(PROGRAMS / "worker.py"), str(self.store), *args]
        return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def world(self) -> list[str]:
        """What was done outside the run, in order."""
        file = self.folder / "world.txt"
        return file.read_text().splitlines() if file.exists() else []

    async def until_waiting(self, variant: str = "plain") -> None:
        """Start run r1 in a process of its own, until it waits at the door in step 1."""
        self._process = self._start(variant)
        await eventually(lambda: self._fine() and "waiting" in self.world(), timeout=120)

    def _fine(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._process.communicate()[1]
        return True

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    async def drive(self, variant: str = "plain") -> dict[str, Any]:
        """Drive r1 in a new process until it is held or has ended: its status, holds, waiting_for."""
        process = self._start(variant, "r1")
        out, err = await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == 0, err
        found: dict[str, Any] = json.loads(out)
        return found
