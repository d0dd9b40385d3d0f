"""When agent code blocks the event loop: the control thread settles the stop, and names the blocked code (R34)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from standfast import events as ev
from standfast.bodies.marks import end_carriers
from standfast.events import Event
from standfast.places import place_of_thread
from standfast.records import CallRef, InFlight, Residue
from standfast.settling import settle_pause
from standfast.stops import body_left, finish_cancel, mark_undo, pending_undos, still_running

if TYPE_CHECKING:
    from standfast.abc import Tx
    from standfast.driver import Driver
    from standfast.flight import Flight
    from standfast.rows import RunRow, Stop
    from standfast.stores.sqlite import SqliteStore


def settle_wedged(store: SqliteStore, driver: Driver) -> bool:
    """Settle a stop without the event loop; False if it must wait for it: for undo code, or a call that may finish.

    The fence rises, so whatever the blocked code does when it wakes up is refused.
    """
    where = place_of_thread(driver.s.thread)
    flights = list(driver.s.flights.values())
    programs = _stop(store, driver, flights)

    def settle(tx: Tx) -> bool:
        row = tx.run_n(driver.s.row.n)
        if row is None or row.fence != driver.s.fence or row.status not in ("pausing", "cancelling"):
            return True
        stop = row.doc.stop
        if stop is None or _must_wait(row, stop):
            driver.s.doing(f"the event loop, which is blocked: {where}")
            return False
        if row.status == "cancelling":
            mark_undo(tx, row, stop.undo)
        going_back = row.doc.target is not None or row.doc.rewind_noted is not None
        if going_back or pending_undos(tx, row) or tx.children(row.id, live=True):
            driver.s.doing(f"the event loop, which is blocked: {where}")
            return False
        unstored = _unstored(row, driver.s.step)
        code = f"code of step {driver.s.step}"
        _name(tx, row, Residue(f"{code} is still running and blocks the event loop{unstored}", where))
        stop.residue += programs
        row.fence += 1
        events: list[Event] = [
            *(flight.stream_ended("still_running") for flight in flights if flight.is_stream),
            ev.LeftBehind(what=f"{code} blocks the event loop{unstored}", where=where),
        ]
        events += finish_cancel(tx, row) if row.status == "cancelling" else settle_pause(tx, row)
        row.holder = None
        tx.save(row, events)
        tx.signal(row.id)
        return True

    return store.write(settle, "control")


def has_effect(ref: CallRef) -> bool:
    """May this call have changed the world?"""
    return ref.effect in ("write", "irreversible")


def _must_wait(row: RunRow, stop: Stop) -> bool:
    return stop.soft or (row.status == "pausing" and any(has_effect(ref) for ref in row.in_flight))


def _stop(store: SqliteStore, driver: Driver, flights: list[Flight]) -> list[Residue]:
    """Cut threads, processes and programs from here, before anybody waits for the store; the programs that are left.

    Code in the loop's own thread cannot be cut.
    """
    row = store.read(lambda tx: tx.run_n(driver.s.row.n))
    stop = None if row is None else row.doc.stop
    if row is None or stop is None or row.status not in ("pausing", "cancelling") or _must_wait(row, stop):
        return []
    programs: set[str] = set()
    for flight in flights:
        tool = flight.call.tool
        at_once = not has_effect(flight.ref) or (row.status == "cancelling" and tool.undo is not None)
        if not at_once and store.now() - stop.accepted_at < tool.grace:
            continue
        if flight.mark:
            programs.add(flight.mark)
        if flight.body is not None:
            flight.cut()
    if programs:
        with contextlib.suppress(OSError):  # nobody can look now: that is named below
            end_carriers(programs.__contains__)
    return driver.s.programs.running() if row.doc.programs else []


def _unstored(row: RunRow, step: int) -> str:
    """A step's end is stored with the next call, or when the loop turns: blocked code may have kept it from both."""
    if step == row.step:
        return ""
    return f"; the end of step {row.step} was not stored before that, so it counts as not finished"


def _name(tx: Tx, row: RunRow, code: Residue) -> None:
    stop = row.doc.stop
    assert stop is not None
    known = {f.call.id for f in stop.outcomes}
    for ref in row.in_flight:
        if ref.id in known:
            continue
        stop.outcomes.append(InFlight(ref, "still_running"))
        call = tx.call(row.n, ref.id)
        if call is not None and call.status == "started":
            call.status = "in_doubt" if has_effect(ref) else "cut"
            call.left_by = row.holder
            tx.update_call(call)
    stop.residue.append(code)
    bodies = [body_left(ref, code.why) for ref in row.in_flight]
    still_running(row.doc, [code, *bodies], row.holder, blocking=True)
    row.in_flight = []
