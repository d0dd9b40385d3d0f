"""What evidence needs of SQLite: where the records stand, the signed statements about it, and deletion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import from_json

from standfast.rows import CheckpointRow, Stood
from standfast.stores.chain import TOMBSTONE, digests, genesis
from standfast.stores.queries import queries
from standfast.stores.sides import AT_REST, Row, house_side, run_side
from standfast.stores.sqlite_house import SqliteHouse

_Q = queries()
_ROWS = 500  # of a table at a time


class SqliteEvidence(SqliteHouse):
    """The part of a transaction that concerns proof."""

    __slots__ = ()

    # --- where everything stands ----------------------------------------------------------------

    def moved(self, after: int) -> list[int]:
        return [r[0] for r in self._c.execute(_Q["moved"], (after,)).fetchall()]

    def resting(self, after: int) -> bool:
        return bool(self._c.execute(_Q["resting"], (after,)).fetchone()[0])

    def numbers(self, ids: list[str]) -> list[int]:
        found = [self._c.execute(_Q["run_number"], (id_,)).fetchone() for id_ in ids]
        return [r[0] for r in found if r is not None]

    def stood(self, n: int) -> Stood | None:
        run = self.plain_run(n)
        if run is None:
            return None
        last = self._c.execute(_Q["head_of_run"], (n,)).fetchone()
        seq, head = (0, genesis(run[1])) if last is None else (last[0], bytes(last[1]))
        side = None
        if run[3] in AT_REST:
            side = run_side(run, self.plain_contract(contract_named(run[9])), self.plain_calls(n), self.plain_mail(n))
        return Stood(run[1], run[3], seq, head, side)

    def house_side(self) -> bytes:
        return house_side(self.plain_halts(), self.plain_tokens())

    # --- signed statements ------------------------------------------------------------------------

    def last_checkpoint(self) -> CheckpointRow | None:
        found = self._c.execute(_Q["last_checkpoint"]).fetchone()
        return None if found is None else _checkpoint(found)

    def checkpoints(self, after: int = 0, limit: int = 500) -> list[CheckpointRow]:
        return [_checkpoint(r) for r in self._c.execute(_Q["checkpoints_after"], (after, limit)).fetchall()]

    def add_checkpoint(self, checkpoint: CheckpointRow) -> None:
        c = checkpoint
        self._c.execute(_Q["insert_checkpoint"], (c.n, c.at, c.doc, c.key, c.signature))

    # --- rows as they are -----------------------------------------------------------------------------

    def plain_run(self, n: int) -> Row | None:
        found: Row | None = self._c.execute(_Q["plain_run"], (n,)).fetchone()
        return found

    def plain_runs(self) -> list[int]:
        return [r[0] for r in self._c.execute(_Q["run_numbers"]).fetchall()]

    def plain_record(self, n: int) -> Iterator[Row]:
        last: Any = -(2**63)
        while rows := self._c.execute(_Q["record_after"], (n, last, _ROWS)).fetchall():
            yield from rows
            last = rows[-1][0]

    def plain_calls(self, n: int) -> list[Row]:
        return self._c.execute(_Q["calls_of_run"], (n,)).fetchall()

    def plain_mail(self, n: int) -> list[Row]:
        return self._c.execute(_Q["plain_mail"], (n,)).fetchall()

    def plain_contract(self, id: str | None) -> Row | None:  # noqa: A002
        found: Row | None = None if id is None else self._c.execute(_Q["plain_contract"], (id,)).fetchone()
        return found

    def plain_contracts(self) -> list[Row]:
        return self._c.execute(_Q["plain_contracts"]).fetchall()

    def plain_log(self, log: str) -> Iterator[Row]:
        last = -(2**63)
        while rows := self._c.execute(_Q["plain_log"], (log, last, _ROWS)).fetchall():
            yield from rows
            last = rows[-1][0]

    def plain_logs(self) -> list[Row]:
        return self._c.execute(_Q["plain_logs"]).fetchall()

    def plain_house(self) -> Iterator[Row]:
        last = -(2**63)
        while rows := self._c.execute(_Q["house_after"], (last, _ROWS)).fetchall():
            yield from rows
            last = rows[-1][0]

    def plain_halts(self) -> list[Row]:
        return self._c.execute(_Q["plain_halts"]).fetchall()

    def plain_tokens(self) -> list[Row]:
        return self._c.execute(_Q["plain_tokens"]).fetchall()

    def strays(self) -> list[Row]:
        return self._c.execute(_Q["strays"]).fetchall()

    # --- deletion ---------------------------------------------------------------------------------------

    def forks(self, source: str) -> list[str]:
        return [r[0] for r in self._c.execute(_Q["forks"], (source,)).fetchall()]

    def bury_record(self, n: int) -> None:
        self._c.execute("PRAGMA secure_delete = ON")  # deleted content does not stay in free pages of the file
        rows = self._c.execute(_Q["record_places"], (n,)).fetchall()
        for (place,) in rows:
            body, state = self._c.execute(_Q["record_content"], (place,)).fetchone()
            self._c.execute(_Q["bury"], (TOMBSTONE, digests(bytes(body), state), place))

    def delete_beside(self, n: int, logs: list[str]) -> None:
        for name in ("delete_calls", "delete_mail"):
            self._c.execute(_Q[name], (n,))
        for log in logs:
            self._c.execute(_Q["delete_log"], (log,))
        self._c.execute(_Q["delete_requests"], (n,))

    def forget_row(self, n: int, doc: bytes) -> None:
        self._c.execute(_Q["forget_run"], (doc, n))


def contract_named(doc: Any) -> str | None:
    """The contract that a run's document names; None if it cannot be read."""
    try:
        named = from_json(doc).get("contract")
    except (AttributeError, TypeError, ValueError):
        return None
    return named if isinstance(named, str) else None


def _checkpoint(row: Any) -> CheckpointRow:
    return CheckpointRow(*row)
