"""A call as its undo or its probe sees it, rebuilt from the store."""

from __future__ import annotations

import reprlib
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from standfast.aside import TookTooLong, aside
from standfast.codec import Codec
from standfast.contained import text_of
from standfast.errors import NotStorable
from standfast.flight import Flight
from standfast.probes import NO_PROBE
from standfast.records import CallRef, Happened, NotHappened, Performed
from standfast.rows import CallRow
from standfast.tools import Call, Tool

if TYPE_CHECKING:
    from standfast.session import Session


def performed(tool: Tool[..., Any], row: CallRow) -> Performed[Any, Any]:
    """Arguments, what `before` had read, and the result if there is one."""
    return Performed(
        key=row.id,
        args=tool.load_args(row.args),
        before=None if row.before is None else before_codec(tool).load(row.before),
        result=None if row.result is None else tool.load_result(row.result),
        status=row.status,
    )


def call_of(tool: Tool[..., Any], row: CallRow, session: Session) -> Flight:
    """The call as `use()` and `idempotency_key()` find it in an undo or a probe; it is not in flight."""
    return Flight(session, row.id, Call(tool, {}, row.args), CallRef(row.id, row.tool, row.effect), row.attempt, row)


@cache
def before_codec(tool: Tool[..., Any]) -> Codec[Any]:
    """How what `before` returns is stored."""
    try:
        hints = get_type_hints(tool.before)
    except NameError:
        hints = {}
    return Codec(hints.get("return", Any))


async def probe(tool: Tool[..., Any], row: CallRow, session: Session) -> Happened | NotHappened | str:
    """What the tool's probe says; a string says why nobody knows."""
    ask = tool.probe
    if ask is None:
        return NO_PROBE
    try:
        answer = await aside(call_of(tool, row, session), lambda: ask(performed(tool, row)), tool.grace)
    except TookTooLong:
        return f"its probe did not answer within {tool.grace} s"
    except Exception as error:  # noqa: BLE001 - a probe that fails knows nothing: the doubt stays, with the reason
        return session.without_secrets(f"its probe failed: {type(error).__name__}: {text_of(error)}")
    return _understood(tool, answer)


def _understood(tool: Tool[..., Any], answer: Any) -> Happened | NotHappened | str:
    """Only what is plainly said counts: anything else would repeat, or skip, an effect on a guess."""
    if answer is None:
        return "its probe does not know"
    if isinstance(answer, NotHappened):
        return answer
    if not isinstance(answer, Happened):
        return f"its probe answered {reprlib.repr(answer)}, not Happened(result), NotHappened() or None"
    try:
        tool.dump_result(answer.result)
    except NotStorable as error:
        return f"its probe says it happened, with a result that does not fit: {text_of(error)}"
    return answer
