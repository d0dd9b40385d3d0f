"""The server as an operator starts it, and the bare one beside it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

LIMIT = 60.0  # against hangs


def until(look: Callable[[], Any], what: str, limit: float = LIMIT) -> Any:
    """The first truthy value of `look()`."""
    end = time.monotonic() + limit
    while not (found := look()):
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not so within {limit:.0f} s")
        time.sleep(0.02)
    return found


class Server:
    """`standfast serve`, with one worker."""

    def __init__(self, folder: Path) -> None:
        argv = [sys.executable, "-m", "standfast.server", "bench.server.agents:AGENTS"]
        self._log = (folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [*argv, "--store", str(folder / "runs.db"), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self.url = self._line(r"standfast: (\S+)/$")
        self.token = self._line(r"token: (\S+)$")
        self.http = httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=LIMIT, trust_env=False
        )
        until(lambda: self.http.get("/readyz").status_code == 200, "the server is ready")

    def _line(self, pattern: str) -> str:
        assert self._process.stdout is not None
        found = re.search(pattern, line := self._process.stdout.readline())
        if found is None:
            raise SystemExit(f"the server said {line!r}")
        return found.group(1)

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/ws"

    def start(self, agent: str, **state: Any) -> str:
        answer = self.http.post("/api/runs", json={"agent": agent, "state": state})
        answer.raise_for_status()
        return str(answer.json()["id"])

    def view(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/api/runs/{run}").json()
        return found

    def running(self, run: str) -> dict[str, Any] | None:
        """Its view, once it is driven."""
        view = self.view(run)
        return view if view["status"] == "running" else None

    def done(self, runs: set[str]) -> set[str]:
        """Those of them that are done."""
        found = self.http.get("/api/runs", params={"status": "done", "limit": 1000}).json()["runs"]
        return runs & {view["id"] for view in found}

    def memory(self) -> int:
        """Resident bytes of the control process."""
        return resident(self._process.pid)

    def worker_memory(self) -> int:
        """Resident bytes of its worker."""
        return sum(resident(each["pid"]) for each in self.http.get("/readyz").json()["workers"])

    def close(self) -> None:
        self.http.close()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._log.close()


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@contextmanager
def server(directory: Path) -> Iterator[Server]:
    """A new one, with a new store."""
    with tempfile.TemporaryDirectory(dir=directory, ignore_cleanup_errors=True) as folder:
        one = Server(Path(folder))
        try:
            yield one
        finally:
            one.close()


@contextmanager
def bare_server() -> Iterator[httpx2.Client]:
    """A Starlette app that answers a POST, in a process of its own."""
    process = subprocess.Popen([sys.executable, "-m", "bench.server.bare"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with httpx2.Client(base_url=url, timeout=LIMIT, trust_env=False) as client:
        try:
            yield client
        finally:
            process.terminate()
            process.wait(30)
            process.stdout.close()


@contextmanager
def pages(server: Server, runs: list[str], count: int) -> Iterator[None]:
    """Pages of other people, in a process of their own: half look at the list, half at a run."""
    if not count:
        yield
        return
    given = {"url": server.socket_url, "token": server.token, "runs": runs, "count": count}
    command = [sys.executable, "-m", "bench.server.pages", json.dumps(given)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    if process.stdout.readline().strip() != "open":
        raise SystemExit(f"the pages ended with {process.wait(30)}")
    try:
        yield
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()
