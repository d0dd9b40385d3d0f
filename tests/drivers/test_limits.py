"""How many runs one process drives at a time (R38), and that nobody waits for a place that only waits for him."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.helpers import eventually

from standfast import Done, Misuse, Run, Runtime, agent, child, sleep, tool


class Busy:
    """How many bodies run at once, by agent."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.most_of_all = 0

    async def work(self, name: str, seconds: float) -> None:
        self.now[name] += 1
        self.most[name] = max(self.most[name], self.now[name])
        self.most_of_all = max(self.most_of_all, self.now.total())
        await asyncio.sleep(seconds)
        self.now[name] -= 1


busy = Busy()


@pytest.fixture(autouse=True)
def fresh() -> None:
    global busy
    busy = Busy()


@tool(effect="read")
async def toil(name: str, seconds: float = 0.02) -> None:
    await busy.work(name, seconds)


class N(BaseModel):
    n: int = 0


@agent("free")
async def free(run: Run[N]) -> Done[int] | None:
    await run.call(toil("free"))
    run.state.n += 1
    return Done(run.state.n) if run.state.n == 3 else None


@agent("narrow", concurrency=1)
async def narrow(run: Run[N]) -> Done[int] | None:
    await run.call(toil("narrow"))
    run.state.n += 1
    return Done(run.state.n) if run.state.n == 3 else None


@agent("parent")
async def parent(run: Run[N]) -> Done[int]:
    return Done(await run.call(child(free, N())) + await run.call(child(narrow, N())))


@agent("grandparent")
async def grandparent(run: Run[N]) -> Done[int]:
    return Done(await run.call(child(parent, N())))


@agent("sleeper")
async def sleeper(run: Run[N]) -> Done[int]:
    await run.call(sleep(0.3))
    return Done(1)


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_a_runtime_drives_no_more_runs_than_it_was_told(tmp_path: Path, limit: int) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[free], concurrency=limit) as runs:
        started = [await runs.start(free, N()) for _ in range(7)]
        assert await asyncio.gather(*(r.result(timeout=120) for r in started)) == [3] * 7
    assert busy.most_of_all == limit


async def test_an_agents_own_limit_leaves_others_alone(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[free, narrow]) as runs:
        started = [await runs.start(which, N()) for _ in range(4) for which in (narrow, free)]
        assert await asyncio.gather(*(r.result(timeout=120) for r in started)) == [3] * 8
    assert busy.most["narrow"] == 1
    assert busy.most["free"] > 1


async def test_an_agents_place_is_not_taken_by_another_agents_claim(tmp_path: Path) -> None:
    """Both are claimed in the same look: nobody waits for the next one."""
    async with Runtime(tmp_path / "runs.db", drive=False) as runs:
        ids = [(await runs.start(which, N())).id for which in (free, narrow)]
    async with Runtime(tmp_path / "runs.db", agents=[free, narrow]) as runs:
        first, second = (runs.handle(id_) for id_ in ids)
        await asyncio.gather(first.result(timeout=120), second.result(timeout=120))
        claimed = {e.at for r in (first, second) async for e in r.events() if e.type == "run_claimed"}
        assert len(claimed) == 1


async def test_a_parent_that_waits_for_its_child_takes_no_place(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[grandparent, parent, free, narrow], concurrency=1) as runs:
        run = await runs.start(grandparent, N())
        assert await run.result(timeout=120) == 6
    assert busy.most_of_all == 1


async def test_many_parents_with_one_place_all_get_done(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[parent, free, narrow], concurrency=1) as runs:
        started = [await runs.start(parent, N()) for _ in range(3)]
        assert await asyncio.gather(*(r.result(timeout=120) for r in started)) == [6] * 3


async def test_a_run_that_sleeps_takes_no_place(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[sleeper, free], concurrency=1) as runs:
        slow = await runs.start(sleeper, N())
        await eventually(lambda: _in_flight(slow))
        assert await (await runs.start(free, N())).result(timeout=120) == 3
        assert await slow.result(timeout=120) == 1


async def _in_flight(run: object) -> bool:
    return bool((await run.view()).in_flight)  # type: ignore[attr-defined]


async def test_a_paused_run_gives_its_place_to_the_next(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[free], concurrency=1) as runs:
        first = await runs.start(free, N())
        await eventually(lambda: busy.now["free"])
        second = await runs.start(free, N())
        assert (await second.view()).waiting_for == "a free place"
        assert await first.pause()
        assert await second.result(timeout=120) == 3
        assert (await first.view()).status == "paused"
        assert await first.resume()
        assert await first.result(timeout=120) == 3


def test_a_limit_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse) as told:
        Runtime(tmp_path / "runs.db", concurrency=0)
    assert told.value.hint
