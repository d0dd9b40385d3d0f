"""The undo ledger: effects are taken back one at a time, newest first, each to an outcome of its own (R8).

It is driven from the store, never from a `finally`: a crash half way repeats the undo it
was in, and the count of tries survives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from standfast import events as ev
from standfast.aside import TookTooLong, aside
from standfast.contained import text_of
from standfast.errors import CannotUndo
from standfast.events import Event
from standfast.performed import call_of, performed, probe
from standfast.records import Happened, NotHappened
from standfast.rows import CallRow
from standfast.stops import goes_on, pending_undos, tell_owner
from standfast.tools import Tool

if TYPE_CHECKING:
    from standfast.abc import Tx
    from standfast.rows import RunRow
    from standfast.session import Session

TRIES = 5
FIRST_PAUSE = 1.0  # 1 + 3 + 9 + 27 s: five tries within about a minute
ALL_TRIES_SECONDS = 60.0
LEAST_SECONDS = 1.0


class LacksCode(Exception):  # noqa: N818 - no fault: another driver goes on with the run
    """This process has no code to undo a tool's call with."""


class Ledger:
    """Works through the effects of one run that are to be taken back."""

    def __init__(self, session: Session) -> None:
        self._s = session

    async def work(self) -> None:
        """Until every row that was marked has an outcome. Interrupted by a crash, it goes on in the next driver."""
        while True:
            rows = self._s.env.store.read(lambda tx: pending_undos(tx, self._s.row))
            if not rows:
                return
            await self._take_back(rows[0])

    async def _take_back(self, row: CallRow) -> None:
        s = self._s
        tool = self._code(row)
        if row.status in ("in_doubt", "check", "started", "failed"):
            answer = await probe(tool, row, s)
            if isinstance(answer, NotHappened):
                if self._goes_on(row):
                    await self._end(row, "in_doubt", "it had not happened, but what it had started was still running")
                elif await s.may_still_happen(row):
                    await self._end(row, "in_doubt", "it had not happened, but another process may still be at it")
                else:
                    await self._end(row, "undone", "it had not happened")
                return
            if isinstance(answer, Happened):
                row.status = "finished"
                row.result = tool.dump_result(answer.result)
        left = ALL_TRIES_SECONDS
        while True:
            row.tries += 1
            await self._tried(row)
            began = s.env.loop.time()
            # a try that does not end leaves time for those after it
            outcome, why = await self._once(tool, row, max(left / 2 if row.tries < TRIES else left, LEAST_SECONDS))
            reason = s.without_secrets(why)  # it is shown, and goes into the receipt
            if outcome == "failed" and row.tries < TRIES:
                s.doing(f"undo of {row.tool} failed ({reason}); try {row.tries + 1} of {TRIES} follows")
                await self._failed(row, reason)
                took = s.env.loop.time() - began
                left = max(left - took, 0.0)
                pause = min(max(FIRST_PAUSE * 3 ** (row.tries - 1) - took, 0.0), left / 2)
                await s.env.clock.back_off(pause)
                left -= pause
                continue
            await self._end(row, outcome, reason)
            return

    async def _once(self, tool: Tool[..., Any], row: CallRow, seconds: float) -> tuple[Any, str]:
        """An undo may use dependencies and its key; what it says and spends is nobody's budget."""
        undo = tool.undo
        assert undo is not None
        going = self._goes_on(row)
        call = call_of(tool, row, self._s)
        try:
            await aside(call, lambda: undo(performed(tool, row)), seconds)
        except CannotUndo as error:
            return "impossible", text_of(error)
        except TookTooLong as error:
            return "failed", str(error)
        except Exception as error:  # noqa: BLE001 - each outcome is kept: the reason goes into the receipt
            return "failed", f"{type(error).__name__}: {text_of(error)}"
        if any(f.id == row.id for f in self._s.left):
            return "in_doubt", "it was undone while its body was still running"
        if going:
            return "in_doubt", "it was undone while what it had started was still running"
        if self._goes_on(row):
            return "in_doubt", "what an undo of it had started was still running"
        if call.unended:
            return "in_doubt", f"what its undo had started and not waited for did not end, and was cut: {call.unended}"
        if row.status != "finished" and await self._s.may_still_happen(row):
            return "in_doubt", "it was undone while another process may still have been at it"
        return "undone", ""

    def _goes_on(self, row: CallRow) -> bool:
        """Is the call, or what it or an undo of it has started, still running? Its effect may yet come."""
        s = self._s
        return s.env.store.read(lambda tx: goes_on(tx, s.row.n, row, s.ended_code))

    def _code(self, row: CallRow) -> Tool[..., Any]:
        """The tool's code; a process without it must leave the row to one that has it."""
        tool = self._s.tool_of(row)
        if tool is None or tool.undo is None:
            raise LacksCode(row.tool)
        return tool

    async def _tried(self, row: CallRow) -> None:
        """Count the try before it begins: a crash inside it must not make it free."""

        def act(tx: Tx, run: RunRow) -> tuple[None, list[Event], bytes | None]:
            tx.update_call(row)
            if row.run != run.n:
                tell_owner(tx, row, f"try {row.tries} to undo {row.tool}, with the run above")
            return None, [], None

        await self._s.write(act)

    async def _failed(self, row: CallRow, reason: str) -> None:
        """Whoever waits, in whatever process, sees that a try has failed, and why, while there are more to come."""

        def act(tx: Tx, run: RunRow) -> tuple[None, list[Event], bytes | None]:
            row.undo_reason = reason
            tx.update_call(row)
            text = f"undo of {row.tool}: try {row.tries} of {TRIES} failed: {reason}"
            if row.run != run.n:
                tell_owner(tx, row, text)
            return None, [ev.VerbNoted(verb="undo", by=None, reason=reason, text=text)], None

        await self._s.write(act)

    async def _end(self, row: CallRow, outcome: Any, reason: str) -> None:
        def act(tx: Tx, run: RunRow) -> tuple[None, list[Event], bytes | None]:
            row.undo, row.undo_reason = outcome, reason
            tx.update_call(row)
            if row.run != run.n:
                tell_owner(tx, row, f"{row.tool} was undone with the run above: {outcome}")
            event = ev.UndoEnded(call=row.id, tool=row.tool, outcome=outcome, tries=row.tries, reason=reason)
            return None, [event], None

        await self._s.write(act)
