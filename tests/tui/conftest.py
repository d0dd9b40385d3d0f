"""The app on a store that this process drives, and on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs import watched
from tests.server.serving import Server

from standfast import Runtime
from standfast.cli.options import Place
from standfast.tui.app import WatchApp


@pytest.fixture
async def runs(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with Runtime(tmp_path / "runs.db", watched.AGENTS) as open_runs:
        yield open_runs


@pytest.fixture
def watching(tmp_path: Path) -> Callable[..., WatchApp]:
    """The app on the store of `runs`."""
    return lambda run=None: WatchApp(Place(store=tmp_path / "runs.db", by="ann").open, run)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("tui"), agents=("tests.programs.watched:AGENTS",))
    try:
        yield one.ready()
    finally:
        one.close()


@pytest.fixture
def watching_server(server: Server) -> Callable[..., Any]:
    return lambda run=None: WatchApp(Place(url=server.url, token=server.token).open, run)
