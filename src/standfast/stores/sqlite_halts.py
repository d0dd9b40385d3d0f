"""Operators' halts in SQLite: rows that every start and every claim looks at."""

from __future__ import annotations

from typing import Any

from standfast.rows import HaltRow
from standfast.stores.queries import queries
from standfast.stores.sides import lasting
from standfast.stores.sqlite_house import SqliteHouse
from standfast.stores.sqlite_labels import IS_KNOWN_TO_HAVE_LABEL, label_values

_Q = queries()


class SqliteHalts(SqliteHouse):
    """The part of a transaction that concerns halts."""

    __slots__ = ()

    def insert_halt(self, halt: HaltRow) -> str:
        row = (halt.id, halt.doc, halt.key, halt.signature)
        self._c.execute(_Q["insert_halt"], row)
        return lasting(*row)

    def halt(self, id: str) -> HaltRow | None:  # noqa: A002 - the word users know
        found = self._c.execute(_Q["halt"], (id,)).fetchone()
        return None if found is None else _halt(found)

    def halts(self, *, lifted: bool = False) -> list[HaltRow]:
        return [_halt(r) for r in self._c.execute(_Q["all_halts" if lifted else "holding_halts"]).fetchall()]

    def lift_halt(self, id: str) -> bool:  # noqa: A002
        return self._c.execute(_Q["lift_halt"], (self.now, id)).rowcount == 1

    def runs_to_halt(self, agent: str | None, labels: dict[str, str]) -> list[str]:
        where, values = ["1"], list[Any]()
        if agent is not None:
            where.append("agent = ?")
            values.append(agent)
        where += [IS_KNOWN_TO_HAVE_LABEL] * len(labels)
        values += label_values(labels)
        sql = _Q["runs_to_halt"].replace("{match}", " AND ".join(where))
        return [r[0] for r in self._c.execute(sql, (*values, *values)).fetchall()]

    def runs_halted_by(self, id: str) -> list[str]:  # noqa: A002
        return [r[0] for r in self._c.execute(_Q["runs_halted_by"], (id,)).fetchall()]


def _halt(row: Any) -> HaltRow:
    """As it is: what cannot be read in it is judged by whoever asks what it holds."""
    id_, doc, key, signature, lifted = row
    return HaltRow(id=id_, doc=_raw(doc), key=_raw_or_none(key), signature=_raw_or_none(signature), lifted=lifted)


def _raw(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _raw_or_none(value: Any) -> bytes | None:
    return None if value is None else _raw(value)
