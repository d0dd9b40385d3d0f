"""What a person says to a run that asks: approve, deny, answer; and what became of a call in doubt."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from standfast import arguments, equal_writes
from standfast import events as ev
from standfast.abc import Tx
from standfast.changed_arguments import changed, closed, validate
from standfast.codec import JsonSchema, storable
from standfast.control import Act, Ask, saved
from standfast.errors import Misuse, WrongState
from standfast.events import Event
from standfast.outside import Outside
from standfast.probes import can_ask_again
from standfast.records import (
    ENDED,
    Accepted,
    Answer,
    CheckAgain,
    Choice,
    Decision,
    Happened,
    Hold,
    Json,
    Refused,
    TooLate,
)
from standfast.rows import CallRow, CallStatus, RunRow
from standfast.stops import queue_if_free
from standfast.withdrawing import wake_at

_BECAME: dict[CallStatus, str] = {
    "asking": "waits for somebody to allow or answer it",
    "approved": "was allowed",
    "denied": "was denied",
    "withdrawn": "is no longer asked for",
    "started": "is still running",
    "not_begun": "has not begun",
    "finished": "has finished",
    "failed": "has failed",
    "not_performed": "did nothing",
    "in_doubt": "is in doubt",
    "check": "is being checked",
    "cut": "was cut",
}


def resolve(call_id: str, decision: Decision) -> Act:
    """A person says what became of a call in doubt."""
    raw = storable(decision.result) if isinstance(decision, Happened) else b"null"
    checks = Outside()

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "in_doubt", "check")
        if isinstance(call, Refused | TooLate):
            return call
        result: JsonValue = None
        if isinstance(decision, Happened):
            schema = tool_schema(tx, row, call.tool, "result_schema")
            result = from_json(raw)
            if schema is not None:
                JsonSchema.fits(checks, schema, result, "the result")
            call.status, call.result = "finished", raw
        elif isinstance(decision, CheckAgain):
            if not can_ask_again(tx, row, call):
                return Refused(
                    f"{call.tool} has no probe that could be asked again",
                    (
                        Choice("resolve", {"call_id": call_id, "decision": "happened"}, "it happened"),
                        Choice("resolve", {"call_id": call_id, "decision": "not_happened"}, "it did not happen"),
                    ),
                )
            call.status = "check"
        else:
            call.status = "not_begun"
            row.doc.writes = equal_writes.not_made(row.doc.writes, call.id)
        tx.update_call(call)
        event = ev.CallResolved(call=call.id, decision=_named(decision), by=ask.by, reason=ask.reason, result=result)
        ended = row.status in ("cancelled", "done", "failed")
        queued = [] if ended else _settle_hold(tx, row, "in_doubt", ("in_doubt",), "the last doubt is settled")
        saved(tx, row, [event, *queued])
        return Accepted(tx.now, row.seq)

    return act


def approve(call_id: str, args: Json | None) -> Act:
    """A person lets a call pass, with the arguments asked for or with others."""
    if args is not None and not isinstance(args, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise Misuse(f"arguments are given by name, not as {args!r}", hint='for example args={"amount": 5}')
    given: Json = {} if args is None else from_json(storable(args))
    checks = Outside()

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "asking")
        if isinstance(call, Refused | TooLate):
            return call
        if call.kind == "ask":
            return Refused(
                "this is a question, not an approval", (Choice("answer", {"call_id": call_id}, "answer it"),)
            )
        if args is not None:
            schema = tool_schema(tx, row, call.tool, "schema")
            asked: Json = from_json(call.args)
            merged = changed(asked, given, schema or {})
            raw = to_json(merged)
            if schema is not None:
                what = f"an argument of {call.tool}"
                checks.found(lambda: validate(asked, merged, schema, what), to_json(schema), call.args, raw)
            call.wanted = call.args.decode()
            call.args = raw
        call.status = "approved"
        event = ev.Answered(call=call.id, answer="approved", by=ask.by, reason=ask.reason, value=from_json(call.args))
        return _settled(tx, row, call, event, "it was approved")

    return act


def deny(call_id: str, why: str) -> Act:
    """A person says no: the call is not executed."""
    why = arguments.reason(why)

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "asking")
        if isinstance(call, Refused | TooLate):
            return call
        call.status, call.error, call.message = "denied", "CallDenied", why or "denied"
        event = ev.Answered(call=call.id, answer="denied", by=ask.by, reason=why or ask.reason)
        return _settled(tx, row, call, event, "it was denied")

    return act


def answer(call_id: str, value: Any) -> Act:
    """A person answers a question of the run."""
    raw = storable(value)
    checks = Outside()

    def act(tx: Tx, row: RunRow, ask: Ask) -> Answer:
        call = _open_call(tx, row, call_id, "asking")
        if isinstance(call, Refused | TooLate):
            return call
        if call.kind != "ask":
            return Refused(
                "this call asks for approval, not for an answer",
                (
                    Choice("approve", {"call_id": call_id}, "let it pass"),
                    Choice("deny", {"call_id": call_id}, "refuse it"),
                ),
            )
        plain = from_json(raw)
        if isinstance(call.schema, dict):
            JsonSchema.fits(checks, closed(call.schema), plain, "the answer")
        if isinstance(call.options, list) and plain not in call.options:
            raise WrongState(f"{plain!r} is not one of the options", hint=f"answer with one of {call.options}")
        call.status, call.result = "finished", raw
        event = ev.Answered(call=call.id, answer="answered", by=ask.by, value=plain, reason=ask.reason)
        return _settled(tx, row, call, event, "the last question is answered")

    return act


def time_out_questions(tx: Tx, row: RunRow) -> None:
    """Questions whose time is up get their default answer, or fail."""
    events: list[Event] = []
    for call in tx.open_calls(row.n):
        if call.status == "asking" and call.wake_at is not None and call.wake_at <= tx.now:
            if call.default is not None:
                call.status, call.result = "finished", call.default
            else:
                call.status, call.error, call.message = "failed", "CallTimedOut", "nobody answered in time"
            tx.update_call(call)
            events.append(ev.Answered(call=call.id, answer="timed_out", by=None))
    events += _settle_hold(tx, row, "asks", ("asking",), "the time for an answer is up")
    if events:
        saved(tx, row, events)


def _settled(tx: Tx, row: RunRow, call: CallRow, event: Event, why: str) -> Accepted:
    """Keep what was said; the run goes on when it was the last thing asked."""
    tx.update_call(call)
    saved(tx, row, [event, *_settle_hold(tx, row, "asks", ("asking",), why)])
    return Accepted(tx.now, row.seq)


def _open_call(tx: Tx, row: RunRow, id: str, *statuses: str) -> CallRow | Refused | TooLate:  # noqa: A002
    call = tx.call(row.n, id)
    if call is None:
        return Refused(f"there is no call {id!r} in this run")
    if call.status not in statuses:
        if row.status in ENDED:
            return TooLate(row.status)
        lacks = "it asks nothing" if "asking" in statuses else "nothing about it is in doubt"
        return Refused(f"call {id!r} {_BECAME[call.status]}: {lacks}")
    return call


def _settle_hold(tx: Tx, row: RunRow, name: Hold, statuses: tuple[str, ...], why: str) -> list[Event]:
    left = [c for c in tx.open_calls(row.n) if c.status in statuses]
    row.wake_at = wake_at(tx, row)
    person = row.doc.person
    if person is not None and not any(c.person == person.id for c in left):
        if not left or name not in person.kept:  # what the person's call has brought goes with it
            row.doc.holds.pop(name, None)
        if left:  # the agent's own question or doubt is open
            why = f"what {person.tool} waited for is settled"
        person.decided = row.status == "pausing"
        return queue_if_free(row, tx.now, why)
    if left or name not in row.doc.holds:
        return []
    row.doc.holds.pop(name)
    return queue_if_free(row, tx.now, why)


def _named(decision: Decision) -> Literal["happened", "not_happened", "check_again"]:
    if isinstance(decision, Happened):
        return "happened"
    return "check_again" if isinstance(decision, CheckAgain) else "not_happened"


def tool_schema(tx: Tx, row: RunRow, tool: str, which: str) -> Json | None:
    """The `schema` of a tool's arguments, or its `result_schema`, as the run's agent has it; None if unknown."""
    contract: Any = tx.contract(row.doc.contract) or {}
    found = contract.get("tools", {}).get(tool)
    return None if found is None else found[which]
