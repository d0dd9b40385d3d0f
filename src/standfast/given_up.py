"""A stage that was in progress when a deploy removed it: its step ends where it is (R16).

What it did stays and is in the ledger. The stage that follows gets a step of its own: in the same one, its calls would
have the keys of those that are done, and get their results.
"""

from __future__ import annotations

from typing import Any

from standfast import events as ev
from standfast.abc import Tx
from standfast.agents import Agent
from standfast.commit import forget_step
from standfast.control import Ask, nobody_is_dead
from standfast.events import Event
from standfast.rows import RunRow
from standfast.snapshots import pack, thoughts_in, unpack
from standfast.stage_plan import in_progress
from standfast.verbs import cancel_one
from standfast.withdrawing import void_decisions, withdraw


def give_up_stage(tx: Tx, row: RunRow, agent: Agent[Any, Any], state: bytes | None) -> tuple[list[Event], bytes | None]:
    """End the step of a stage that is gone; gives the snapshot before the next one. `state` is what there is so far."""
    running = in_progress(row.doc.plan, row.doc.stage_ids)
    begun = row.doc.values or tx.calls_of_step(row.n, row.epoch, row.step)
    if not running or not begun or row.status not in ("running", "pausing") or row.doc.target is not None:
        return [], state
    found = tx.snapshot(row)
    assert found is not None, f"run {row.id} has no snapshot"
    items, raw = unpack(state or found[1])
    plan = agent.fit_plan(items, row.doc.plan, row.doc.stage_ids)
    if not any(item.id == running and item.status == "dropped" for item in plan):
        return [], state
    gone = [*withdraw(tx, row, ()), *void_decisions(tx, row, ())]
    events: list[Event] = [*gone, ev.StepFinished(step=row.step, attempt=row.attempt)]
    _cancel_children(tx, row)
    row.step += 1
    row.attempt += 1
    row.spent.steps += 1
    forget_step(row.doc)
    row.doc.plan = plan
    events.append(ev.PlanChanged(plan=plan))
    return events, pack(plan, raw, thoughts_in(state or found[1]))


def _cancel_children(tx: Tx, row: RunRow) -> None:
    ask = Ask(reason="the stage that began it is gone", trigger="parent")
    for child in tx.children(row.id, live=True):
        child_row = tx.run(child)
        if child_row is not None and child_row.status != "cancelling":
            cancel_one(tx, child_row, ask, "step", soft=False, is_dead=nobody_is_dead)
