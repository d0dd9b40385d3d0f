"""What a person performs in a run, as seen from outside: ordered, awaited, and its result given back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from standfast import control, verbs
from standfast import events as ev
from standfast.abc import Tx
from standfast.control import Ask
from standfast.errors import CallDenied, CallFailed, CallTimedOut, Misuse
from standfast.records import ENDED, Accepted, Json, Refused
from standfast.rows import RunRow
from standfast.tools import Call

if TYPE_CHECKING:
    from standfast.runtime import Runtime

T = TypeVar("T")


class Until(Protocol):
    """Waits until a look at the run gives something."""

    async def __call__(self, look: Callable[[Tx, RunRow], T | None], timeout: float | None, /) -> T: ...


_ERRORS: dict[str, type[CallFailed]] = {"CallTimedOut": CallTimedOut, "CallDenied": CallDenied}


async def performed_by_person(
    runs: Runtime,
    run: str,
    until: Until,
    call: Call[Any] | str,
    args: Json | None,
    ask: Ask,
    timeout: float | None,
    route: str,
) -> Any:
    """The result of a tool that a person performs in a run they have taken over."""
    if isinstance(call, Call) and args is not None:
        raise Misuse("perform was given a call and arguments", hint='perform(call) or perform("tool", {...})')
    tool, given = (call.tool.name, from_json(call.raw)) if isinstance(call, Call) else (call, args)
    async with asyncio.timeout(timeout):
        acted = await _acted(runs, run, until, tool, given, ask, route)
    if acted.error:
        kind = _ERRORS.get(acted.error, CallFailed)
        raise kind(acted.message, type=acted.error, call=acted.call)
    return call.tool.load_result(to_json(acted.result)) if isinstance(call, Call) else acted.result


async def _acted(
    runs: Runtime, run: str, until: Until, tool: str, args: JsonValue, ask: Ask, route: str
) -> ev.PersonActed:
    def stands_still(_: Tx, row: RunRow) -> bool | None:
        """Taken over and at rest, or with nothing to wait for."""
        return True if row.doc.taken is None or row.status in (*ENDED, "cancelling", "paused") else None

    await until(stands_still, None)
    act = verbs.perform(tool, args, runs.ids.mail())
    wanted = control.by_route(route, lambda tx: control.carry_out(tx, run, "perform", ask, act))
    answer = await runs.control(wanted)
    if not isinstance(answer, Accepted):
        why = answer.why if isinstance(answer, Refused) else f"the run is {answer.status}"
        raise Misuse(f"{tool} was not performed: {why}", hint="take_over() first; view() says who has the run")
    order = answer.mail

    def outcome(tx: Tx, row: RunRow) -> ev.PersonActed | str | None:
        after = answer.seq - 1
        while rows := tx.record(row.n, after):
            for seq, events in rows:
                after = seq
                for event in events:
                    if isinstance(event, ev.PersonActed) and event.order == order:
                        return event
                    if isinstance(event, ev.MailReturned) and event.mail == order:
                        return event.reason
        return f"the run is {row.status}" if row.status in ENDED else None

    found: ev.PersonActed | str = await until(outcome, None)
    if isinstance(found, str):
        raise CallFailed(
            f"{tool} was not performed: {found}", type="NotPerformed", call="", hint="nothing of it happened"
        )
    return found
