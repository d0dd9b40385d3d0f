"""Every test here is run on every store. A new backend joins by one line in `STORES`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.conformance.intruding import Intruder

from standfast.abc import Store
from standfast.stores.sqlite import SqliteStore

Opener = Callable[[], Store]


def _sqlite_file(folder: Path) -> Opener:
    return lambda: SqliteStore(folder / "runs.db")


def _sqlite_memory(folder: Path) -> Opener:
    """A store in memory is one process's own: each opening is the same store."""
    one = SqliteStore(":memory:")
    return lambda: one


STORES: dict[str, Callable[[Path], Opener]] = {"sqlite-file": _sqlite_file, "sqlite-memory": _sqlite_memory}


@pytest.fixture(params=list(STORES))
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the same store again and again, as several processes would."""
    return STORES[request.param](tmp_path)


@pytest.fixture
def store(open_store: Opener) -> Iterator[Store]:
    """A store with an up-to-date schema and nothing in it."""
    opened = open_store()
    opened.create()
    yield opened
    opened.close()


@pytest.fixture
def other(open_store: Opener, store: Store) -> Iterator[Store]:
    """The same store, opened a second time."""
    opened = open_store()
    yield opened
    if opened is not store:
        opened.close()


@pytest.fixture
def intruder(store: Store) -> Iterator[Intruder]:
    one = Intruder(store)
    yield one
    one.close()
