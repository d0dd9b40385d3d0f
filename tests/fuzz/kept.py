"""What is kept in a store, to be compared exactly: whatever a request that was refused must not move.

By themselves move: leases, checkpoints and signals, which are not looked at; runs that somebody drives, of which all is
compared that came by way of the server; and the record of a run that stands still by what a server notes of its clients
after a stop. In the house, whoever was refused or has looked is noted, and nothing else.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

STANDING = ("paused", "cancelled", "done", "failed")
NOTED = ("attempt_refused", "evidence_viewed")
OF_SERVER = "clients_reached"
RUNS = "SELECT n, id, agent, parent, created, status, holder, wake_at, seq, head, fence, epoch, doc, needs FROM runs"
CALLS = "SELECT n, run, id, epoch, step, status, effect, settles, undo, doc, args, before, result FROM calls"
WHOLE = {
    "token": "SELECT id, hash, doc, expires, revoked FROM tokens",
    "halt": "SELECT n, id, doc, key, signature, lifted FROM halts",
}


@dataclass(frozen=True)
class Kept:
    """A store at one moment."""

    runs: dict[int, sqlite3.Row]
    mail: dict[int, tuple[Any, ...]]
    calls: dict[int, tuple[Any, ...]]
    whole: dict[str, dict[Any, tuple[Any, ...]]]
    house: int
    requests: frozenset[str]

    def moves(self, n: int) -> bool:
        """May this run be changed by those who drive it?"""
        row = self.runs[n]
        return row["status"] not in STANDING or row["holder"] is not None or row["wake_at"] is not None


@dataclass
class Changes:
    """What differs between two moments."""

    told: list[str] = field(default_factory=list[str])
    requests: list[Any] = field(default_factory=list[Any])  # request ids that were remembered: run, verb, answer


class Watcher:
    """Looks at a store from outside, in one transaction each time."""

    def __init__(self, store: Path) -> None:
        self._store = sqlite3.connect(f"file:{store}?mode=ro", uri=True, isolation_level=None)
        self._store.row_factory = sqlite3.Row

    def close(self) -> None:
        self._store.close()

    def look(self) -> Kept:
        self._store.execute("BEGIN")
        try:
            return self._look()
        finally:
            self._store.execute("COMMIT")

    def _look(self) -> Kept:
        ask = self._store.execute
        return Kept(
            runs={row["n"]: row for row in ask(RUNS)},
            mail={row[0]: tuple(row) for row in ask("SELECT n, run, id, doc, status FROM mail")},
            calls={row[0]: tuple(row) for row in ask(CALLS)},
            whole={name: {row[0]: tuple(row) for row in ask(sql)} for name, sql in WHOLE.items()},
            house=ask("SELECT coalesce(max(seq), 0) FROM house").fetchone()[0],
            requests=frozenset(row[0] for row in ask("SELECT id FROM requests")),
        )

    def changes(self, before: Kept, after: Kept, but: Collection[str] = ()) -> Changes:
        """Everything that nobody but a request can have done; `but` are runs that somebody was allowed to change."""
        found = Changes()
        found.told += self._of_runs(before, after, but)
        without = {n for n, row in after.runs.items() if row["id"] in but}
        found.told += _of_rows("mail", before, before.mail, after.mail, without, driven=4)
        found.told += _of_rows("call", before, before.calls, after.calls, without, driven=0)
        for name in WHOLE:
            if before.whole[name] != after.whole[name]:
                found.told.append(f"a {name}: {before.whole[name]} became {after.whole[name]}")
        for (body,) in self._store.execute(
            "SELECT body FROM house WHERE seq > ? AND seq <= ?", (before.house, after.house)
        ):
            if (event := json.loads(body))["type"] not in NOTED:
                found.told.append(f"the house: {event}")
        if gone := before.requests - after.requests:
            found.told.append(f"forgotten request ids: {gone}")
        for id_ in after.requests - before.requests:
            row = self._store.execute("SELECT run, verb, answer FROM requests WHERE id = ?", (id_,)).fetchone()
            if row["run"] not in but:
                found.requests.append(tuple(row))
        return found

    def _of_runs(self, before: Kept, after: Kept, but: Collection[str]) -> Iterator[str]:
        moving = {row["id"] for n, row in before.runs.items() if before.moves(n)}
        for n, now in after.runs.items():
            was = before.runs.get(n)
            if now["id"] in but:
                continue
            if was is None:
                if now["parent"] not in moving:
                    yield f"a new run {now['id']}"
                continue
            events = list(self._events(n, was["seq"], now["seq"]))
            if before.moves(n):
                yield from (f"{now['id']}: {event}" for event in events if event.get("route"))
            elif any(event["type"] != OF_SERVER for event in events) or _still(was, events) != _still(now, events):
                yield f"{now['id']}, which stood still: {events} {tuple(was)} became {tuple(now)}"
        yield from (f"a run that is gone: {tuple(was)}" for n, was in before.runs.items() if n not in after.runs)

    def _events(self, n: int, after: int, upto: int) -> Iterator[Any]:
        if upto != after:
            rows = self._store.execute("SELECT body FROM record WHERE run = ? AND seq > ? ORDER BY seq", (n, after))
            for (body,) in rows.fetchall():
                yield from (event for event in json.loads(body.partition(b"\n")[0]) if after < event["seq"] <= upto)


def _still(row: sqlite3.Row, noted: list[Any]) -> tuple[Any, ...]:
    """A run that stands still; what a server has noted afterwards makes its record longer."""
    return tuple(row[name] for name in row.keys() if not (noted and name in ("seq", "head", "doc")))  # noqa: SIM118


def _of_rows(
    what: str, before: Kept, was: dict[int, Any], now: dict[int, Any], without: Collection[int], *, driven: int
) -> Iterator[str]:
    """Rows that belong to runs; of those that are driven, the first `driven` columns are not the driver's to change."""
    for n in was.keys() | now.keys():
        old, new = was.get(n), now.get(n)
        run = (old or new)[1]
        if old == new or run in without:
            continue
        if run in before.runs and before.moves(run):
            if driven and (old is None or (new is not None and _lasting(old, driven) != _lasting(new, driven))):
                yield f"{what} of a run that is driven: {old} became {new}"
        elif run in before.runs or driven:
            yield f"{what}: {old} became {new}"


def _lasting(row: tuple[Any, ...], columns: int) -> list[Any]:
    """What a driver never changes: of a letter all but what became of it."""
    *columns_before, doc = row[:columns]
    said = {name: value for name, value in json.loads(doc).items() if name not in ("status", "step", "reason")}
    return [*columns_before, said]
