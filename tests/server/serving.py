"""A real server on loopback, with real workers, that tests can talk to, freeze and kill."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from tests.helpers import pauses
from websockets.sync.client import ClientConnection, connect

ROOT = Path(__file__).parents[2]
LONG = 60.0  # a hang guard, not an expectation


def eventually(look: Callable[[], Any], timeout: float = LONG) -> Any:
    """The first truthy value of `look()`."""
    end = time.monotonic() + timeout
    for pause in pauses():
        found = look()
        if found:
            return found
        assert time.monotonic() < end, "not so in time"
        time.sleep(pause)
    raise AssertionError


class Server:
    """`standfast serve` as an operator starts it."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        agents: tuple[str, ...] = ("tests.programs.served:AGENTS",),
        store: Path | None = None,
    ) -> None:
        self.folder = folder
        self.store = store or folder / "runs.db"
        self.log = folder / "server.log"
        environment = dict(os.environ)
        if "--token" in options:  # a server takes it from its environment: every process reads command lines
            at = options.index("--token")
            environment["STANDFAST_TOKEN"] = options[at + 1]
            options = (*options[:at], *options[at + 2 :])
        argv = [sys.executable, "-W", "error::ResourceWarning", "-m", "standfast.cli", "serve", *agents]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*argv, "--store", str(self.store), "--port", "0", *options],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=environment,
                text=True,
                start_new_session=True,
            )
        self.said: list[str] = []
        self.url = self._line(r"standfast: (\S+)/$")
        self.token = environment.get("STANDFAST_TOKEN", "")
        if not self.token and "--token-file" not in options:
            self.token = self._line(r"token: (\S+)$")
        if "--token-file" in options:
            self.token = Path(options[options.index("--token-file") + 1]).read_text().strip()
        self._line("store: ")
        self.http = httpx2.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=LONG, verify=False
        )

    def _line(self, pattern: str) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.said.append(line)
        found = re.search(pattern, line)
        assert found, f"{line!r}; {self.log.read_text()}"
        return found.group(found.lastindex or 0)

    # --- talking to it ------------------------------------------------------------------------------------------

    def ready(self) -> Server:
        eventually(lambda: self.http.get("/readyz").status_code == 200)
        return self

    def get(self, path: str, status: int = 200, **options: Any) -> Any:
        answer = self.http.get(path, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int | None = 200, **options: Any) -> Any:
        answer = self.http.post(path, json={} if body is None else body, **options)
        assert status is None or answer.status_code == status, answer.text
        return answer.json()

    def start(self, agent: str, run: str, **state: Any) -> str:
        self.post("/api/runs", {"agent": agent, "state": state, "id": run}, status=201)
        return run

    def view(self, run: str) -> Any:
        return self.get(f"/api/runs/{run}")

    def until(self, run: str, *statuses: str) -> Any:
        def look() -> Any:
            view = self.view(run)
            return view if view["status"] in statuses else None

        return eventually(look)

    def events(self, run: str) -> list[Any]:
        """The whole record."""
        found: list[Any] = []
        while page := self.get(f"/api/runs/{run}/record", params={"after": found[-1]["seq"] if found else 0})["events"]:
            found += page
        return found

    @contextmanager
    def socket(self, **options: Any) -> Iterator[Socket]:
        headers = options.pop("headers", {"Authorization": f"Bearer {self.token}"})
        with connect(self.url.replace("http", "ws", 1) + "/ws", additional_headers=headers, **options) as raw:
            yield Socket(raw)

    def workers(self) -> list[int]:
        """The pids of the workers."""
        body = self.http.get("/readyz").json()
        return [each["pid"] for each in body["workers"] if each["pid"]]

    # --- ending it ------------------------------------------------------------------------------------------------

    def terminate(self) -> float:
        """SIGTERM; how long it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LONG) == 0, self.log.read_text()
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9, of the control process alone."""
        self.process.kill()
        self.process.wait(LONG)

    def close(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(LONG)
        assert self.process.stdout is not None
        self.process.stdout.close()
        for pid in (*leftovers(self.store), *leftovers(self.store, "standfast.operator")):
            try:
                os.killpg(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def leftovers(store: Path, module: str = "standfast.server.worker") -> list[int]:
    """Processes of this store that are still there: its workers, or those of another module."""
    found: list[int] = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                words = Path(entry.path, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if module.encode() in words and str(store).encode() in words:
                found.append(int(entry.name))
    return found


class Socket:
    """A page's socket."""

    def __init__(self, raw: ClientConnection) -> None:
        self.raw = raw
        self.hello = self.next("hello")
        self._n = 0
        self.events: list[Any] = []
        self.deltas: list[Any] = []

    def say(self, **op: Any) -> None:
        self.raw.send(json.dumps(op))

    def read(self) -> Any:
        said = json.loads(self.raw.recv(timeout=LONG))
        if said["op"] == "event":
            self.events.append(said["event"])
        elif said["op"] == "delta":
            self.deltas.append(said["delta"])
        return said

    def next(self, op: str) -> Any:
        while True:
            said = json.loads(self.raw.recv(timeout=LONG)) if op == "hello" else self.read()
            if said["op"] == op:
                return said

    def verb(self, verb: str, run: str | None = None, **args: Any) -> Any:
        """Its answer, or its problem."""
        self._n += 1
        self.say(op="verb", n=self._n, run=run, verb=verb, args=args)
        while True:
            said = self.next("answer")
            if said["n"] == self._n:
                return said.get("answer") or said["problem"]

    def until_event(self, kind: str) -> Any:
        while True:
            event = self.next("event")["event"]
            if event["type"] == kind:
                return event
