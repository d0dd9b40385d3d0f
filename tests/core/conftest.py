"""A test begins in a fresh world, and leaves no door shut."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.core import remembering, sending


@pytest.fixture
async def fresh_worlds() -> AsyncIterator[None]:
    for module in (sending, remembering):
        vars(module.world).update(vars(module.World()))
    yield
    for module in (sending, remembering):
        module.world.door.set()
