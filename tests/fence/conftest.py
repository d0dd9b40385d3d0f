from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.providers.server import LoopbackProvider

pytest.importorskip("openai")
pytest.importorskip("anthropic")


@pytest.fixture
def server() -> Iterator[LoopbackProvider]:
    with LoopbackProvider() as provider:
        yield provider
