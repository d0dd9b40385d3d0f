"""What a step that has ended by itself leaves going on: its calls, and tasks and threads that its code has started.

They belong to the run (R39). Beside a next step tasks and threads go on: a library may need them. If the run comes to
rest, they are waited for a moment, then cut; what outlives that is named. Programs are left on purpose.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from standfast import events as ev
from standfast.ladder import INSISTING, end_tasks
from standfast.outliving import leave_code, leave_flight, leave_threads, name, remember
from standfast.owning import Pieces
from standfast.places import place_of_task

if TYPE_CHECKING:
    from standfast.scope import Attempt
    from standfast.session import Session

PATIENCE = 1.0  # seconds: what was started and not waited for may be about to end
PLACES_SAID = 20  # of code that was cut
LOOKING = 0.05  # how often it is looked whether a stop has come, which has no patience


async def end_leftovers(session: Session, scope: Attempt, *, rests: bool) -> None:
    """Until the calls of a step that has returned have ended; if the run rests now, until nothing of it goes on."""
    if session.flights:
        await _end_calls(session)
    if scope.used:
        await _end_users(session, scope)
    if rests and (scope.pieces or scope.others()):
        await _end_code(session, scope)
    for end in scope.others() | scope.pieces.ends():
        session.begun_in.setdefault(end, session.step)


async def _end_calls(session: Session) -> None:
    """Calls that outlive their step: effects are waited for, reads are cut; each is named in the record."""
    flights = list(session.flights.values())
    for flight in flights:
        what = f"{flight.call.tool.name} was in flight when step {session.step} ended"
        session.note(ev.LeftBehind(what=what, where=flight.where()))
        if flight.repeatable:
            flight.cut()
    for flight in flights:
        clean_up = flight.call.tool.grace + INSISTING if flight.repeatable else None
        await asyncio.wait({flight.until_over()}, timeout=clean_up)
        if not flight.ended:
            remember(session, [leave_flight(session, flight, "its step has ended")])


async def _end_users(session: Session, scope: Attempt) -> None:
    """Tasks that have made calls are cut at once: whatever they ask of the step's Run now is refused."""
    users = {t for t in scope.used if t is not scope.main and not t.done()}
    scope.used.clear()
    left = await end_tasks(users, depth=scope.spawned)
    for task in left:
        scope.disown(task)
    if left:
        name(session, leave_code(session, left))


async def _end_code(session: Session, scope: Attempt) -> None:
    """Tasks and threads that no step will wait for any more."""
    session.doing("what the run has started to end")
    end = scope.loop.time() + PATIENCE
    while (going := scope.others() | scope.pieces.ends()) and scope.loop.time() < end and not session.shut:
        await asyncio.wait(going, timeout=min(LOOKING, end - scope.loop.time()))
    if going:
        await _cut(session, scope)
    session.doing("")


async def _cut(session: Session, scope: Attempt) -> None:
    _say_cut(session, "tasks", [*map(place_of_task, scope.others()), *scope.pieces.places("task")])
    _say_cut(session, "threads", scope.pieces.places("thread"))
    tasks = await scope.cut_others()
    residue = leave_code(session, tasks)
    residue += leave_threads(session, await scope.pieces.outlive(), residue)
    for task in tasks:
        scope.disown(task)
    scope.pieces = Pieces()  # those of the next step are not cut with these
    name(session, residue)


def _say_cut(session: Session, what: str, places: Iterable[str]) -> None:
    """One event for all that are at one place: a step may leave thousands."""
    for place, number in Counter(places).most_common(PLACES_SAID):
        text = f"{what} that went on when the run came to rest after step {session.step} were cut: {number}"
        session.note(ev.LeftBehind(what=text, where=place))
