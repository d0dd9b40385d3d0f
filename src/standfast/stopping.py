"""Stopping what a run has in flight: let it finish, cut it, or name it as still running."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from standfast.flight import Flight
from standfast.ladder import INSISTING
from standfast.outliving import leave_code, leave_flight, leave_threads
from standfast.places import place_of_task
from standfast.records import Mode, Residue

if TYPE_CHECKING:
    from standfast.session import Session

READ_GRACE = 0.1  # on a pause: a read that is about to end anyway need not be repeated; a cancel does not wait for it
STEP_GRACE = 0.25  # a step that needs no further call may reach its boundary


class Stopping:
    """One stop of one attempt. The mode may harden while it is under way, never soften."""

    def __init__(self, session: Session, mode: Mode) -> None:
        self._s = session
        self._mode: Mode = mode
        self._hardened = asyncio.Event()
        self._residue: list[Residue] = []

    def harden(self, mode: Mode) -> None:
        """A pause has become a cancel, or a soft cancel a hard one."""
        if mode != self._mode:
            self._mode = mode
            self._hardened.set()

    async def stop(self) -> list[Residue]:
        """Until nothing of the attempt is running, but for what is named here."""
        s = self._s
        scope = s.attempt
        if scope is not None:
            scope.stopping = True
            scope.closed = scope.closed or self._mode == "cancel"
        drains = [asyncio.ensure_future(self._drain(f)) for f in list(s.flights.values())]
        step = asyncio.ensure_future(self._let_step_end())
        if drains:
            await asyncio.wait(drains)
        await step
        for task in (*drains, step):
            task.result()
        if scope is not None:
            if scope.main is not None and not scope.main.done():
                s.doing(f"the code of step {s.step} to stop ({place_of_task(scope.main)})")
            s.programs.step_cut()
            self._residue += leave_code(s, await scope.suspend())
            if scope.pieces:
                s.doing(f"threads of step {s.step} to end ({scope.pieces.where()})")
            self._residue += leave_threads(s, await scope.pieces.outlive(), self._residue)
            s.doing("")
        # calls that began between the verb and its notice end with their callers
        for flight in list(s.flights.values()):
            await self._drain(flight)
            if flight.done is None and flight.unwound:  # its caller has gone, its threads may not have
                await self._over(flight, flight.call.tool.grace + INSISTING)
            if flight.done is None and not flight.ended:
                self._leave(flight, "it swallows its cancellation")
        if scope is not None:  # clean-up of threads may have begun tasks
            self._residue += leave_code(s, await scope.end())
        s.programs.step_cut()  # its clean-up may have started others
        await s.programs.swept()
        await s.flushed_or_fenced()
        return self._residue

    async def _drain(self, flight: Flight) -> None:
        grace = flight.call.tool.grace
        flight.end_rest()
        if not await self._let_it_end(flight):
            if flight.done is None and self._s.attempt is not None and not flight.ended:
                self._s.attempt.broken = True
            flight.cut()
            if flight.done is None:  # its body runs in its caller's task, and is cancelled with it
                return
            if not await self._over(flight, grace + INSISTING):
                self._leave(flight, f"it did not end within {grace} s of being cut")

    def _leave(self, flight: Flight, why: str) -> None:
        self._residue.append(leave_flight(self._s, flight, why))
        self._s.outcomes.append(flight.outcome("still_running"))
        if flight.is_stream:
            self._s.note(flight.stream_ended("still_running"))

    async def _let_it_end(self, flight: Flight) -> bool:
        """By its effect and the kind of stop: True if it ended by itself in the time it had."""
        undoable = flight.call.tool.undo is not None
        while True:
            mode = self._mode
            if flight.waits:
                return flight.ended
            if mode == "cancel":
                at_once = flight.repeatable or undoable
                return flight.ended if at_once else await self._over(flight, flight.call.tool.grace)
            if mode == "pause" and flight.repeatable:
                if flight.at_once or await self._over_unless_harder(flight, READ_GRACE):
                    return flight.ended
                if self._mode == mode:
                    return False
                continue  # a soft cancel lets it finish after all
            if not flight.repeatable:
                self._s.doing(f"waiting for {flight.call.tool.name}")
            if await self._over_unless_harder(flight, None):
                return True

    async def _over(self, flight: Flight, seconds: float) -> bool:
        """Did the call end in time? A harder stop takes nothing of that time: it may be clean-up."""
        if not flight.ended:
            await asyncio.wait({flight.until_over()}, timeout=seconds)
        return flight.ended

    async def _over_unless_harder(self, flight: Flight, seconds: float | None) -> bool:
        """True if the call ended by itself; False if its time is up, or the mode has hardened meanwhile."""
        if flight.ended:
            return True
        self._hardened.clear()
        hardened = asyncio.ensure_future(self._hardened.wait())
        try:
            either: set[asyncio.Future[Any]] = {flight.until_over(), hardened}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hardened.cancel()
        return flight.ended

    async def _let_step_end(self) -> None:
        """While calls drain, and a little longer, the step may reach its boundary by itself."""
        scope = self._s.attempt
        if scope is None or scope.main is None:
            return
        loop = asyncio.get_running_loop()
        end: float | None = None
        while self._mode != "cancel" and not scope.main.done() and not scope.broken:
            if self._s.flights:
                end = None
            elif scope.main_parked or scope.refused or (self._mode == "pause" and scope.parked) or self._s.answers:
                return  # it wants another call, or was refused a request: it will not get there
            elif end is None:
                end = loop.time() + STEP_GRACE
            elif loop.time() > end:
                return
            await asyncio.wait({scope.main}, timeout=0.005)
