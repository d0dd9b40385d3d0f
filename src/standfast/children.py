"""Child runs: begun by the transaction that admits their call, so that none is lost or begun twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from standfast.abc import Tx
from standfast.builtin_calls import ChildCall
from standfast.control import Ask, nobody_is_dead
from standfast.errors import Misuse
from standfast.flight import Flight, Outcome
from standfast.leases import proven_dead
from standfast.records import ENDED, LIVE
from standfast.rows import CallRow, RunRow, child_id
from standfast.spending import family_spent
from standfast.starting import new_run
from standfast.verbs import cancel_one

if TYPE_CHECKING:
    from standfast.session import Session


DEEPEST_FAMILY = 20  # a run, its child, that one's child ...


def check_depth(session: Session) -> None:
    """Misuse if the child would be too deep: an agent that calls itself does not go on for ever."""
    deep = len(session.env.store.read(lambda tx: tx.lineage(session.row.id)))
    if deep >= DEEPEST_FAMILY:
        raise Misuse(
            f"{session.row.id} descends from {deep - 1} runs, and may have no child of its own",
            hint=f"at most {DEEPEST_FAMILY} runs call each other; let one of them call several instead",
        )


def check_driven(session: Session, agent: str) -> None:
    """Misuse if no driver there is, this one or another, would ever take up a child of this agent."""
    if agent in session.env.agents:
        return
    leases = session.env.store.read(lambda tx: tx.leases())
    if not any(agent in lease.agents and not proven_dead(lease) for lease in leases):
        raise Misuse(
            f"no driver knows the agent {agent!r}: the child would never begin",
            hint="give it to the Runtime beside its parent: Runtime(..., agents=[...])",
        )


def insert_child(session: Session, call_id: str, call: ChildCall[Any]) -> Callable[[Tx, RunRow], None]:
    """Write the child in the parent's admitting transaction."""
    agent = call.agent

    def insert(tx: Tx, parent: RunRow) -> None:
        id_ = child_id(parent.id, call_id)
        if tx.run(id_) is None:
            new_run(tx, agent, call.state, id=id_, by=parent.doc.by, parent=parent.id, parent_call=call_id)
            tx.signal(id_)

    session.env.loop.call_soon(session.look_for_work)
    return insert


def cancel_children(tx: Tx, row: RunRow, calls: list[CallRow]) -> None:
    """Cancel the child runs of these calls that are still live: the step has ended without asking for them."""
    ask = Ask(reason="its parent's step was taken again and did not ask for it", trigger="parent")
    for call in calls:
        child = tx.run(child_id(row.id, call.id))
        if child is not None and child.status in LIVE and child.status != "cancelling":
            cancel_one(tx, child, ask, "step", soft=False, is_dead=nobody_is_dead)


async def wait_for_child(session: Session, flight: Flight, call: ChildCall[Any]) -> Outcome:
    """Until the child has ended."""
    id_ = child_id(session.row.id, flight.id)
    session.look_for_work()
    with session.env.hub.waiting(id_) as waiter:
        while True:
            row = session.env.store.read(lambda tx: tx.run(id_))
            assert row is not None, f"child {id_} of {session.row.id} is gone"
            if row.status in ENDED:
                break
            await waiter.wait(0.5)
    ended = row
    spent = session.env.store.read(lambda tx: family_spent(tx, ended))
    session.spend(spent.input_tokens, spent.output_tokens, spent.cost)
    session.count_child_calls(spent.calls)
    if row.status == "done":
        return Outcome("finished", to_json(row.doc.result))
    if row.status == "cancelled":
        return Outcome("failed", error="ChildCancelled", message=f"child {id_} ({call.agent.name}) was cancelled")
    error = row.doc.error
    return Outcome(
        "failed", error=error.type if error else "RunFailed", message=error.message if error else "it failed"
    )
