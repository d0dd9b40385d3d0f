"""How a run comes into being: its row, its contract, snapshot 0 and its plan in one transaction."""

from __future__ import annotations

from typing import Any

from standfast import budget as budgets
from standfast import events as ev
from standfast.abc import Tx
from standfast.agent import Agent
from standfast.codec import fingerprint, from_json
from standfast.records import Budget, Json, PlanItem, Spent
from standfast.rows import RunDoc, RunRow
from standfast.snapshots import pack
from standfast.stores.chain import GENESIS


def new_run(
    tx: Tx,
    agent: Agent[Any, Any],
    state: Any,
    *,
    id: str,  # noqa: A002 - the word users know
    by: str | None = None,
    reason: str = "",
    budget: Budget | None = None,
    labels: dict[str, str] | None = None,
    deadline: float | None = None,
    parent: str | None = None,
    parent_call: str = "",
) -> RunRow:
    """A queued run of an agent whose code is here."""
    raw, logs = agent.state_codec.dump_new(state)
    plan = [PlanItem(item, title) for item, title in agent.plan()]
    tx.put_contract(agent.contract_id, agent.name, agent.contract)
    for log, first, bodies in logs:
        tx.append_log(log, first, bodies)
    doc = RunDoc(
        by=by,
        labels=labels or {},
        deadline=deadline,
        contract=agent.contract_id,
        start_digest=digest(agent.name, from_json(agent.state_codec.dump(state))),
        budget=budgets.check(budgets.raised(agent.budget, budget) if budget else agent.budget),
        plan=plan,
        parent_call=parent_call,
    )
    row = blank_row(id, agent.name, doc, tx.now, parent)
    row.wake_at = deadline
    event = ev.RunStarted(agent=agent.name, by=by, reason=reason, labels=doc.labels, parent=parent)
    tx.insert_run(row, [event], pack(plan, raw))
    return row


def blank_row(id: str, agent: str, doc: RunDoc, now: float, parent: str | None = None) -> RunRow:  # noqa: A002
    """A run that has done nothing yet."""
    return RunRow(
        n=0,
        id=id,
        agent=agent,
        status="queued",
        seq=0,
        head=GENESIS,
        fence=0,
        attempt=0,
        epoch=0,
        step=0,
        snapshot=0,
        holder=None,
        in_flight=[],
        spent=Spent(),
        doc=doc,
        parent=parent,
        created=now,
    )


def digest(agent: str, state: Any) -> str:
    """What tells one start from another with the same id."""
    asked: Json = {"agent": agent, "state": state}
    return fingerprint(asked)
