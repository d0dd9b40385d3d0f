"""Fork: a new run from a snapshot of another; no journal, mail or ledger comes with it (R10)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from standfast import events as ev
from standfast.abc import Tx
from standfast.agents import Agent
from standfast.codec import JsonSchema, LogRows, storable, to_json
from standfast.errors import Misuse, NotStorable, WrongState
from standfast.events import Event
from standfast.halts import refuse_start
from standfast.outside import Outside
from standfast.records import LIVE
from standfast.rows import CallRow, RunDoc, RunRow, superseded
from standfast.snapshots import thoughts_in, unpack, with_state
from standfast.starting import blank_row, plain_state
from standfast.stops import enter, hold


def fork_run(
    tx: Tx,
    source: RunRow,
    at: int | None,
    state: Any,
    agent: Agent[Any, Any] | None,
    new_id: str,
    *,
    by: str | None,
    reason: str,
    checks: Outside,
) -> RunRow:
    """Write the fork; held as stale if what it builds on was undone, or belongs to a live run."""
    if source.doc.forgotten:
        raise Misuse(f"run {source.id} {source.doc.forgotten}", hint="fork another run")
    step = source.step if at is None else at
    found = tx.snapshot(source, step)
    if found is None:
        raise Misuse(f"run {source.id} has no step {step}", hint=f"it is at step {source.step}")
    if tx.run(new_id) is not None:
        raise Misuse(f"run {new_id!r} exists already", hint="give the fork another id")
    refuse_start(tx, source.agent, source.doc.labels)
    plan, raw = unpack(found[1])
    if state is not None:
        raw = _replaced(tx, source, agent, state, checks)
    doc = RunDoc(
        by=by,
        labels=dict(source.doc.labels),
        contract=source.doc.contract,
        start_digest="",  # no start is the same as a fork
        budget=source.doc.budget,
        plan=plan,
        stage_ids=dict(source.doc.stage_ids),
        frames=thoughts_in(found[1]).frames,
        branch=True,
        forked_from=source.id,
        facts={name: fact for name, fact in source.doc.facts.items() if fact.step < step},
        steps_of_people=[taken for taken in source.doc.steps_of_people if taken < step],
    )
    row = blank_row(new_id, source.agent, doc, tx.now)
    row.step = step
    events: list[Event] = [
        ev.RunStarted(
            agent=row.agent, by=by, reason=reason, labels=doc.labels, forked_from=f"{source.id} at step {step}"
        )
    ]
    trouble = _trouble(tx, source, step)
    if trouble:
        hold(row, "stale", tx.now, trouble)
        enter(row, "paused", tx.now)
        events.append(ev.RunPaused(holds=["stale"], text=trouble))
    tx.insert_run(row, events, with_state(found[1], raw))
    tx.save(source, [ev.Forked(at_step=step, fork=new_id, by=by)])
    return row


def _replaced(tx: Tx, source: RunRow, agent: Agent[Any, Any] | None, state: Any, checks: Outside) -> bytes:
    if agent is None:
        contract = tx.contract(source.doc.contract) or {}
        plain = plain_state(state, contract)
        schema: Any = contract.get("state", {})
        JsonSchema.fits(checks, schema, plain)
        return to_json(plain)
    raw, logs = checks.found(lambda: _typed(agent, state))
    for log, first, bodies in logs:
        tx.append_log(log, first, bodies)
    return raw


def _typed(agent: Agent[Any, Any], state: Any) -> tuple[bytes, list[LogRows]]:
    try:
        typed = state if isinstance(state, agent.state_type) else agent.state_codec.load(storable(state))
        return agent.state_codec.dump_new(typed)
    except NotStorable as error:
        raise WrongState(f"the fork's state does not fit {agent.name}: {error.message}", hint=error.hint) from error


def _trouble(tx: Tx, source: RunRow, step: int) -> str:
    earlier = [c for c in _built_on(tx, source, step) if c.status in ("finished", "failed", "in_doubt")]
    undone = [c.tool for c in earlier if c.undo == "undone"]
    if undone:
        return f"effects it builds on were undone: {', '.join(undone)}"
    if earlier and source.status in LIVE:
        return f"effects it builds on belong to run {source.id}, which is still {source.status}"
    return ""


def _built_on(tx: Tx, source: RunRow, step: int) -> Iterator[CallRow]:
    """Effects that the state before a step builds on, children's included."""
    yield from (c for c in tx.ledger(source.n) if c.step < step and not superseded(c, source.doc.rewinds))
    for id_ in tx.children(source.id, live=False):
        child = tx.run(id_)
        began = None if child is None else tx.call(source.n, child.doc.parent_call)
        if child is not None and began is not None and began.step < step and not superseded(began, source.doc.rewinds):
            yield from _built_on(tx, child, child.step + 1)
