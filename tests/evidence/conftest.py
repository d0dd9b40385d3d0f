"""One signed store for all tests of tampering, each on a copy; another for bundles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.evidence.bundling import World, make_world, take
from tests.evidence.world import Victim, make


@pytest.fixture(scope="session")
def signed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(make(tmp_path_factory.mktemp("signed")))


@pytest.fixture
def victim(signed_store: Path, tmp_path: Path) -> Iterator[Victim]:
    one = Victim(tmp_path, signed_store)
    yield one
    one.close()


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Runs of which evidence is taken; tests only add to the record of the house."""
    return asyncio.run(make_world(tmp_path_factory.mktemp("bundles")))


@pytest.fixture(scope="session")
def bundle(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of the run that was cancelled in the middle of a sentence."""
    path = tmp_path_factory.mktemp("bundle") / "talking.zip"
    asyncio.run(take(world, "talking", path))
    return path
