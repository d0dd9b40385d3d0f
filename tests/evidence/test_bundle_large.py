"""A bundle of a hundred thousand events is written and verified in bounded memory; the times are printed (R32)."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from pathlib import Path

import pytest
from tests.evidence.bundling import World, words
from tests.evidence.world import Letters, writer
from tests.trials import trials

from standfast import Runtime
from standfast import events as ev
from standfast.abc import Tx
from standfast.control import load

EVENTS = trials(10_000, 100_000, 100_000)
A_COMMIT = 4
MOST_MEMORY = 400 << 20


def grow(tx: Tx) -> None:
    """What calls of a long run leave behind: they begin, say something, and end."""
    row = load(tx, "long")
    for n in range(EVENTS // A_COMMIT):
        call = f"call-{n}"
        tx.save(
            row,
            [
                ev.CallStarted(call=call, tool="look", effect="read", args={"number": n}, attempt=n),
                ev.TextFlushed(call=call, offset=0, text=f"what number {n} looks like, in some words", attempt=n),
                ev.CallFinished(call=call, result=f"number {n}"),
                ev.StepFinished(step=n, attempt=n),
            ],
        )


@pytest.mark.timeout(600)
@pytest.mark.soak
async def test_very_many_events(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [writer]) as runs:
        run = await runs.start(writer, Letters(to_send=1), id="long")
        while not (await run.view()).needs:
            await asyncio.sleep(0.01)
        await run.pause()
        await run.settled(timeout=120)
        runs._store.write(grow)  # pyright: ignore[reportPrivateUsage]
        file = tmp_path / "long.zip"
        began = time.perf_counter()
        about = await run.evidence(file)
        written = time.perf_counter() - began
    assert about.runs[0].seq > EVENTS
    began = time.perf_counter()
    report = World(path).verify(file, anchor=False)
    verified = time.perf_counter() - began
    assert [one.what for one in report.of("unproved")] == ["anchor"], words(report)
    assert not report.of("broken"), words(report)
    tracemalloc.start()
    World(path).verify(file, anchor=False)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(
        f"\n{about.runs[0].seq} events: {file.stat().st_size / 1e6:.1f} MB written in {written:.1f} s, "
        f"verified in {verified:.1f} s, at most {memory / 1e6:.0f} MB of memory"
    )
    assert memory < MOST_MEMORY
