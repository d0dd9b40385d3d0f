"""Programs that a run has started: found by their mark, whichever call of it left them running."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from standfast.bodies import looking, marks
from standfast.bodies.guard import guard
from standfast.records import LIVE, Residue

if TYPE_CHECKING:
    from standfast.rows import RunDoc
    from standfast.session import Session


class Programs:
    """Those of one driven run."""

    def __init__(self, session: Session) -> None:
        self._s = session
        self._cut: dict[str, bool] = {}  # marks of calls that were cut; is the call over?
        self._sweeping: asyncio.Task[Any] | None = None
        self._of_steps: set[str] = set()  # marks of steps whose own code has started programs

    @property
    def mark(self) -> str:
        """What all of them carry."""
        return marks.run_mark(self._s.row.id, self._s.row.doc.salt)

    def may_be_left(self) -> None:
        """One is about to start: whoever stops this run looks for what is left of it."""
        if not self._s.row.doc.programs and self._s.row.status in LIVE:
            self._s.change(_some)

    def begin_in_step(self) -> str:
        """The step's own code is about to start one: its mark; from any thread."""
        s = self._s
        mark = marks.step_mark(self.mark, s.step, s.env.lease.id)
        if mark not in self._of_steps:
            self._of_steps.add(mark)
            guard.open(mark)
        s.in_loop(self.may_be_left)
        return mark

    def step_ended(self) -> None:
        """By itself: what its code left running goes on."""
        while self._of_steps:
            guard.close(self._of_steps.pop())

    def step_cut(self) -> None:
        """What its code has started ends with it."""
        while self._of_steps:
            self.sweep(self._of_steps.pop(), over=True)

    def sweep(self, mark: str, *, over: bool = False) -> None:
        """End what the programs of a call that was cut left in the background; one look for all that are cut now."""
        self._cut[mark] = over or self._cut.get(mark, False)
        if self._sweeping is None:
            self._sweeping = self._s.own(self._sweep())

    async def _sweep(self) -> None:
        try:
            while self._cut:
                cut, self._cut = self._cut, {}
                try:
                    await looking.in_a_thread(lambda: marks.end_carriers(cut.__contains__))  # noqa: B023
                except OSError:
                    pass  # nobody can look now; whoever settles the stop looks again, and names what it cannot see
                for mark, over in cut.items():
                    if over:
                        guard.close(mark)
        finally:
            self._sweeping = None

    async def swept(self) -> None:
        """Until nothing of the calls that were cut is left in the background."""
        while self._sweeping is not None:
            await asyncio.wait({self._sweeping})

    def running(self) -> list[Residue]:
        """Those that run now; from any thread."""
        try:
            return _named(marks.carriers(self._is_mine))
        except OSError as error:
            return [_unseen(error)]

    async def left(self) -> list[Residue]:
        """The same at a pause, when no call is in flight; if nothing runs, nobody need look again."""
        if not self._s.row.doc.programs:
            return []
        left = await looking.in_a_thread(self.running)
        if not left:
            self._s.change(_none)
        return left

    async def end(self) -> list[Residue]:
        """End what runs; what does not end is named."""
        if not self._s.row.doc.programs:
            return []
        try:
            return _named(await looking.in_a_thread(lambda: marks.end_carriers(self._is_mine)))
        except OSError as error:
            return [_unseen(error)]

    def _is_mine(self, mark: str) -> bool:
        """What an undo has put back is not the run's any more."""
        return marks.is_of_run(mark, self.mark) and not marks.is_beside(mark)


def _some(doc: RunDoc) -> None:
    doc.programs = True


def _none(doc: RunDoc) -> None:
    doc.programs = False


def _unseen(error: OSError) -> Residue:
    return Residue("programs that this run started may still be running", f"nobody could look for them: {error}")


def _named(programs: Mapping[int, str]) -> list[Residue]:
    if not programs:
        return []
    return [Residue("a program that this run started is still running", marks.names(programs))]
