"""Questions to people: approvals of calls, and calls that are nothing but a question."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from standfast.builtin_calls import AskCall
from standfast.rows import CallRow
from standfast.tools import Call

if TYPE_CHECKING:
    from standfast.session import Session


def takes_all(rule: Callable[..., Any], args: dict[str, Any]) -> bool:
    """Does a confirm rule want the arguments as one (`lambda args: ...`), not each by its name?"""
    parameters = [p for p in inspect.signature(rule).parameters.values() if p.kind is not p.VAR_KEYWORD]
    return len(parameters) == 1 and parameters[0].name not in args


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
        person=session.person,
    )
    if isinstance(call, AskCall):
        row.options = cast("JsonValue", call.args["options"])
        row.schema = cast("JsonValue", call.codec.schema)
        row.default = call.default
        row.wake_at = None if call.timeout is None else now + call.timeout
    return row
