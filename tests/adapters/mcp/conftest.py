"""A folder for servers, and a runtime in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.adapters.mcp.world import Zoo


@pytest.fixture
def zoo(tmp_path: Path) -> Zoo:
    return Zoo(tmp_path)


@pytest.fixture(autouse=True)
def quiet_sdk() -> Iterator[None]:
    """The SDK logs what misbehaving servers send."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
