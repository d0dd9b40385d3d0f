"""Looking at other processes from a test."""

from __future__ import annotations

import asyncio
from pathlib import Path

SAFETY = 60.0  # a limit against hanging, not a measurement


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until_dead(pids: list[int]) -> None:
    async with asyncio.timeout(SAFETY):
        while any(alive(pid) for pid in pids):
            await asyncio.sleep(0.002)


async def pids_in(folder: Path, count: int) -> list[int]:
    """The pids that `count` processes have written down, one .pid file each."""
    async with asyncio.timeout(SAFETY):
        while True:
            texts = [path.read_text().strip() for path in folder.glob("*.pid")]
            if len(texts) == count and all(texts):
                return [int(text) for text in texts]
            await asyncio.sleep(0.005)


def open_files() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}
