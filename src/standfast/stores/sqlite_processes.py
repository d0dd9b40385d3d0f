"""Processes in SQLite: who is alive, with which code, what they tell each other and what they have answered."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_core import from_json, to_json

from standfast.records import Json
from standfast.rows import LeaseRow
from standfast.stores.queries import queries
from standfast.stores.sqlite_house import SqliteHouse

_Q = queries()
_SIGNALS_KEPT = 10_000
MOST_IDLE = 10_000  # answers to requests that changed nothing


class SqliteProcesses(SqliteHouse):
    """The part of a transaction that concerns processes."""

    __slots__ = ()

    def signal(self, run: str) -> None:
        self._c.execute(_Q["signal"], (run,))
        n: int = self._c.execute("SELECT last_insert_rowid()").fetchone()[0]
        if n % 1000 == 0:
            self._c.execute(_Q["prune_signals"], (n - _SIGNALS_KEPT,))

    def signal_many(self, runs: Sequence[str]) -> None:
        if runs:
            self._c.execute(_Q["signal_many"], (to_json(runs).decode(),))
            self._c.execute(_Q["prune_signals"], (self.last_signal() - max(_SIGNALS_KEPT, len(runs)),))

    def signals(self, after: int) -> list[tuple[int, str]]:
        return [(r[0], r[1]) for r in self._c.execute(_Q["signals_after"], (after,)).fetchall()]

    def last_signal(self) -> int:
        return int(self._c.execute(_Q["last_signal"]).fetchone()[0])

    def put_lease(self, lease: LeaseRow) -> None:
        self._c.execute(
            _Q["insert_lease"], (lease.id, lease.counter, lease.boot, lease.pid, lease.started, to_json(lease.agents))
        )

    def bump_lease(self, id: str) -> bool:  # noqa: A002
        return self._c.execute(_Q["bump_lease"], (id,)).rowcount == 1

    def touch(self) -> None:
        """Write a page without changing what is in it."""
        version = self._c.execute("PRAGMA user_version").fetchone()[0]
        self._c.execute(f"PRAGMA user_version = {int(version)}")

    def drop_lease(self, id: str) -> None:  # noqa: A002
        self._c.execute(_Q["delete_lease"], (id,))

    def leases(self) -> list[LeaseRow]:
        return [
            LeaseRow(id=r[0], counter=r[1], boot=r[2], pid=r[3], started=r[4], agents=from_json(r[5]))
            for r in self._c.execute(_Q["leases"]).fetchall()
        ]

    def put_contract(self, id: str, agent: str, doc: Json) -> None:  # noqa: A002
        self._c.execute(_Q["insert_contract"], (id, agent, to_json(doc)))

    def contract(self, id: str) -> Json | None:  # noqa: A002
        found = self._c.execute(_Q["contract"], (id,)).fetchone()
        return None if found is None else from_json(found[0])

    def contract_of(self, agent: str) -> tuple[str, Json] | None:
        found = self._c.execute(_Q["contract_of_agent"], (agent,)).fetchone()
        return None if found is None else (found[0], from_json(found[1]))

    def answered(self, request_id: str) -> tuple[str, str, str] | None:
        found = self._c.execute(_Q["request"], (request_id,)).fetchone()
        return None if found is None else (found[0], found[1], found[2])

    def remember(self, request_id: str, run: str, verb: str, answer: str, *, idle: bool = False) -> None:
        self._c.execute(_Q["insert_request"], (request_id, run, verb, answer, self.now, int(idle)))
        if idle and self._c.execute("SELECT last_insert_rowid()").fetchone()[0] % 100 == 0:
            self._c.execute(_Q["prune_requests"], (MOST_IDLE,))
