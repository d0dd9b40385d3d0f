"""What is going on when the crash comes: runs with every kind of call and verb, and the world they act on."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from tests.crash.apsw_connection import Connection
from tests.crash.recorder import Recorder, Recording

from standfast import (
    Again,
    Done,
    Handle,
    Log,
    Performed,
    Pipeline,
    Run,
    Runtime,
    agent,
    child,
    idempotency_key,
    say,
    tool,
    use,
)

ROUNDS = 4


class World:
    """Everything outside the store. It only grows, and no crash takes anything back."""

    def __init__(self, mark: Callable[[str], None] = lambda _: None) -> None:
        self.facts: list[str] = []
        self._mark = mark

    def happen(self, *what: str) -> None:
        fact = "|".join(what)
        self.facts.append(fact)
        self._mark(fact)

    def count(self, kind: str, run: str) -> Counter[str]:
        """How often each key of a run met this fate."""
        found = (fact.split("|") for fact in self.facts)
        return Counter(f[2] for f in found if f[0] == kind and f[1] == run)


async def take_back(p: Performed[str, str]) -> None:
    use(World).happen("undid", p.args["run"], p.key)


async def what_was(run: str, n: int) -> str:
    return f"before {n}"


@tool(effect="read")
async def look(run: str, n: int) -> int:
    await asyncio.sleep(0.001)
    return n * 2


@tool(effect="idempotent")
async def put(run: str, n: int) -> str:
    use(World).happen("put", run, idempotency_key())
    say(f"putting {n} ")
    await asyncio.sleep(0.001)
    return idempotency_key()


@tool(before=what_was, undo=take_back)
async def send(run: str, n: int) -> str:
    """A write. Its result can be told from its key, so that a person who looks at the world can tell it."""
    await asyncio.sleep(0.0005)
    use(World).happen("did", run, idempotency_key())
    await asyncio.sleep(0.001)
    return f"sent {idempotency_key()}"


class Job(BaseModel):
    round: int = 0
    words: Log[str] = Log()
    keys: list[str] = []
    told: list[str] = []


job = Pipeline("job", Job, tools=[look, put, send])


@job.stage("Collect")
async def collect(run: Run[Job]) -> Again | None:
    seen = await run.call(look(run.id, run.state.round))
    run.state.words.append(f"saw {seen}")
    run.state.round += 1
    return Again() if run.state.round < ROUNDS else None


@job.stage("Act")
async def act(run: Run[Job]) -> Again | None:
    n = run.state.round
    results = await run.call_all([put(run.id, n), look(run.id, n)])
    run.state.told.append(run.instruction)
    run.state.keys.append(await run.call(send(run.id, n)))
    run.state.words.append(f"acted {n} {results[1]}")
    run.state.round += 1
    return Again() if run.state.round < 2 * ROUNDS else None


@job.stage("Close")
async def close(run: Run[Job]) -> None:
    run.state.keys.append(await run.call(send(run.id, -1), title="last"))
    run.state.words.append("closed")


class Small(BaseModel):
    n: int = 0


@agent("helper", tools=[send])
async def helper(run: Run[Small]) -> Done[str]:
    return Done(await run.call(send(run.id, run.state.n)))


class Family(BaseModel):
    answers: list[str] = []


@agent("family", tools=[look, send])
async def family(run: Run[Family]) -> Done[list[str]] | None:
    run.state.answers.append(await run.call(child(helper, Small(n=run.step))))
    run.note(f"child {run.step} has answered")
    return Done(run.state.answers) if len(run.state.answers) == 2 else None


AGENTS: list[Any] = [job, helper, family]


async def settled_or_ended(run: Handle[Any]) -> None:
    await run.settled(timeout=120)


async def play(path: Path, recorder: Recorder, seed: int) -> None:
    """Runs side by side, each with its own people; every acknowledgement is marked in the recording."""
    chance = random.Random(seed)
    world = World(recorder.mark)

    def connect(name: str) -> Connection:
        connection = recorder.connection(name)
        connection.execute("PRAGMA wal_autocheckpoint = 60")  # crashes must meet checkpoints too
        return connection

    async with Runtime(path, AGENTS, provide={World: world}, connect=connect) as runs:

        async def until_step(run: Handle[Any], step: int) -> None:
            async for event in run.events():
                if event.type == "step_finished" and event.step >= step:
                    break
            await asyncio.sleep(chance.random() * 0.004)

        async def watch(run: Handle[Any]) -> None:
            async for event in run.events():
                if event.type != "text_delta":
                    recorder.mark(f"seen|{run.id}|{event.seq}")

        async def started(name: str, which: Any, state: Any) -> Handle[Any]:
            run = await runs.start(which, state, id=name)
            recorder.mark(f"seen|{name}|1")
            return run

        def accepted(run: Handle[Any], verb: str, answer: Any) -> None:
            if answer:
                recorder.mark(f"seen|{run.id}|{answer.seq}")
                recorder.mark(f"{verb}|{run.id}|{answer.mail or ''}")

        async def held_and_resumed() -> None:
            run = await started("plain", job, Job())
            await until_step(run, chance.randrange(6))
            accepted(run, "pause", await run.pause(by="ann"))
            await settled_or_ended(run)
            accepted(run, "message", await run.message("hello"))
            accepted(run, "resume", await run.resume(by="ann"))
            await run.result(timeout=120)

        async def redirected() -> None:
            run = await started("turned", job, Job())
            await until_step(run, chance.randrange(3))
            accepted(run, "redirect", await run.redirect("another way", when="next"))
            await until_step(run, 3 + chance.randrange(2))
            accepted(run, "redirect", await run.redirect("right now", when="now"))
            await run.result(timeout=120)

        async def cancelled() -> None:
            run = await started("stopped", job, Job())
            await until_step(run, 4 + chance.randrange(3))
            answer = await run.cancel(undo="all", by="bob")
            accepted(run, "cancel", answer)
            await run.settled(timeout=120)
            if answer:  # else it was done before, on a busy machine
                recorder.mark("settled|stopped|")

        async def rewound() -> None:
            run = await started("back", job, Job())
            await until_step(run, 5)
            accepted(run, "redirect", await run.redirect("do it again", from_step=4))
            await run.result(timeout=120)

        async def with_children() -> None:
            run = await started("family", family, Family())
            await run.result(timeout=120)

        names = ("plain", "turned", "stopped", "back", "family")
        people = [held_and_resumed(), redirected(), cancelled(), rewound(), with_children()]
        tasks = [asyncio.ensure_future(p) for p in people]
        await asyncio.sleep(0)
        while not all([await exists(runs, name) for name in names]):
            await asyncio.sleep(0.001)
        watchers = [asyncio.ensure_future(watch(runs.handle(name))) for name in names]
        await asyncio.gather(*tasks, *watchers)


async def exists(runs: Runtime, name: str) -> bool:
    return any(view.id == name for view in await runs.list())


def record(folder: Path, seed: int) -> Recording:
    """The recording of one play."""
    folder.mkdir(parents=True, exist_ok=True)
    with Recorder() as recorder:
        asyncio.run(play(folder / "runs.db", recorder, seed))
        return recorder.recording
