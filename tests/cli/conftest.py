"""A server with workers for the commands, reached through its store file and over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest
from tests.cli.places import Terminal, terminal
from tests.server.serving import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all: tests use runs of their own."""
    one = Server(tmp_path_factory.mktemp("cli"), "--workers", "1")
    try:
        yield one.ready()
    finally:
        one.close()


@pytest.fixture(params=["store", "server"])
def shell(server: Server, request: pytest.FixtureRequest) -> Terminal:
    """Every test that uses it runs twice: on the store file, and on the server."""
    return terminal(server, request.param)


_numbers = itertools.count()


@pytest.fixture
def new_id() -> Callable[[str], str]:
    """Ids that no other test uses."""
    return lambda name: f"{name}-{next(_numbers)}"
