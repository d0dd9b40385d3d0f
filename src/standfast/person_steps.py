"""A tool that a person performs in a run they have taken over: a step of its own, through the same gate (R24).

The agent's own step, if one was under way, stands still meanwhile: its journal, its values and its text move
behind the person's step, and its calls keep their keys.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from standfast import events as ev
from standfast.abc import Tx
from standfast.commit import Boundary
from standfast.contained import contained
from standfast.errors import CallFailed, StandfastError
from standfast.events import Event
from standfast.leftovers import end_leftovers
from standfast.names import name_words
from standfast.records import Json, Residue
from standfast.rows import PersonCall, RunRow, SetAside
from standfast.stepping import Turn, told
from standfast.stops import enter, left_running
from standfast.tools import Tool, unperformed

if TYPE_CHECKING:
    from standfast.run import Run
    from standfast.scope import Attempt
    from standfast.session import Session

KEPT_RESULT = 4096  # a longer result is in the record, not in what the agent is told


async def perform_for_person(session: Session, scope: Attempt, run: Run[Any], snapshot: bytes) -> Turn:
    """Perform what the person wants; the state of the run stays as it is."""
    unperformed.set(None)
    person = session.row.doc.person
    assert person is not None
    acted = ev.PersonActed(
        order=person.id,
        by=person.by,
        route=person.route,
        by_token=person.by_token,
        step=run.place,
        tool=person.tool,
        args=person.args,
        call="",
        attempt=scope.number,
    )
    try:
        tool = session.agent.tool(person.tool)
        if tool is None:
            acted.error, acted.message = "UnknownTool", f"agent {session.agent.name} has no tool {person.tool!r}"
        else:
            acted.result = await _result(session, run, tool, person)
    except CallFailed as error:
        acted.error, acted.message = error.type, error.message
    except asyncio.CancelledError:
        if scope.closed or scope.broken:
            raise
        return Turn("error", error=told(RuntimeError("the person's call was cancelled from inside")))
    except StandfastError as error:  # arguments that do not fit, say: nothing was performed
        acted.error, acted.message = type(error).__name__, str(error)
    except BaseException as error:  # noqa: BLE001 - the run is held, with the traceback
        return Turn("error", error=told(contained(error, scope.main)))
    if scope.broken:
        return Turn("held")
    run.number = 0
    await end_leftovers(session, scope, rests=True)
    acted.call = next(iter(session.journal.asked), "")
    boundary = Boundary(scope, scope.number, run.place, snapshot, [], [person.id])
    return Turn("performed", boundary, acted)


async def _result(session: Session, run: Run[Any], tool: Tool[..., Any], person: PersonCall) -> JsonValue:
    call = tool.parse(to_json(person.args))
    value = await run.call(call, why=f"performed by {name_words(person.by, person.by_token, 'a person')}")
    del session
    result: JsonValue = from_json(tool.dump_result(value))
    return result


def take_person_boundary(
    tx: Tx, row: RunRow, boundary: Boundary, acted: ev.PersonActed, programs: list[Residue]
) -> list[Event]:
    """The end of a person's step: what the agent's own step had done so far belongs to the step after it."""
    doc = row.doc
    events: list[Event] = [ev.StepFinished(step=boundary.step, attempt=boundary.attempt), acted]
    for mail in tx.pending_mail(row.n):
        if mail.id in boundary.read_mail:
            mail.status, mail.step = "consumed", boundary.step
            tx.update_mail(mail)
            events.append(ev.MailConsumed(mail=mail.id, step=boundary.step))
    aside = doc.set_aside or SetAside(row.snapshot)
    doc.set_aside = SetAside(aside.since, [*aside.calls, acted.call])
    _move_behind(tx, row, boundary.step)
    row.step = boundary.step + 1
    row.attempt += 1
    row.spent.steps += 1
    doc.person = None
    doc.steps_of_people.append(boundary.step)
    doc.retrying = {}
    if doc.taken is not None:
        doc.taken.performed = [*doc.taken.performed, _for_the_agent(acted)]
    if row.status == "running":
        changed = "; ".join(
            filter(None, [doc.changed, f"{name_words(acted.by, acted.by_token, 'a person')} performed {acted.tool}"])
        )
        doc.stop = None
        enter(row, "paused", tx.now)
        doc.changed = changed
        left = [one.what for one in (*left_running(tx, row), *programs)]
        events.append(ev.RunPaused(holds=list(doc.holds), text=f"{acted.tool} was performed", residue=left))
    return events


def _move_behind(tx: Tx, row: RunRow, step: int) -> None:
    """What belongs to the agent's own step, which was this one, belongs to the next: for the agent it is the same."""
    doc = row.doc
    tx.move_step(row.n, row.epoch, step)
    doc.facts = {name: replace(f, step=step + 1) if f.step == step else f for name, f in doc.facts.items()}
    doc.plan = [replace(item, step=step + 1) if item.step == step else item for item in doc.plan]
    stale = doc.holds.get("stale")
    if stale is not None and stale.data == step:  # "redo from step ..."
        stale.data = step + 1
    if not doc.values and not tx.calls_of_step(row.n, row.epoch, step + 1):
        return  # it had not begun: what waits for the step after this one is for it
    for mail in tx.pending_mail(row.n):
        if mail.not_before == step + 1:
            mail.not_before += 1
            tx.update_mail(mail)


def _for_the_agent(acted: ev.PersonActed) -> Json:
    """What the agent is told of it when the run is handed back."""
    told_: Json = {
        "tool": acted.tool,
        "args": acted.args,
        "by": acted.by,
        "by_token": acted.by_token,
        "call": acted.call,
        "step": acted.step,
    }
    if acted.error:
        told_["error"] = f"{acted.error}: {acted.message}"
    elif len(to_json(acted.result)) <= KEPT_RESULT:
        told_["result"] = acted.result
    else:
        told_["result_bytes"] = len(to_json(acted.result))
    return told_
