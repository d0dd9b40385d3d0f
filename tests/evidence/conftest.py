"""One signed store for all tests of tampering; each works on a copy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.evidence.world import Victim, make


@pytest.fixture(scope="session")
def signed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return asyncio.run(make(tmp_path_factory.mktemp("signed")))


@pytest.fixture
def victim(signed_store: Path, tmp_path: Path) -> Iterator[Victim]:
    one = Victim(tmp_path, signed_store)
    yield one
    one.close()
