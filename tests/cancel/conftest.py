"""Fixtures of the tests of cancelling."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A store of its own for each test."""
    return str(tmp_path / "runs.db")
