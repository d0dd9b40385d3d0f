"""The real SDKs' clients, against a provider on the loopback."""

from tests.models.conftest import api, server

__all__ = ["api", "server"]
