"""A provider on the loopback, and the real SDKs' clients for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.models.apis import APIS, Api
from tests.providers.server import LoopbackProvider


@pytest.fixture
def server() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as server:
        yield server


@pytest.fixture(params=APIS)
async def api(request: pytest.FixtureRequest, server: LoopbackProvider) -> AsyncIterator[Api]:
    api = Api(request.param, server)
    yield api
    await api.close()
