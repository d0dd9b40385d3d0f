"""A server to be tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.serving import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One of its own for each try: what a try did to its runs is the past of the next."""
    one = Server(tmp_path, "--workers", "1").ready()
    try:
        yield one
    finally:
        one.close()
