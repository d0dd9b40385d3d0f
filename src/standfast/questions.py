"""Questions to people: approvals of calls, and calls that are nothing but a question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue

from standfast.builtin_calls import AskCall
from standfast.rows import CallRow
from standfast.tool import Call

if TYPE_CHECKING:
    from standfast.session import Session


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
