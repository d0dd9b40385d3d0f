"""A real server in processes of its own, and a wire to it that a test can cut or hold up."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-for-the-browser-tests"
PATIENCE = 60.0


def wait_for(look: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """The first truthy value of `look()`."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not so within {patience} s")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Server:
    """`standfast serve` with the agents of these tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        log = (self.folder / "server.log").open("ab")
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "standfast.server", "tests.browser.agents:AGENTS"),
                *("--store", str(self.folder / "runs.db"), "--port", str(self.port)),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths, "STANDFAST_TEST_WORLD": str(self.folder), "STANDFAST_TOKEN": TOKEN},
            stdout=log,
            stderr=log,
        )
        log.close()
        wait_for(self._ready, "the server is ready")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)
            raise

    def restart(self) -> None:
        self.stop()
        self.start()

    def _ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "server.log").read_text()
        try:
            return len(self.api("GET", "/api/agents")["agents"]) > 5
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Ask it directly."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            raw = answer.read()
        return json.loads(raw) if raw else None

    # --- what tests do -----------------------------------------------------------------------------------

    def command(self, *words: str) -> str:
        """What a command says of this store."""
        typed = [sys.executable, "-m", "standfast.cli", *words, "--store", str(self.folder / "runs.db")]
        return subprocess.run(typed, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout

    def begin(self, agent: str, state: dict[str, Any] | str | None = None, **more: Any) -> str:
        return str(
            self.api("POST", "/api/runs", {"agent": agent, "state": {} if state is None else state, **more})["id"]
        )

    def view(self, run: str) -> Any:
        return self.api("GET", f"/api/runs/{run}")

    def verb(self, run: str, verb: str, **arguments: Any) -> Any:
        return self.api("POST", f"/api/runs/{run}/{verb}", arguments)

    def until(self, run: str, is_so: Callable[[Any], bool], what: str = "") -> Any:
        def look() -> Any:
            view = self.view(run)
            return view if is_so(view) else None

        return wait_for(look, what or f"run {run}")

    def until_calls(self, run: str, tool: str) -> Any:
        return self.until(run, lambda v: any(c["tool"] == tool for c in v["in_flight"]), f"{run} calls {tool}")

    def until_is(self, run: str, *statuses: str) -> Any:
        return self.until(run, lambda v: v["status"] in statuses, f"{run} is {statuses}")

    def open_door(self, name: str) -> None:
        (self.folder / name).touch()


class Wire:
    """A TCP wire to the server: `cut()` drops every connection and takes no new one, `hold()` lets nothing through."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._open = True
        self._flows = threading.Event()
        self._flows.set()
        self._pairs: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        self._open = False
        with self._lock:
            for one in self._pairs:
                _shut(one)

    def mend(self) -> None:
        self._open = True

    def hold(self) -> None:
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def close(self) -> None:
        self.release()
        _shut(self._listener)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _begin(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if not self._open:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._to), timeout=10)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._begin(self._carry, near, far)

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        with self._lock:
            self._pairs |= {near, far}
        try:
            while True:
                ready, _, _ = select.select([near, far], [], [], 1.0)
                for one in ready:
                    data = one.recv(65536)
                    if not data:
                        return
                    self._flows.wait()
                    (far if one is near else near).sendall(data)
        except OSError:
            return  # cut
        finally:
            with self._lock:
                self._pairs -= {near, far}
            near.close()
            far.close()


def _shut(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was closed already
