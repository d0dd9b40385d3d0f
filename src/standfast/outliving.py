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
from standfast.ladder import leave_behind
from standfast.owning import Piece
from standfast.places import place_of_task
from standfast.records import Residue
from standfast.scope import begun_by
from standfast.stops import body_left, has_ended, place_in_list, queue_if_free, still_running

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
    if flight.threads is not None:
        flight.threads.leave()
    if flight.cleaning:
        session.waits_no_longer(flight)
    ended = ended_row(flight, Outcome("cut"), session.step, session.row.n, session.row.epoch)
    ended.event = ev.CallCut(call=flight.id, outcome="still_running", why=f"{why}: {where}" if where else why)
    session.commit().ended.append(ended)
    return _residue(flight, where or why)


def leave_timed_out(session: Session, flight: Flight, body: asyncio.Future[Any], ending: Callable[[], Outcome]) -> None:
    """The time of a call is up and its body goes on: the step is told so, the body is left behind."""
    session.left.append(flight)
    if flight.task is not None:
        leave_behind(flight.task)
    if flight.threads is not None:
        flight.threads.leave()
    where = flight.where()
    session.note(ev.LeftBehind(what=f"{flight.call.tool.name} goes on although its time is up", where=where))
    remember(session, [_residue(flight, where)])

    async def wait() -> None:
        await asyncio.wait({body})
        await late(session, flight, ending())

    session.afterwards(wait())


def still_left(session: Session, named: list[Residue]) -> list[Residue]:
    """Bodies left behind before this stop that have not ended to this day."""
    known = set(map(place_in_list, named))
    return [_residue(f, f.where()) for f in session.left if not f.gone and f.id not in known]


def _residue(flight: Flight, why: str) -> Residue:
    return body_left(flight.ref, why)


def leave_code(session: Session, tasks: Iterable[asyncio.Task[Any]]) -> list[Residue]:
    """Name the code of a step that would not stop; when it has ended after all, that is written down."""
    return _leave(session, ((place_of_task(task), task, begun_by.get(task)) for task in tasks), ())


def leave_threads(session: Session, pieces: Iterable[Piece], named: Iterable[Residue] = ()) -> list[Residue]:
    """The same for work that it had handed to executors."""
    return _leave(session, ((piece.where(), piece.over, piece.call) for piece in pieces), named)


def _leave(
    session: Session,
    code: Iterable[tuple[str, asyncio.Future[Any], object]],
    named: Iterable[Residue],
) -> list[Residue]:
    left: list[Residue] = []
    known = {*session.row.doc.left, *map(place_in_list, named)}
    for place, end, call in code:
        residue = _code_left(session.begun_in.get(end, session.step), place, call)
        numbers = count(2)
        while place_in_list(residue) in known:  # another at the same line
            residue = replace(residue, why=f"{place} ({next(numbers)})")
        known.add(place_in_list(residue))
        session.ended_code.discard(place_in_list(residue))
        end.add_done_callback(partial(_code_ended, session, residue))
        left.append(residue)
    return left


def _code_left(step: int, place: str, call: object) -> Residue:
    """What code of a call has started is named with the call, also if that has ended: it must not be undone unseen."""
    if isinstance(call, Flight) and call.beside:
        return Residue(f"what the undo or probe of {call.call.tool.name} started is still running", place, call.ref)
    if isinstance(call, Flight):
        return Residue(f"what {call.call.tool.name} started in step {step} is still running", place, call.ref)
    return Residue(f"code of step {step} is still running", place)


def name(session: Session, residue: list[Residue]) -> None:
    """No stop has asked for it: the record and the stops to come must name it."""
    for one in residue:
        session.note(ev.LeftBehind(what=one.what, where=one.why))
    remember(session, residue)


def remember(session: Session, residue: list[Residue]) -> None:
    """For the stops to come, with the next commit; whoever drives the run then knows nothing of it."""
    session.change(lambda doc: still_running(doc, not_ended(session, residue), session.env.lease.id))


def not_ended(session: Session, residue: Iterable[Residue]) -> list[Residue]:
    """Without what has ended since it was named; in the transaction that remembers it."""
    return [one for one in residue if place_in_list(one) not in session.ended_code]


def _code_ended(session: Session, code: Residue, _: asyncio.Future[Any]) -> None:
    session.ended_code.add(place_in_list(code))  # first: whoever would remember it now does not

    def act(tx: Tx) -> None:
        row = tx.run_n(session.row.n)
        if row is not None and has_ended(row, place_in_list(code)):
            tx.save(row, [ev.VerbNoted(verb="ended", by=None, text=f"{code.what}: it has ended ({code.why})")])

    session.afterwards(session.env.unfenced(act))


async def late(session: Session, flight: Flight, outcome: Outcome) -> None:
    """A body ended after the run had gone on: kept as an event, and as an answer to an open doubt."""
    flight.gone = True
    session.ended_code.add(flight.id)
    flight.let_go_of_programs(cut=flight.cutting or outcome.kind == "cut")
    result = outcome.raw if outcome.kind == "finished" else None
    error = "" if result is not None else f"{outcome.error or outcome.kind}: {outcome.message}"
    await _keep(session, flight.id, result, error)


def keep_refused(session: Session, commit: StepCommit) -> None:
    """Results that came when the run was no longer this driver's, and what its calls had said before that."""
    said = [note for note in commit.notes if isinstance(note, ev.TextFlushed)]
    if said:
        session.afterwards(session.env.unfenced(partial(_keep_said, session, said)))
    for ended in commit.ended:
        row = ended.make_row() if ended.make_row is not None else ended.row
        if row is not None and row.status == "finished":
            session.afterwards(_keep(session, ended.id, row.result, ""))
        elif isinstance(ended.event, ev.CallFailed):
            session.afterwards(_keep(session, ended.id, None, f"{ended.event.error}: {ended.event.message}"))


def _keep_said(session: Session, said: list[ev.TextFlushed], tx: Tx) -> None:
    """Of a run that the control thread has stopped because the loop was blocked; not of one that others drive now."""
    row = tx.run_n(session.row.n)
    if row is not None and row.holder is None and row.fence == session.fence + 1 and not row.doc.forgotten:
        tx.save(row, [*said])


async def _keep(session: Session, call_id: str, result: bytes | None, error: str) -> None:
    if session.env.writer.closed:  # the runtime is, too: nothing can be written, and a write would never end
        return
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
