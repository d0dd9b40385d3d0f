"""Short ways to put something into a store."""

from __future__ import annotations

from typing import Any

from standfast import events as ev
from standfast.abc import Store, Tx
from standfast.records import CallRef
from standfast.rows import CallRow, MailRow, RunDoc, RunRow
from standfast.starting import blank_row


def insert(store: Store, id: str = "r1", *, state: bytes = b"[]\n0", **fields: Any) -> RunRow:  # noqa: A002
    """A new run, as it is in the store afterwards."""
    doc = fields.pop("doc", None) or RunDoc()
    agent = fields.pop("agent", "a")

    def act(tx: Tx) -> None:
        row = blank_row(id, agent, doc, tx.now)
        for name, value in fields.items():
            setattr(row, name, value)
        tx.insert_run(row, [ev.RunStarted(agent=agent, status=row.status)], state)

    store.write(act)
    return get(store, id)


def get(store: Store, id: str = "r1") -> RunRow:  # noqa: A002
    row = store.read(lambda tx: tx.run(id))
    assert row is not None
    return row


def note(text: str) -> ev.Noted:
    return ev.Noted(text=text, attempt=1)


def step(store: Store, row: RunRow, state: bytes) -> RunRow:
    """Take a step with a snapshot, as a driver does."""
    mine = row.copy()
    mine.step += 1
    took = store.write(lambda tx: tx.advance(mine, [note(f"step {mine.step}")], row.seq, mine.step, state))
    assert took
    return get(store, row.id)


def call(run: int, id: str, **fields: Any) -> CallRow:  # noqa: A002
    given: dict[str, Any] = {"epoch": 0, "step": 0, "attempt": 1, "tool": "t", "kind": "tool", "effect": "write"}
    return CallRow(run=run, id=id, **{**given, "status": "started", "args": b"{}", **fields})


def mail(run: int, id: str, **fields: Any) -> MailRow:  # noqa: A002
    return MailRow(run=run, id=id, kind="redirect", text=id, when="next", **fields)


def ref(id: str) -> CallRef:  # noqa: A002
    return CallRef(id, "t", "write", 1.0)
