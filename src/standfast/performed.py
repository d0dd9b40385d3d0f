"""A call as its undo or its probe sees it, rebuilt from the store."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any, get_type_hints

from standfast.codec import Codec
from standfast.records import Happened, NotHappened, Performed
from standfast.rows import CallRow
from standfast.tool import Tool


def performed(tool: Tool[..., Any], row: CallRow) -> Performed[Any, Any]:
    """Arguments, what `before` had read, and the result if there is one."""
    return Performed(
        key=row.id,
        args=tool.load_args(row.args),
        before=None if row.before is None else before_codec(tool).load(row.before),
        result=None if row.result is None else tool.load_result(row.result),
        status=row.status,
    )


@cache
def before_codec(tool: Tool[..., Any]) -> Codec[Any]:
    """How what `before` returns is stored."""
    try:
        hints = get_type_hints(tool.before)
    except NameError:
        hints = {}
    return Codec(hints.get("return", Any))


async def probe(tool: Tool[..., Any], row: CallRow) -> Happened | NotHappened | str:
    """What the tool's probe says; a string says why nobody knows."""
    if tool.probe is None:
        return "it has no probe"
    try:
        answer = await asyncio.wait_for(tool.probe(performed(tool, row)), tool.grace)
    except TimeoutError:
        return f"its probe did not answer within {tool.grace} s"
    except Exception as error:  # a probe that fails knows nothing: the doubt stays, with the reason
        return f"its probe failed: {type(error).__name__}: {error}"
    if answer is None:
        return "its probe does not know"
    return answer
