"""A database's connection that is cut in a query is cleaned up by its driver, as a plain cancellation would (R39)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.cancel.postgres import postgres
from tests.cancel.support import Nothing, cancelled, outcomes
from tests.helpers import eventually, held

from standfast import Done, Handle, Performed, Run, Runtime, agent, tool

asyncpg: Any = pytest.importorskip("asyncpg")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with postgres() as running:
        yield running


class World:
    """A table, a connection that tools share, and one that looks at the server from outside."""

    def __init__(self, shared: Any, outside: Any) -> None:
        self.shared = shared
        self.outside = outside
        self.backend = shared.get_server_pid()

    async def in_the_query(self) -> bool:
        return bool(await self._of_backend("state = 'active' AND wait_event = 'PgSleep'"))

    async def is_idle(self) -> bool:
        return bool(await self._of_backend("state = 'idle'"))

    async def locks(self) -> list[str]:
        """What the connection holds of the table."""
        rows = await self.outside.fetch(
            "SELECT mode FROM pg_locks WHERE pid = $1 AND relation = 'accounts'::regclass", self.backend
        )
        return [row["mode"] for row in rows]

    async def _of_backend(self, condition: str) -> int:
        found = f"SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND {condition}"
        return int(await self.outside.fetchval(found, self.backend))


@asynccontextmanager
async def world_at(address: str) -> AsyncIterator[World]:
    shared, outside = await asyncpg.connect(address), await asyncpg.connect(address)
    try:
        await outside.execute("DROP TABLE IF EXISTS accounts; CREATE TABLE accounts (id int, balance int)")
        await outside.execute("INSERT INTO accounts VALUES (1, 100)")
        yield World(shared, outside)
    finally:
        shared.terminate()
        outside.terminate()


async def nothing_to_take_back(_: Performed[None, None]) -> None:
    """The database's own transaction takes it back."""


CASES: list[dict[str, Any]] = [
    {"effect": "read"},
    {"effect": "idempotent"},
    {"effect": "write", "undo": nothing_to_take_back},
    {"effect": "write", "grace": 1.0},
]


def named(case: dict[str, Any]) -> str:
    return "-".join(str(getattr(value, "__name__", value)) for value in case.values())


def steps_of(world: World, case: dict[str, Any]) -> Any:
    """An agent that locks a row and is slow then; and one that only looks."""

    @tool(name="transfer", **case)
    async def transfer() -> None:
        async with world.shared.transaction():
            await world.shared.execute("UPDATE accounts SET balance = 0 WHERE id = 1")
            await world.shared.execute("SELECT pg_sleep(60)")

    @agent("transferring")
    async def transferring(run: Run[Nothing]) -> None:
        await run.call(transfer())

    return transferring


def looking_at(world: World) -> Any:
    @tool(effect="read")
    async def balance() -> int:
        return int(await world.shared.fetchval("SELECT balance FROM accounts WHERE id = 1 FOR UPDATE"))

    @agent("looking")
    async def looking(run: Run[Nothing]) -> Done[int]:
        return Done(await run.call(balance()))

    return looking


async def everything_released(world: World, runs: Runtime, looking: Any) -> None:
    """Nothing goes on in the database, and the next run works on the same connection."""
    assert await world.is_idle()
    assert await world.locks() == []
    following: Handle[int] = await runs.start(looking, Nothing())
    assert await following.result(timeout=120) == 100


@pytest.mark.parametrize("case", CASES, ids=named)
async def test_a_connection_that_is_cancelled_in_a_query_is_usable_afterwards(
    db: str, address: str, case: dict[str, Any]
) -> None:
    """R39: when a cancel has settled, the backend is idle and holds no lock."""
    async with world_at(address) as world:
        transferring, looking = steps_of(world, case), looking_at(world)
        async with Runtime(db, agents=[transferring, looking]) as runs:
            run = await runs.start(transferring, Nothing())
            await eventually(world.in_the_query)
            receipt = await cancelled(run)
            assert outcomes(receipt).keys() == {"transfer"}
            await everything_released(world, runs, looking)


async def test_a_connection_that_is_paused_in_a_query_is_usable_afterwards(db: str, address: str) -> None:
    """R39, R3"""
    async with world_at(address) as world:
        transferring, looking = steps_of(world, {"effect": "read"}), looking_at(world)
        async with Runtime(db, agents=[transferring, looking]) as runs:
            run = await runs.start(transferring, Nothing())
            await eventually(world.in_the_query)
            assert await run.pause()
            await held(run, "user")
            await everything_released(world, runs, looking)


async def test_a_step_that_is_cancelled_in_a_query_leaves_a_usable_connection(db: str, address: str) -> None:
    """R39: the same for a step's own code, in a task that it has started."""
    async with world_at(address) as world:

        async def transfer() -> None:
            async with world.shared.transaction():
                await world.shared.execute("UPDATE accounts SET balance = 0 WHERE id = 1")
                await world.shared.execute("SELECT pg_sleep(60)")

        @agent("transferring")
        async def transferring(run: Run[Nothing]) -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(transfer())

        looking = looking_at(world)
        async with Runtime(db, agents=[transferring, looking]) as runs:
            run = await runs.start(transferring, Nothing())
            await eventually(world.in_the_query)
            await cancelled(run)
            await everything_released(world, runs, looking)
