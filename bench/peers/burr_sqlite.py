"""Burr with its SQLite persister (aiosqlite for many runs at once), as its docs set it up."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister
from burr.integrations.persisters.b_aiosqlite import AsyncSQLitePersister

from bench.workloads import MemoryAndCpu, Paused, read_call


@action(reads=["seq"], writes=["seq", "body"])
def step(state: State[Any], stop_at: int, started: list[float]) -> State[Any]:
    seq: int = state["seq"]
    if seq == stop_at:
        started.append(time.perf_counter())
    return state.update(seq=seq + 1, body=read_call(seq + 1))


@action(reads=["seq"], writes=["seq", "body"])
async def async_step(state: State[Any]) -> State[Any]:
    return state.update(seq=state["seq"] + 1, body=read_call(state["seq"] + 1))


def _persister(path: str) -> Any:
    persister: Any = SQLitePersister.from_values(path, connect_kwargs={"check_same_thread": False})
    persister.initialize()
    return persister


def _builder() -> Any:
    untyped: Any = ApplicationBuilder
    return untyped()


def _application(persister: Any, run: str, stop_at: int, started: list[float]) -> Any:
    return (
        _builder()
        .with_actions(step=step.bind(stop_at=stop_at, started=started))
        .with_transitions(("step", "step"))
        .with_identifiers(app_id=run, partition_key="bench")
        .initialize_from(
            persister,
            resume_at_next_action=True,
            default_state={"seq": 0, "body": ""},
            default_entrypoint="step",
        )
        .with_state_persister(persister)
        .build()
    )


def durable_steps(path: str, n: int, warm: int = 700) -> float:
    persister = _persister(path)
    started: list[float] = []
    application = _application(persister, "run", warm, started)
    for _ in range(warm + n):
        application.step()
    seconds = time.perf_counter() - started[0]
    persister.connection.close()
    return seconds / n


def concurrent(path: str, runs: int, steps: int) -> float:
    async def one(persister: Any, run: str) -> None:
        application = await (
            _builder()
            .with_actions(step=async_step)
            .with_transitions(("step", "step"))
            .with_identifiers(app_id=run, partition_key="bench")
            .with_state(seq=0, body="")
            .with_entrypoint("step")
            .with_state_persister(persister)
            .abuild()
        )
        for _ in range(steps):
            await application.astep()

    async def all_runs() -> float:
        persisters: Any = AsyncSQLitePersister
        async with persisters.from_values(path) as persister:
            await persister.initialize()
            start = time.perf_counter()
            await asyncio.gather(*(one(persister, f"run-{number}") for number in range(runs)))
            return runs * steps / (time.perf_counter() - start)

    return asyncio.run(all_runs())


def prepare_resume(path: str, steps: int) -> None:
    persister = _persister(path)
    application = _application(persister, "run", -1, [])
    for _ in range(steps):
        application.step()
    persister.connection.close()


def resume_seconds(path: str, steps: int) -> float:
    started: list[float] = []
    start = time.perf_counter()
    persister = _persister(path)
    _application(persister, "run", steps, started).step()
    persister.connection.close()
    return started[0] - start


def paused_kb(path: str, n: int) -> Paused | None:
    """An application between two steps is a paused run; it is kept, as a program that goes on with it would."""
    persister = _persister(path)
    kept: list[Any] = []
    before: MemoryAndCpu | None = None
    for number in range(-600, n):  # SQLite's page cache fills first
        if number == 0:
            before = MemoryAndCpu()
        application = _application(persister, f"run-{number}", -1, [])
        application.step()
        if number >= 0:
            kept.append(application)
    assert before is not None
    return before.cost(len(kept))
