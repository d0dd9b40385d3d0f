"""What evidence needs of SQLite: where the records stand, the signed statements about it, and deletion."""

from __future__ import annotations

import time
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

# What is deleted in one transaction. The last is for slow disks: with its commit it stays below a tenth of a second.
SLICE_ROWS, SLICE_BYTES, SLICE_SECONDS = 500, 1_000_000, 0.03


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
            side = run_side(run, self.plain_contract(contract_named(run[9])), *self._beside(n, run))
        return Stood(run[1], run[3], seq, head, side)

    def _beside(self, n: int, run: Row) -> tuple[list[Row], list[Row]]:
        """Calls and mail; of a forgotten run none count, whether they are deleted yet or not."""
        return ([], []) if is_forgotten(run[9]) else (self.plain_calls(n), self.plain_mail(n))

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

    def forks(self, source: str, after: int = 0) -> list[str]:
        return [r[0] for r in self._c.execute(_Q["forks"], (after, source)).fetchall()]

    def last_run(self) -> int:
        return int(self._c.execute(_Q["last_run"]).fetchone()[0])

    def has_content(self, n: int) -> bool:
        found = self._c.execute(_Q["has_content"], (n,)).fetchone()
        return found is not None and bool(found[0])

    def requests_of(self, run: str) -> list[str]:
        return [r[0] for r in self._c.execute(_Q["requests_of"], (run,)).fetchall()]

    def delete_some(self, n: int, logs: list[str], requests: list[str]) -> bool:
        share = _Share(self._c)
        for log in logs:
            if share.taken("places_of_log", "delete_log_row", log):
                return True
        for find, delete in (("places_of_calls", "delete_call"), ("places_of_mail", "delete_mail")):
            if share.taken(find, delete, n):
                return True
        for id_ in requests:
            self._c.execute(_Q["delete_request"], (id_,))
        return False

    def bury_some(self, n: int, before: int) -> int:
        share = _Share(self._c)
        for place, size, seq in self._c.execute(_Q["record_places"], (n, before, SLICE_ROWS)).fetchall():
            body, state = self._c.execute(_Q["record_content"], (place,)).fetchone()
            self._c.execute(_Q["bury"], (TOMBSTONE, digests(bytes(body), state), place))
            before = seq
            if share.spent(size):
                return before
        return 0

    def forget_row(self, n: int, doc: bytes) -> None:
        self._c.execute(_Q["forget_run"], (doc, n))


class _Share:
    """As much as is deleted in one transaction: others wait for the store meanwhile."""

    def __init__(self, connection: Any) -> None:
        self._c = connection
        self._c.execute("PRAGMA secure_delete = ON")  # deleted content does not stay in free pages of the file
        self._rows, self._bytes, self._end = SLICE_ROWS, SLICE_BYTES, time.monotonic() + SLICE_SECONDS

    def spent(self, size: int) -> bool:
        """A row of this size is deleted: is it enough?"""
        self._rows -= 1
        self._bytes -= size
        return self._rows <= 0 or self._bytes <= 0 or time.monotonic() >= self._end

    def taken(self, find: str, delete: str, of: int | str) -> bool:
        """Rows deleted one by one; True if it is enough, and there may be more."""
        for place, size in self._c.execute(_Q[find], (of, SLICE_ROWS)).fetchall():
            self._c.execute(_Q[delete], (place,))
            if self.spent(size):
                return True
        return False


def is_forgotten(doc: Any) -> bool:
    """Does a run's document say that its content is deleted?"""
    return bool(_named(doc, "forgotten"))


def contract_named(doc: Any) -> str | None:
    """The contract that a run's document names; None if it cannot be read."""
    return _named(doc, "contract")


def _named(doc: Any, field: str) -> str | None:
    try:
        named = from_json(doc).get(field)
    except (AttributeError, TypeError, ValueError):
        return None
    return named if isinstance(named, str) else None


def _checkpoint(row: Any) -> CheckpointRow:
    return CheckpointRow(*row)
