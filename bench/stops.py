"""W4: how long after *accepted* work that may be cut at once has really stopped.

The work itself says that it is alive, by writing the time into a shared page as fast as
it can; its last word is what counts, not what the runtime believes.
"""

from __future__ import annotations

import asyncio
import mmap
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from standfast import Accepted, Done, Run, Runtime, agent, run_process, say, tool

TRIALS = 30
START_LIMIT = 30.0
_ALIVE = struct.Struct("d")
_CHILD = """
import mmap, struct, sys, time, subprocess
file = open(sys.argv[1], "r+b")
page = mmap.mmap(file.fileno(), 8)
if len(sys.argv) > 2:
    subprocess.run([sys.executable, "-c", sys.argv[2], sys.argv[1]])
while True:
    struct.pack_into("d", page, 0, time.time())
"""


class Work(BaseModel):
    kind: str
    page: str


@contextmanager
def _page(path: str) -> Iterator[mmap.mmap]:
    with Path(path).open("r+b") as file, mmap.mmap(file.fileno(), _ALIVE.size) as page:
        yield page


def _alive(page: mmap.mmap) -> None:
    _ALIVE.pack_into(page, 0, time.time())


@tool(effect="read")
async def awaiting(path: str) -> None:
    with _page(path) as page:
        while True:
            _alive(page)
            await asyncio.sleep(0.0005)


@tool(effect="read", kind="model")
async def streaming(path: str) -> None:
    with _page(path) as page:
        while True:
            _alive(page)
            say("token ")
            await asyncio.sleep(0.0005)


@tool(effect="read")
def threading(path: str) -> None:
    with _page(path) as page:
        while True:
            _alive(page)


@tool(effect="read", process=True)
def processing(path: str) -> None:
    with _page(path) as page:
        while True:
            _alive(page)


@tool(effect="read")
async def programs(path: str) -> None:
    await run_process(sys.executable, "-c", _CHILD, path, _CHILD)


TOOLS = {
    "await": awaiting,
    "stream": streaming,
    "thread of Python": threading,
    "process": processing,
    "program tree": programs,
}


@agent("stops")
async def stops(run: Run[Work]) -> Done[None]:
    await run.call(TOOLS[run.state.kind](run.state.page))
    return Done(None)


@dataclass(frozen=True)
class Latency:
    """Seconds from *accepted* to the work's last sign of life, over many trials."""

    kind: str
    median: float
    worst: float


async def measure(path: str, trials: int = TRIALS) -> list[Latency]:
    async with Runtime(path, agents=[stops]) as runs:
        return [await _measure(runs, kind, trials) for kind in TOOLS]


async def _measure(runs: Runtime, kind: str, trials: int) -> Latency:
    taken: list[float] = []
    for _ in range(trials):
        with tempfile.NamedTemporaryFile(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as file:
            file.write(bytes(_ALIVE.size))
            file.flush()
            with _page(file.name) as page:
                run = await runs.start(stops, Work(kind=kind, page=file.name))
                async with asyncio.timeout(START_LIMIT):
                    while _ALIVE.unpack_from(page)[0] == 0.0:
                        await asyncio.sleep(0.002)
                await asyncio.sleep(random.uniform(0.005, 0.02))
                answer = await run.cancel()
                assert isinstance(answer, Accepted)
                await run.settled()
                await asyncio.sleep(0.02)
                taken.append(max(0.0, _ALIVE.unpack_from(page)[0] - answer.at))
    return Latency(kind, statistics.median(taken), max(taken))


def latencies(path: str, trials: int = TRIALS) -> list[Latency]:
    return asyncio.run(measure(path, trials))
