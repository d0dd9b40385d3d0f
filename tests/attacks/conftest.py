"""Real servers to be attacked."""

from __future__ import annotations

from tests.server.conftest import serve, server  # noqa: F401 - fixtures
