"""`kill -9` again and again: several workers, people at work, and a world outside that remembers everything.

0 effects twice (R15), 0 calls after *settled* that the receipt does not name and every late start named in
*accepted* (R7), 0 acknowledged steps lost (R2).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.drivers.workers import Worker, outside
from tests.trials import SOAK, trials

from standfast import Accepted, Handle, Happened, NotHappened, Receipt, Runtime
from standfast.records import ENDED

SECONDS = trials(5.0, 12.0, 600.0)
WORKERS = 4 if SOAK else 3
LIVE = 8
CALLS = ("peek", "began")


class Person:
    """Somebody who looks after one run until it has ended, and remembers what he was told."""

    def __init__(self, run: Handle[Any], folder: Path, chance: random.Random) -> None:
        self.run = run
        self.world = outside(folder)
        self.chance = chance
        self.seen_step = 0
        self.accepted: Accepted | None = None
        self.receipt: Receipt | None = None
        self.acted: Counter[str] = Counter()
        self.trouble: list[str] = []

    async def look_after(self, calm: asyncio.Event, limit: float = 120.0) -> None:
        """Until the end; once `calm` is set, only what is needed for it is done."""
        while True:
            view = await self.run.view()
            if view.step < self.seen_step:
                self.trouble.append(f"step {self.seen_step} was seen, then {view.step}")
            self.seen_step = max(self.seen_step, view.step)
            if view.status in ENDED:
                break
            if view.status == "paused":
                await self._let_go_on(view)
            elif not calm.is_set() and self.accepted is None and self.chance.random() < 0.15:
                await self._meddle()
            if calm.is_set():
                limit -= 0.1
                if limit < 0:
                    self.trouble.append(f"it does not end: {view.status} {view.waiting_for}")
                    return
            await asyncio.sleep(0.1)
        if view.status == "cancelled":
            self.receipt = await self.run.settled()
            self.world.happen("settled", self.run.id, "-")

    async def _let_go_on(self, view: Any) -> None:
        for need in view.needs:
            if need.kind == "unread":
                self.acted["unread"] += 1
                await (self.run.resend(need.id) if self.chance.random() < 0.5 else self.run.drop(need.id))
                continue
            if need.kind != "doubt":
                self.trouble.append(f"it asks {need.text}")
                continue
            happened = self.world.count("did", self.run.id)[need.call]
            result = need.call.split("-")[0]
            self.acted["doubt"] += 1
            await self.run.resolve(need.call, Happened(f"{result} by hand") if happened else NotHappened())
        if "user" in view.holds:
            await self.run.resume()

    async def _meddle(self) -> None:
        what = self.chance.choice(["pause", "pause", "redirect", "cancel"])
        self.acted[what] += 1
        if what == "pause":
            await self.run.pause()
        elif what == "redirect":
            await self.run.redirect("hurry", when=self.chance.choice(["now", "next"]))
        else:
            answer = await self.run.cancel(undo=self.chance.choice(["step", "all", "none"]))
            if isinstance(answer, Accepted):
                self.accepted = answer
                self.world.happen("accepted", self.run.id, "-")

    # --- what the world says afterwards ----------------------------------------------------------------

    def judge(self, facts: list[tuple[str, str, str, int]], state: Any) -> Counter[str]:
        mine = [(kind, key) for kind, run, key, _ in facts if run == self.run.id]
        did = Counter(key for kind, key in mine if kind == "did")
        found = Counter(
            {
                "effects": did.total(),
                "effects twice": sum(times > 1 for times in did.values()),
                "acknowledged steps lost": len(self.trouble) + (len(state.get("notes", [])) < self.seen_step),
            }
        )
        if self.accepted is not None and self.receipt is not None:
            named = {ref.id for ref in self.accepted.in_flight}
            known = {f.call.id for f in self.receipt.in_flight} | {r.call.id for r in self.receipt.residue if r.call}
            after = mine[mine.index(("accepted", "-")) :]
            late = [key for kind, key in after if kind in CALLS]
            settled = after[after.index(("settled", "-")) :]
            found["late starts"] = len(late)
            found["late starts not named in accepted"] = sum(key not in named for key in late)
            found["calls after settled not in the receipt"] = sum(
                key not in known for kind, key in settled if kind in (*CALLS, "did")
            )
            found["calls_after_cancel counted"] = self.receipt.calls_after_cancel
        return found


async def kill_one_after_the_other(folder: Path, workers: list[Worker], end: float, chance: random.Random) -> int:
    kills = 0
    while time.monotonic() < end:
        await asyncio.sleep(chance.uniform(0.2, 1.5))
        place = chance.randrange(WORKERS)
        workers[place].__exit__()
        kills += 1
        workers[place] = await Worker(folder, lease_seconds=60).ready()
    return kills


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 240)
async def test_nothing_is_lost_or_done_twice_while_workers_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    workers = [Worker(tmp_path, lease_seconds=60) for _ in range(WORKERS)]
    people: list[Person] = []
    calm = asyncio.Event()
    try:
        await asyncio.gather(*(w.ready() for w in workers))
        async with Runtime(tmp_path / "runs.db", drive=False) as runs:
            end = time.monotonic() + SECONDS
            killing = asyncio.ensure_future(kill_one_after_the_other(tmp_path, workers, end, chance))
            tasks: set[asyncio.Task[None]] = set()
            while time.monotonic() < end:
                while sum(not t.done() for t in tasks) < LIVE:
                    state = {
                        "steps": chance.randint(3, 20),
                        "seconds": chance.choice([0.0, 0.02, 0.1]),
                        "tool": chance.choice(["post", "pay", "peek"]),
                    }
                    person = Person(await runs.start("walker", state), tmp_path, chance)
                    people.append(person)
                    tasks.add(asyncio.ensure_future(person.look_after(calm)))
                await asyncio.sleep(0.1)
            kills = await killing
            calm.set()
            await asyncio.gather(*tasks)
            facts = outside(tmp_path).facts()
            found: Counter[str] = Counter()
            for person in people:
                found += person.judge(facts, await person.run.state())
                row = person.run._row()
                found["broken records"] += bool(runs.read(lambda tx: tx.verify(row)))  # noqa: B023
            acted = sum((p.acted for p in people), Counter[str]())
            troubles = [f"{p.run.id}: {t}" for p in people for t in p.trouble]
    finally:
        for worker in workers:
            worker.__exit__()
    unnamed = ("late starts not named in accepted", "calls after settled not in the receipt")
    names = ("effects twice", "late starts", *unnamed)
    figures = ", ".join(f"{found[name]} {name}" for name in (*names, "acknowledged steps lost", "broken records"))
    with capsys.disabled():
        print(f"\nkill soak, seed {seed}: {kills} kills, {len(people)} runs, {found['effects']} effects, {dict(acted)}")
        print(f"  {figures}")
    assert troubles == []
    assert kills > 0
    assert found["effects"] > 0
    for name in ("effects twice", *unnamed, "acknowledged steps lost", "broken records"):
        assert found[name] == 0, name
