"""Servers for tests: one that many tests share, and ones to break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.serving import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a module: they use runs of their own."""
    one = Server(tmp_path_factory.mktemp("server"), "--workers", "2")
    try:
        yield one.ready()
    finally:
        one.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers of a test's own."""
    servers: list[Server] = []

    def make(*options: str, **more: Any) -> Server:
        one = Server(tmp_path, *options, **more)
        servers.append(one)
        return one

    try:
        yield make
    finally:
        for one in servers:
            one.close()
