"""A state with a log, and a world with a door that a test opens."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from standfast import Log, tool


class Mem(BaseModel):
    n: int = 0
    seen: list[Any] = []
    chat: Log[str] = Log()


class World:
    def __init__(self) -> None:
        self.now_running = 0
        self.most_running = 0
        self.seen: list[Any] = []
        self.door = asyncio.Event()


world = World()  # made anew for every test, in conftest.py


@tool(effect="read")
async def wait_outside() -> str:
    await world.door.wait()
    return "in"
