"""One set of promises for both ways to the runs: the store file, and the server that serves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

from click.testing import CliRunner, Result
from tests.server.serving import ROOT, Server, eventually

from standfast.cli.app import standfast

ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("STANDFAST_")}


@dataclass
class Terminal:
    """A person at a terminal, who reaches the runs in one of the two ways."""

    server: Server
    way: str
    options: list[str] = field(default_factory=list[str])
    environment: dict[str, str | None] = field(default_factory=dict[str, str | None])

    def type(self, *words: str, code: int | None = 0, stdin: str | None = None) -> Result:
        """A command, in this process."""
        result = CliRunner().invoke(
            standfast, [*words, *self.options], env=self.environment, input=stdin, catch_exceptions=False
        )
        assert code is None or result.exit_code == code, f"{result.exit_code}: {result.output}"
        return result

    def json(self, *words: str, code: int = 0) -> Any:
        """A command whose answer is JSON."""
        return json.loads(self.type(*words, "--json", code=code).stdout)

    def until(self, run: str, *statuses: str) -> Any:
        return self.server.until(run, *statuses)


def terminal(server: Server, way: str) -> Terminal:
    """The terminal of somebody who has the store file, or the server's address and token."""
    clean: dict[str, str | None] = {name: None for name in os.environ if name.startswith("STANDFAST_")}
    if way == "store":
        return Terminal(server, way, ["--store", str(server.store)], clean)
    return Terminal(server, way, ["--url", server.url], {**clean, "STANDFAST_TOKEN": server.token})


def standfast_process(*words: str, cwd: Any = None, **more: Any) -> subprocess.CompletedProcess[str]:
    """A command as a shell starts it."""
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-m", "standfast.cli", *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=cwd,
        env={**environment, **more.pop("env", {})},
        **more,
    )


__all__ = ["Terminal", "eventually", "standfast_process", "terminal"]
