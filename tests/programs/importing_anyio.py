"""A program whose step is the first to import anyio, and hands work to a thread of it."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
import time
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from standfast import Done, Run, Runtime, agent

BACKEND = "anyio._backends._asyncio"
begun, ended = threading.Event(), threading.Event()


class Nothing(BaseModel):
    """The state of an agent that needs none."""


def tick() -> None:
    begun.set()
    try:
        for _ in range(2000):
            time.sleep(0.01)
    finally:
        ended.set()


@agent("direct")
async def direct(run: Run[Nothing]) -> Done[None]:
    import anyio.to_thread  # noqa: PLC0415 - not before a run needs it

    return Done(await anyio.to_thread.run_sync(tick))


class InTheWay(MetaPathFinder):
    """Is asked for anyio's backend once, when nobody before it has found it."""

    def __init__(self, act: Any) -> None:
        self._act = act

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> None:
        del path, target
        if fullname == BACKEND and self in sys.meta_path:
            sys.meta_path.remove(self)
            self._act()


def fail() -> None:
    raise ImportError("not today")


async def ask_before(how: str) -> None:
    """Somebody is interested in anyio before the step is."""
    if how == "asked":
        assert importlib.util.find_spec(BACKEND) is not None
    if how == "failed":
        sys.meta_path.insert(1, InTheWay(fail))
        try:
            import anyio._backends._asyncio  # noqa: F401, PLC0415
        except ImportError:
            return
        raise AssertionError("it was imported")


async def leave_during_the_import(db: str) -> None:
    """The only runtime leaves while anyio is being imported in another thread."""
    going, left = threading.Event(), threading.Event()

    def wait() -> None:
        going.set()
        assert left.wait(30)

    def load() -> None:
        import anyio._backends._asyncio  # noqa: F401, PLC0415

    async with Runtime(db, agents=[]):
        sys.meta_path.insert(1, InTheWay(wait))
        loading = threading.Thread(target=load)
        loading.start()
        while not going.is_set():
            await asyncio.sleep(0.01)
    left.set()
    loading.join()


def is_plain() -> bool:
    from anyio._backends._asyncio import AsyncIOBackend  # noqa: PLC0415

    plain: Any = AsyncIOBackend.__dict__["run_sync_in_worker_thread"].__func__
    return plain.__module__ == BACKEND


async def main() -> None:
    how = sys.argv[2] if len(sys.argv) > 2 else ""
    if how == "left":
        print(BACKEND in sys.modules, flush=True)
        await leave_during_the_import(f"{sys.argv[1]}-first")
        assert is_plain(), "wrapped with no runtime open"
    async with Runtime(sys.argv[1], agents=[direct]) as runs:
        if how != "left":
            print(BACKEND in sys.modules, flush=True)
        await ask_before(how)
        run = await runs.start(direct, Nothing())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        await run.cancel()
        await run.settled(timeout=120)
        print(ended.is_set(), flush=True)
    print("as before" if is_plain() else "wrapped", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
