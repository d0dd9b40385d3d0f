"""Programs that a run has started: found by their mark, whichever call of it left them running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from standfast.bodies import looking, marks
from standfast.records import LIVE, Residue

if TYPE_CHECKING:
    from standfast.rows import RunDoc
    from standfast.session import Session


class Programs:
    """Those of one driven run."""

    def __init__(self, session: Session) -> None:
        self._s = session

    @property
    def mark(self) -> str:
        """What all of them carry."""
        return marks.run_mark(self._s.row.id, self._s.row.doc.salt)

    def may_be_left(self) -> None:
        """One is about to start: whoever stops this run looks for what is left of it."""
        if not self._s.row.doc.programs and self._s.row.status in LIVE:
            self._s.change(_some)

    def running(self) -> list[Residue]:
        """Those that run now; from any thread."""
        return _named(marks.carriers(self._is_mine))

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
        return _named(await looking.in_a_thread(lambda: marks.end_carriers(self._is_mine)))

    def _is_mine(self, mark: str) -> bool:
        return marks.is_of_run(mark, self.mark)


def _some(doc: RunDoc) -> None:
    doc.programs = True


def _none(doc: RunDoc) -> None:
    doc.programs = False


def _named(programs: Mapping[int, str]) -> list[Residue]:
    if not programs:
        return []
    return [Residue("a program that this run started is still running", marks.names(programs))]
