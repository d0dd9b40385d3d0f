"""A world outside the store, as several processes see it: a file to which facts are only ever added."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path


class Outside:
    """Facts, one a line: kind, run, key, process. A line is written whole or not at all."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._fd = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def happen(self, kind: str, run: str, key: str) -> None:
        os.write(self._fd, f"{kind} {run} {key} {os.getpid()}\n".encode())

    def facts(self) -> list[tuple[str, str, str, int]]:
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [(kind, run, key, int(pid)) for kind, run, key, pid in lines]

    def count(self, kind: str, run: str | None = None) -> Counter[str]:
        """How often each key met this fate."""
        return Counter(key for k, r, key, _ in self.facts() if k == kind and run in (None, r))
