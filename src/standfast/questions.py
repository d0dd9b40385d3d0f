"""Questions to people: approvals of calls, and calls that are nothing but a question."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from standfast import events as ev
from standfast.builtin_calls import AskCall
from standfast.events import Event
from standfast.rows import CallRow, RunRow
from standfast.tool import Call

if TYPE_CHECKING:
    from standfast.abc import Tx
    from standfast.session import Session


def takes_all(rule: Callable[..., Any], args: dict[str, Any]) -> bool:
    """Does a confirm rule want the arguments as one (`lambda args: ...`), not each by its name?"""
    parameters = [p for p in inspect.signature(rule).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return len(parameters) == 1 and parameters[0].name not in args


def withdraw(tx: Tx, run: RunRow, wanted: Container[str]) -> list[Event]:
    """Questions that the step no longer asks need no answer."""
    events: list[Event] = []
    for call in tx.open_calls(run.n):
        if call.status == "asking" and call.id not in wanted:
            call.status = "withdrawn"
            tx.update_call(call)
            events.append(ev.Answered(call=call.id, answer="withdrawn", by=None, reason="the step no longer asks this"))
    if events:
        run.wake_at = wake_at(tx, run)
    return events


def wake_at(tx: Tx, row: RunRow) -> float | None:
    """When somebody must look at this run again although nothing happens."""
    times = [c.wake_at for c in tx.open_calls(row.n) if c.status == "asking" and c.wake_at is not None]
    if row.doc.deadline is not None:
        times.append(row.doc.deadline)
    return min(times, default=None)


def void_decisions(tx: Tx, run: RunRow, asked: Container[str]) -> list[Event]:
    """What a person said about calls of this step that a redirected attempt did not ask for counts no longer."""
    events: list[Event] = []
    for call in tx.calls_of_step(run.n, run.epoch, run.step):
        if call.status in ("approved", "denied") and call.id not in asked:
            call.status, call.error = "withdrawn", None
            tx.update_call(call)
            events.append(ev.Answered(call=call.id, answer="withdrawn", by=None, reason="the step no longer asks this"))
    return events


def question_row(session: Session, call: Call[Any], id_: str, text: str, title: str, attempt: int) -> CallRow:
    """The row that waits for a person; everything needed to answer without the agent's code is in it."""
    tool = call.tool
    now = session.env.clock.now()
    row = CallRow(
        run=session.row.n,
        id=id_,
        epoch=session.row.epoch,
        step=session.step,
        attempt=attempt,
        tool=tool.name,
        kind=tool.kind,
        effect=tool.effect,
        settles=tool.settles,
        undoable=tool.undo is not None,
        status="asking",
        args=call.raw,
        question=text,
        title=title,
        since=now,
    )
    if isinstance(call, AskCall):
        row.options = cast("JsonValue", call.args["options"])
        row.schema = cast("JsonValue", call.codec.schema)
        row.default = call.default
        row.wake_at = None if call.timeout is None else now + call.timeout
    return row
