"""A real operator's process that tests can talk to, freeze and kill."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tests.server.serving import LONG, ROOT, eventually

from standfast.cli.app import standfast
from standfast.operator.client import socket_of

ALL = {"do": "halt", "all": True, "reason": "leaking", "by": "op"}


class Operator:
    """`standfast operator --store FILE`."""

    def __init__(self, store: Path, *options: str, token: str = "") -> None:
        self.store = store
        self.path = socket_of(store)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STANDFAST_")}
        if token:
            environment["STANDFAST_HALT_TOKEN"] = token
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "standfast.cli", "operator", "--store", str(store), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            env=environment,
        )
        self.said: list[str] = []
        assert self.process.stdout is not None
        while not self.said or not self.said[-1].startswith("operator: "):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()[1]
            self.said.append(line.strip())

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def close(self) -> str:
        """End it in good order; what it complained of."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        return self.process.communicate(timeout=LONG)[1]


@contextmanager
def operator(store: Path, *options: str, token: str = "") -> Iterator[Operator]:
    """An operator that has nothing to complain of."""
    one = Operator(store, *options, token=token)
    try:
        yield one
    finally:
        complaints = one.close()
    assert complaints == ""


def raw(path: Path, what: bytes, *, seconds: float = LONG) -> bytes:
    """Whatever comes back for whatever is sent."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as to:
        to.settimeout(seconds)
        to.connect(str(path))
        to.sendall(what)
        got = b""
        while more := to.recv(65536):
            got += more
        return got


def asked(path: Path, request: Any) -> Any:
    return json.loads(raw(path, json.dumps(request).encode() + b"\n"))


def typed(*words: str, code: int | None = 0, env: dict[str, str] | None = None) -> str:
    """A command, in this process."""
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("STANDFAST_")}
    result = CliRunner().invoke(standfast, [*words], env={**clean, **(env or {})}, catch_exceptions=False)
    assert code is None or result.exit_code == code, f"{result.exit_code}: {result.output}"
    return result.output


def typed_json(*words: str, code: int = 0, env: dict[str, str] | None = None) -> Any:
    return json.loads(typed(*words, "--json", code=code, env=env))


__all__ = ["ALL", "LONG", "Operator", "asked", "eventually", "operator", "raw", "typed", "typed_json"]
