"""How a run comes into being: its row, its contract, snapshot 0 and its plan in one transaction."""

from __future__ import annotations

import secrets
from typing import Any, cast

from standfast import budget as budgets
from standfast import events as ev
from standfast.abc import Tx
from standfast.agents import Agent, contract_budget, contract_plan
from standfast.codec import JsonSchema, from_json, storable, to_json
from standfast.errors import NotStorable, RunIdTaken, UnknownAgent, WrongState
from standfast.events import Event
from standfast.halts import halt_run, holding, refuse_start
from standfast.outside import Outside
from standfast.records import Budget, Json, Spent
from standfast.rows import RunDoc, RunRow
from standfast.snapshots import pack
from standfast.start_digest import start_digest
from standfast.stores.chain import genesis
from standfast.taking_text import only_text


def start_once(
    tx: Tx,
    code: Agent[Any, Any] | None,
    name: str,
    state: Any,
    id: str,  # noqa: A002
    checks: Outside,
    **ask: Any,
) -> bool:
    """Start the run; False if it is there already, from the same agent and state. Without code: by name."""
    old = tx.run(id)
    if old is not None:
        if old.agent == name and old.doc.start_digest == digest_of_start(tx, code, name, state):
            return False
        raise RunIdTaken(
            f"run {id!r} exists already, with another agent or state",
            hint="give another id, or leave it out and one is made",
        )
    refuse_start(tx, name, ask["labels"] or {})
    if code is None:
        _start_by_name(tx, name, state, id, checks, **ask)
    else:
        new_run(tx, code, state, id=id, **ask)
    return True


def digest_of_start(tx: Tx, code: Agent[Any, Any] | None, name: str, state: Any) -> str:
    """What tells one start from another; the same with the agent's code and by its name."""
    return _digest_by_name(tx, name, state) if code is None else _digest(code, state)


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
    """A queued run of an agent whose code is here; a child that a halt matches begins as held."""
    raw, logs = agent.state_codec.dump_new(state)
    plan = list(agent.plan())
    tx.put_contract(agent.contract_id, agent.name, agent.contract)
    for log, first, bodies in logs:
        tx.append_log(log, first, bodies)
    doc = RunDoc(
        by=by,
        labels=labels or {},
        deadline=deadline,
        contract=agent.contract_id,
        start_digest=_digest(agent, state),
        budget=_budget(agent.budget, budget),
        plan=plan,
        parent_call=parent_call,
    )
    row = blank_row(id, agent.name, doc, tx.now, parent)
    row.wake_at = deadline
    events: list[Event] = [ev.RunStarted(agent=agent.name, by=by, reason=reason, labels=doc.labels, parent=parent)]
    if parent is not None:
        events += halt_run(row, holding(tx, row), tx.now)
    tx.insert_run(row, events, pack(plan, raw))
    return row


def blank_row(id: str, agent: str, doc: RunDoc, now: float, parent: str | None = None) -> RunRow:  # noqa: A002
    """A run that has done nothing yet."""
    doc.salt = secrets.token_hex(16)
    return RunRow(
        n=0,
        id=id,
        agent=agent,
        status="queued",
        seq=0,
        head=genesis(id),
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


def _digest(agent: Agent[Any, Any], state: Any) -> str:
    codec = agent.state_codec
    return start_digest(agent.name, from_json(codec.dump(state)), codec.schema)


def _digest_by_name(tx: Tx, name: str, state: Any) -> str:
    contract = _contract_of(tx, name)[1]
    schema: Any = contract["state"]
    return start_digest(name, plain_state(state, contract), schema)


def state_for(agent: Agent[Any, Any], state: Any) -> Any:
    """The state as the agent's type, or WrongState."""
    kind: Any = agent.state_type
    given = type(state).__name__
    if isinstance(kind, type) and isinstance(state, kind):
        return state
    if isinstance(state, str) and (field := agent.text_field or only_text(agent.state_codec.schema)):
        state = {field: state}
    from_a_dict = isinstance(state, dict)
    try:
        if from_a_dict:
            return agent.state_codec.load(storable(state))
        return agent.state_codec.accept(state)
    except NotStorable as error:
        raise WrongState(
            f"agent {agent.name} takes {getattr(kind, '__name__', kind)}, not {given}: {error.message}",
            hint="no run was started; " + (error.hint or "give a state of that type"),
        ) from error


def plain_state(state: Any, contract: Json) -> Json:
    """A state as JSON, where the agent's code is not here."""
    field = contract.get("text_field") or only_text(contract.get("state"))
    plain = from_json(storable({str(field): state} if isinstance(state, str) and field else state))
    if not isinstance(plain, dict):
        raise WrongState("without the agent's code, the state must be an object", hint="give a dict")
    return cast("Json", plain)


def _contract_of(tx: Tx, name: str) -> tuple[str, Json]:
    found = tx.contract_of(name)
    if found is None:
        raise UnknownAgent(
            f"no agent {name!r} is known here or in this store", hint="give the agent itself, or check its name"
        )
    return found


def _budget(of_agent: Budget, asked: Budget | None) -> Budget:
    return budgets.raised(of_agent, asked or Budget())


def _start_by_name(tx: Tx, name: str, state: Any, run_id: str, checks: Outside, **ask: Any) -> RunRow:
    """A run of an agent whose code is in another process: validated by its stored schema."""
    contract_id, contract = _contract_of(tx, name)
    plain = plain_state(state, contract)
    schema: Any = contract["state"]
    JsonSchema.fits(checks, schema, plain)
    plan = contract_plan(contract)
    doc = RunDoc(
        by=ask["by"],
        labels=ask["labels"] or {},
        deadline=ask["deadline"],
        contract=contract_id,
        start_digest=start_digest(name, plain, schema),
        budget=_budget(contract_budget(contract), ask["budget"]),
        plan=plan,
    )
    row = blank_row(run_id, name, doc, tx.now)
    row.wake_at = ask["deadline"]
    event = ev.RunStarted(agent=name, by=ask["by"], reason=ask["reason"], labels=doc.labels)
    tx.insert_run(row, [event], pack(plan, to_json(plain)))
    return row
