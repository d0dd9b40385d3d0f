"""What a driver that has died left running: ended before anybody goes on with its runs (R6, R15)."""

from __future__ import annotations

from collections.abc import Iterable

from standfast.bodies import looking
from standfast.bodies.marks import call_mark, carriers, end_carriers, is_of_driver, run_mark, step_mark
from standfast.leases import known_dead
from standfast.rows import RunRow
from standfast.stores.sqlite import SqliteStore


class Remains:
    """Programs of dead drivers, as far as this process has looked."""

    def __init__(self) -> None:
        # Dead drivers of which nothing runs: nothing ever will, so that a thousand runs of one cost one look.
        self._none_of: set[str] = set()

    async def all_dead(self, store: SqliteStore, row: RunRow, holder: str, calls: Iterable[str]) -> bool:
        """Is this driver known to be dead, and with it every program of these calls? Those that live are killed."""
        if not store.read(lambda tx: known_dead(tx, holder)):
            return False
        return not await self.end(row, holder, calls)

    async def end(self, row: RunRow, holder: str, calls: Iterable[str], beside: Iterable[str] = ()) -> set[str]:
        """Kill what a dead driver's calls left running; the calls that something is left of, or that nobody can see.

        `beside` are the calls that an undo or a probe may have been at. What was left by those that had ended before
        is not theirs any more, and goes on.
        """
        if holder in self._none_of:
            return set()
        run = run_mark(row.id, row.doc.salt)
        of_calls = {call_mark(run, call, holder): call for call in calls}
        # the step in the store may be one behind
        steps = {step_mark(run, step, holder) for step in (row.step, row.step + 1)}
        asides = {call_mark(run, call, holder, beside=True) for call in (*of_calls.values(), *beside)}
        wanted = {*of_calls, *steps, *asides}
        try:
            left = await looking.in_a_thread(lambda: end_carriers(wanted.__contains__))
            self._none_of.update(await looking.in_a_thread(lambda: without_programs([holder])))
        except OSError:
            return set(of_calls.values())
        return {of_calls[mark] for mark in left.values() if mark in of_calls}


def without_programs(holders: list[str]) -> list[str]:
    """Those of these drivers of which no program runs here."""
    running: set[str] = set()

    def note(mark: str) -> bool:
        running.update(holder for holder in holders if is_of_driver(mark, holder))
        return False

    if holders:
        carriers(note)
    return [holder for holder in holders if holder not in running]
