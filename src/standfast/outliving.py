"""Bodies that outlive their call: named, left behind, and what they still bring is kept out of the run (R35)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json

from standfast import events as ev
from standfast.commit import StepCommit, ended_row
from standfast.flight import Flight, Outcome
from standfast.places import place_of_task
from standfast.records import Residue
from standfast.scope import leave_behind
from standfast.stops import has_ended, place_in_list, queue_if_free

if TYPE_CHECKING:
    from standfast.abc import Tx
    from standfast.events import Event
    from standfast.session import Session


def leave_flight(session: Session, flight: Flight, why: str) -> Residue:
    """Go on without a call that was cut and does not end."""
    where = flight.where()
    flight.abandoned = True
    flight.ended = True
    session.left.append(flight)
    session.flights.pop(flight.id, None)
    session.voice.flush(flight)
    if flight.task is not None:
        leave_behind(flight.task)
    ended = ended_row(flight, Outcome("cut"), session.step, session.row.n, session.row.epoch)
    ended.event = ev.CallCut(call=flight.id, outcome="still_running", why=f"{why}: {where}" if where else why)
    session.commit().ended.append(ended)
    return _residue(flight, where or why)


def leave_timed_out(session: Session, flight: Flight, body: asyncio.Future[Any], ending: Callable[[], Outcome]) -> None:
    """The time of a call is up and its body goes on: the step is told so, the body is left behind."""
    session.left.append(flight)
    if flight.task is not None:
        leave_behind(flight.task)
    session.note(ev.LeftBehind(what=f"{flight.call.tool.name} goes on although its time is up", where=flight.where()))

    async def wait() -> None:
        await asyncio.wait({body})
        await late(session, flight, ending())

    _ = session.own(wait())


def still_left(session: Session, named: list[Residue]) -> list[Residue]:
    """Bodies left behind before this stop that have not ended to this day."""
    known = {r.call.id for r in named if r.call is not None}
    return [_residue(f, f.where()) for f in session.left if not f.gone and f.id not in known]


def _residue(flight: Flight, why: str) -> Residue:
    return Residue(f"{flight.call.tool.name} is still running", why, flight.ref)


def leave_code(session: Session, tasks: Iterable[asyncio.Task[Any]]) -> list[Residue]:
    """Name the code of a step that would not stop; when it has ended after all, that is written down."""
    left: list[Residue] = []
    known = set(session.row.doc.left)
    for task in tasks:
        place = place_of_task(task)
        residue = Residue(f"code of step {session.step} is still running", place)
        numbers = count(2)
        while place_in_list(residue) in known:  # another task at the same line
            residue = replace(residue, why=f"{place} ({next(numbers)})")
        known.add(place_in_list(residue))
        task.add_done_callback(partial(_code_ended, session, residue))
        left.append(residue)
    return left


def _code_ended(session: Session, code: Residue, _: asyncio.Task[Any]) -> None:
    def act(tx: Tx) -> None:
        row = tx.run_n(session.row.n)
        if row is not None and has_ended(row, place_in_list(code)):
            tx.save(row, [ev.VerbNoted(verb="ended", by=None, text=f"{code.what}: it has ended ({code.why})")])

    _ = session.own(session.env.unfenced(act))


async def late(session: Session, flight: Flight, outcome: Outcome) -> None:
    """A body ended after the run had gone on: kept as an event, and as an answer to an open doubt."""
    flight.gone = True
    flight.let_go_of_programs(cut=flight.cutting or outcome.kind == "cut")
    result = outcome.raw if outcome.kind == "finished" else None
    error = "" if result is not None else f"{outcome.error or outcome.kind}: {outcome.message}"
    await _keep(session, flight.id, result, error)


def keep_refused(session: Session, commit: StepCommit) -> None:
    """Results that came when the run was no longer this driver's."""
    for ended in commit.ended:
        row = ended.make_row() if ended.make_row is not None else ended.row
        if row is not None and row.status == "finished":
            _ = session.own(_keep(session, ended.id, row.result, ""))
        elif isinstance(ended.event, ev.CallFailed):
            _ = session.own(_keep(session, ended.id, None, f"{ended.event.error}: {ended.event.message}"))


async def _keep(session: Session, call_id: str, result: bytes | None, error: str) -> None:
    n = session.row.n
    event = ev.LateResult(call=call_id, result=None if result is None else from_json(result), error=error)

    def keep(tx: Tx) -> None:
        row = tx.run_n(n)
        assert row is not None
        if row.doc.forgotten:
            return  # its content was to be deleted: nothing is added to it
        events: list[Event] = [event]
        has_ended(row, call_id)
        call = tx.call(n, call_id)
        if call is not None and call.status in ("in_doubt", "check") and call.undo is None and result is not None:
            call.status, call.result = "finished", result
            tx.update_call(call)
            decided = ev.CallResolved(
                call=call_id, decision="happened", by=None, reason="its late result", result=event.result
            )
            events.append(decided)
            if not any(c.status in ("in_doubt", "check") for c in tx.open_calls(n)):
                row.doc.holds.pop("in_doubt", None)
                events += queue_if_free(row, tx.now, "a late result settled the doubt")
        tx.save(row, events)
        tx.signal(row.id)

    await session.env.unfenced(keep)
    session.env.hub.poke(session.row.id)
