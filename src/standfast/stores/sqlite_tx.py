"""One SQLite transaction, as the rest of standfast sees it."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any

from pydantic_core import from_json, to_json

from standfast.abc import Connection
from standfast.clock import boot_id
from standfast.errors import Misuse, StoreDamaged
from standfast.events import Asking, ByPerson, Event, Stamped, decode
from standfast.log_places import LogRows
from standfast.quick_events import Quick, Sealed
from standfast.records import ENDED, LIVE, CallRef, Hold, Spent, Status
from standfast.rights import Scope
from standfast.rows import RunDoc, RunRow, documents
from standfast.stores.chain import TOMBSTONE, digests, genesis, link, row_digest
from standfast.stores.queries import queries
from standfast.stores.redacting import Cleaning
from standfast.stores.sqlite_calls import SqliteCalls
from standfast.stores.sqlite_evidence import SqliteEvidence
from standfast.stores.sqlite_halts import SqliteHalts
from standfast.stores.sqlite_house import unreadable
from standfast.stores.sqlite_labels import HAS_LABEL, label_values
from standfast.stores.sqlite_processes import SqliteProcesses
from standfast.stores.sqlite_tokens import SqliteTokens, scope_sql
from standfast.ways import token_of

_Q = queries()
_APPEND = _Q["append"]
_NEEDING: frozenset[Hold] = frozenset({"asks", "in_doubt", "stale", "budget", "error", "diverged", "loop", "tripwire"})
_STATUSES: frozenset[Status] = frozenset((*LIVE, *ENDED))
_BEFORE_ALL = -(2**63)  # a row with a number that no run gives is found too
FORGOTTEN: tuple[int, int, int, list[Any], dict[str, Any]] = (0, 0, 0, [], {})  # how far a deleted run had got


class SqliteTx(SqliteCalls, SqliteEvidence, SqliteHalts, SqliteProcesses, SqliteTokens):
    """Reads and writes inside a transaction that somebody else begins and ends."""

    __slots__ = ("_at", "_logged")

    def __init__(self, connection: Connection, now: float, cleaning: Cleaning | None = None) -> None:
        super().__init__(connection, now, cleaning)
        self._at = b""  # the same as JSON, once it was needed
        self._logged: list[tuple[str, int, list[str]]] = []  # rows of logs that the next row of the record names

    # --- runs -----------------------------------------------------------------------------

    def run(self, id: str) -> RunRow | None:  # noqa: A002 - the word users know
        return _run(self._c.execute(_Q["run_by_id"], (id,)).fetchone())

    def runs(self, ids: Sequence[str]) -> dict[str, RunRow | StoreDamaged]:
        found: dict[str, RunRow | StoreDamaged] = {}
        for row in self._c.execute(_Q["runs_by_id"], (to_json(ids).decode(),)).fetchall():
            try:
                run = _run(row)
            except StoreDamaged as error:
                found[row[1]] = error
            else:
                if run is not None:
                    found[run.id] = run
        return found

    def run_n(self, n: int) -> RunRow | None:
        return _run(self._c.execute(_Q["run_by_n"], (n,)).fetchone())

    def insert_run(self, row: RunRow, events: Sequence[Event], state: bytes) -> None:
        self._c.execute(
            _Q["insert_run"],
            (
                *(row.id, row.agent, row.status, genesis(row.id), row.fence, row.epoch, row.holder),
                *(to_json(row.doc), row.parent, row.created, row.wake_at),
            ),
        )
        row.n = self._c.execute("SELECT last_insert_rowid()").fetchone()[0]
        row.seq, row.head = 0, genesis(row.id)
        self.save(row, events, state=state)

    def advance(
        self,
        row: RunRow,
        events: Sequence[Event | Quick | Sealed],
        seq: int,
        step: int | None,
        state: bytes | None,
        logs: Sequence[LogRows] = (),
    ) -> bool:
        if not events:  # nothing that anybody must see: only the guard is asked
            return bool(self._c.execute(_Q["last_seq"], (row.n,)).fetchone()[0] == seq)
        self._logged = [_logged(*rows) for rows in logs]
        if not self._append(row, events, seq, step, state, row.fence):
            return False
        for rows in logs:
            self._write_log(*rows)
        return True

    def save(self, row: RunRow, events: Sequence[Event], *, state: bytes | None = None) -> None:
        step = row.step if state is not None else None
        if not self._append(row, events, row.seq, step, state, None):  # a claim raises the fence
            raise AssertionError(f"run {row.id} was saved from a row that was not read in this transaction")
        self._c.execute(
            _Q["save_run"],
            (
                *(row.status, row.seq, row.head, row.fence, row.epoch, row.holder),
                *(to_json(row.doc), row.wake_at, _needs(row.status, row.doc), row.status, row.n),
            ),
        )

    def _append(
        self,
        row: RunRow,
        events: Sequence[Event | Quick | Sealed],
        seq: int,
        step: int | None,
        state: bytes | None,
        fence: int | None,
    ) -> bool:
        """One row of the record after `seq`; False, and nothing written, if the record or the fence has moved on.

        Without a fence, the run was read in this transaction.
        """
        last = seq + len(events)
        if state is not None:
            row.snapshot = last
        body = self._body(row, events, seq)
        head = link(row.head, last, self.now, step, digests(body, state))
        values = (row.n, last, self.now, body, step, state, head, row.n, seq)
        if fence is None:
            appended = self._c.execute(_Q["append_read"], values)
        else:
            appended = self._c.execute(_APPEND, (*values, row.n, fence))
        if appended.rowcount != 1:
            return False
        row.seq, row.head = last, head
        return True

    def change_doc(self, row: RunRow, changes: Iterable[Callable[[RunDoc], None]]) -> RunDoc:
        doc = copy(row.doc)
        for change in changes:
            change(doc)
        self._c.execute(_Q["save_doc"], (to_json(doc), _needs(row.status, doc), row.n))
        return doc

    def _body(self, row: RunRow, events: Sequence[Event | Quick | Sealed], seq: int) -> bytes:
        """Events, numbered from `seq` on, and how far the run has got with them."""
        if not self._at:
            self._at = b"%r" % self.now
        at = self._at
        bodies: list[bytes] = []
        made_here: list[int] = []  # places of events that nobody has redacted yet
        for event in events:
            seq += 1
            if isinstance(event, Quick):
                bodies.append(event.json(seq, at))
            elif isinstance(event, Sealed):
                bodies.append(self._stamped(event.event, seq))
            else:
                made_here.append(len(bodies))
                bodies.append(self._stamped(event, seq))
        progress = _progress(row)
        if made_here and self._cleaning is not None:
            *cleaned, progress = self._cleaning.clean_each([*[bodies[place] for place in made_here], progress])
            for place, body in zip(made_here, cleaned, strict=True):
                bodies[place] = body
        lines = b"[%b]\n%b" % (b",".join(bodies), progress)
        if self._logged:
            lines += b"\n" + to_json(self._logged)
            self._logged = []
        return lines

    def _stamped(self, event: Event, seq: int) -> bytes:
        """The event as it is written, with its number and its time."""
        event.seq = seq
        event.at = self.now
        if self.route and isinstance(event, ByPerson) and not event.route:  # what is done for others brings their way
            event.route, event.by_token = str(self.route), token_of(self.route)
        if isinstance(event, Stamped | Asking):
            event.uptime, event.boot = self.uptime, boot_id() or None
        if self.held_since is not None and isinstance(event, Asking):
            event.accepted = self.held_since
        return to_json(event, inf_nan_mode="constants")

    def list_runs(
        self,
        *,
        status: Sequence[str] | None,
        agent: str | None,
        labels: dict[str, str] | None,
        needs: bool | None,
        limit: int,
        before: str | None,
        scope: Scope | None = None,
    ) -> list[tuple[str, str, Status]]:
        where, values = ["1"], list[Any]()
        if status is not None:
            where.append(f"status IN ({', '.join('?' * len(status))})")
            values += status
        if agent is not None:
            where.append("agent = ?")
            values.append(agent)
        where += [HAS_LABEL] * len(labels or {})
        values += label_values(labels or {})
        if scope is not None:
            condition, bound = scope_sql(scope)
            where.append(condition)
            values += bound
        if needs is not None:
            where.append("needs > 0" if needs else "needs = 0")
        if before is not None:
            where.append("n < (SELECT n FROM runs WHERE id = ?)")
            values.append(before)
        sql = f"SELECT id, agent, status FROM runs WHERE {' AND '.join(where)} ORDER BY n DESC LIMIT ?"  # noqa: S608 - fixed words, values are bound
        return [(r[0], r[1], r[2]) for r in self._c.execute(sql, (*values, limit)).fetchall()]

    def children(self, parent: str, *, live: bool) -> list[str]:
        query = _Q["live_children" if live else "children"]
        return [r[0] for r in self._c.execute(query, (parent,)).fetchall()]

    def uncounted_children(self, parent: str) -> list[str]:
        return [r[0] for r in self._c.execute(_Q["uncounted_children"], (parent,)).fetchall()]

    def queued(self, agents: Mapping[str, int]) -> list[tuple[str, str, str, str | None]]:
        found = [row for each in agents.items() for row in self._c.execute(_Q["queued"], each).fetchall()]
        found.sort(key=lambda row: row[0])
        return [(r[1], r[2], r[3], r[4]) for r in found]

    def held(self) -> list[tuple[str, str, str, str | None]]:
        return [(r[0], r[1], r[2], r[3]) for r in self._c.execute(_Q["held"]).fetchall()]

    def claimable(self) -> list[tuple[str, str, str, str | None]]:
        return [(r[0], r[1], r[2], r[3]) for r in self._c.execute(_Q["claimable"]).fetchall()]

    def due(self, now: float) -> list[str]:
        return [r[0] for r in self._c.execute(_Q["due"], (now,)).fetchall()]

    # --- record ---------------------------------------------------------------------------

    def snapshot(self, row: RunRow, step: int | None = None) -> tuple[int, bytes] | None:
        if step is None or step == row.step:
            found = self._c.execute(_Q["record_row"], (row.n, row.snapshot)).fetchone()
            return None if found is None else (found[0], bytes(found[4]))
        if step > row.step or step < 0:
            return None
        found = self._c.execute(_Q["snapshot_of_step"], (row.n, row.snapshot, step)).fetchone()
        return None if found is None else (found[0], bytes(found[1]))

    def snapshot_at(self, row: RunRow, seq: int) -> bytes | None:
        found = self._c.execute(_Q["record_row"], (row.n, seq)).fetchone()
        return None if found is None or found[4] is None else bytes(found[4])

    def record(self, n: int, after: int, limit: int = 500, *, naming: str = "") -> list[tuple[int, list[Event]]]:
        rows = self._c.execute(_Q["record_after"], (n, after, limit)).fetchall()
        return [(r[0], [e for e in _events(n, r[0], r[2], naming.encode()) if e.seq > after]) for r in rows]

    def record_of_all(
        self, after: int, labels: dict[str, str] | None, limit: int = 500
    ) -> list[tuple[int, str, list[Event]]]:
        wanted = " AND ".join([HAS_LABEL] * len(labels or {})) or "1"
        sql = _Q["record_of_all"].replace("{labels}", wanted)
        rows = self._c.execute(sql, (*label_values(labels or {}), after, limit)).fetchall()
        return [(r[0], r[1], [] if r[2] is None else decode(bytes(r[2]))) for r in rows]

    def last_record(self) -> int:
        return int(self._c.execute(_Q["last_record"]).fetchone()[0])

    def verify(self, row: RunRow) -> str:
        """Why the chain of this run does not hold, or an empty string."""
        previous, last = genesis(row.id), _BEFORE_ALL
        anchor = self._c.execute(_Q["anchor"], (row.n,)).fetchone()
        anchored = False
        while True:
            rows = self._c.execute(_Q["record_after"], (row.n, last, 1000)).fetchall()
            for found in rows:
                if not _fits(previous, found):
                    return f"row {found[0]} of the record does not fit the one before it"
                previous, last = bytes(found[5]), found[0]
                anchored = anchored or (last, previous) == anchor
            if len(rows) < 1000:
                break
        if not anchored:
            return "the record does not hold what the run was last told"
        return "" if (last, previous) == (row.seq, row.head) else f"the record ends at {last}, the run says {row.seq}"

    def verify_snapshot(self, row: RunRow) -> str:
        """The same for the current snapshot and the head alone: constant cost."""
        for seq in (row.snapshot, row.seq):
            found = self._c.execute(_Q["record_row"], (row.n, seq)).fetchone()
            if found is None:
                return f"row {seq} of the record is missing"
            before = self._c.execute(_Q["record_before"], (row.n, seq)).fetchone()
            if not _fits(genesis(row.id) if before is None else before[5], found):
                return f"row {seq} of the record does not fit the one before it"
            if seq == row.seq and bytes(found[5]) != row.head:
                return "the run's head is not the record's"
        return ""

    # --- logs -----------------------------------------------------------------------------

    def append_log(self, log: str, first: int, bodies: Iterable[bytes]) -> None:
        rows = list(bodies)
        self._logged.append(_logged(log, first, rows))
        self._write_log(log, first, rows)

    def _write_log(self, log: str, first: int, bodies: list[bytes]) -> None:
        for idx, body in enumerate(bodies, first):
            self._c.execute(_Q["append_log"], (log, idx, body))

    def read_log(self, log: str, start: int, stop: int) -> list[bytes]:
        return [bytes(r[0]) for r in self._c.execute(_Q["read_log"], (log, start, stop)).fetchall()]


def _needs(status: Status, doc: RunDoc) -> int:
    """Does it wait for a person? What only a hold shows, and redirects that were not read."""
    held = status == "paused" and not _NEEDING.isdisjoint(doc.holds)
    return int(held or (bool(doc.unread) and status in LIVE and status != "cancelling"))


def _logged(log: str, first: int, bodies: list[bytes]) -> tuple[str, int, list[str]]:
    return log, first, [row_digest(body) for body in bodies]


def _fits(previous: Any, found: Any) -> bool:
    """Is this row of the record what was written after the row with that hash? Odd types are not."""
    seq, at, body, step, state, hash_, gone = found
    if gone is not None and (body != TOMBSTONE or state is not None):
        return False
    try:
        return bool(link(previous, seq, at, step, digests(body, state) if gone is None else gone) == hash_)
    except (TypeError, struct.error):
        return False


def _run(r: Any) -> RunRow | None:
    if r is None:
        return None
    try:
        progress = FORGOTTEN if r[14] is not None else from_json(bytes(r[13]).split(b"\n", 2)[1])
        attempt, step, snapshot, in_flight, spent = progress
        if r[3] not in _STATUSES:
            raise ValueError(f"its status is {r[3]!r}")
        return RunRow(
            *(r[0], r[1], r[2], r[3], r[4], bytes(r[5]), r[6], attempt, r[7], step, snapshot, r[8]),
            *(
                [CallRef(**ref) for ref in in_flight],
                Spent(**spent),
                documents.validate_json(r[9]),
                r[10],
                r[11],
                r[12],
            ),
        )
    except (IndexError, TypeError, ValueError, Misuse) as error:
        raise unreadable(f"the row of run {r[1]!r}", error) from error


def _progress(row: RunRow) -> bytes:
    """How far a run has got, as `_run` reads it; written by hand, since every commit needs it."""
    spent = row.spent
    return b'[%d,%d,%d,[%b],{"steps":%d,"calls":%d,"input_tokens":%d,"output_tokens":%d,"cost":%b,"seconds":%b}]' % (
        *(row.attempt, row.step, row.snapshot, b",".join([_reference(ref) for ref in row.in_flight])),
        *(spent.steps, spent.calls, spent.input_tokens, spent.output_tokens),
        *(to_json(spent.cost), to_json(spent.seconds)),
    )


def _reference(ref: CallRef) -> bytes:
    return b'{"id":%b,"tool":%b,"effect":"%b","since":%b,"title":%b}' % (
        *(to_json(ref.id), to_json(ref.tool), ref.effect.encode(), to_json(ref.since), to_json(ref.title)),
    )


def _events(run: int, seq: int, body: Any, naming: bytes) -> list[Event]:
    try:
        raw = bytes(body)
        return decode(raw) if naming in raw else []
    except (TypeError, ValueError) as error:
        raise unreadable(f"row {seq} of the record of run number {run}", error) from error
