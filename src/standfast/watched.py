"""A run as it is looked at and waited for: nothing here changes it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from standfast import arguments, control
from standfast import events as ev
from standfast.codec import expand_logs, from_json
from standfast.errors import Misuse, RunCancelled, RunFailed, RunHeld
from standfast.events import Event, TextDelta
from standfast.hub import LIVE_BACKLOG
from standfast.records import ENDED, Receipt, RunView
from standfast.rows import RunRow
from standfast.said_texts import LiveText, span_of
from standfast.snapshots import unpack
from standfast.stop_records import StopRecord, stops_of
from standfast.stops import receipt
from standfast.transcripts import Said, transcript_of
from standfast.views import is_stuck, view_of

if TYPE_CHECKING:
    from standfast.abc import Tx
    from standfast.evidence.bundle import Wishes
    from standfast.evidence.bundle_shapes import About
    from standfast.runtime import Runtime

R = TypeVar("R")
T = TypeVar("T")

ROWS_AT_ONCE = 100  # of a record, before others of the event loop have their turn


class Watched(Generic[R]):
    """One run, by its id, for whoever only looks."""

    __slots__ = ("_runs", "id", "route")

    def __init__(self, runs: Runtime, id: str, route: str = "") -> None:  # noqa: A002
        self._runs = runs
        self.id = id
        self.route = route  # by which way its verbs come; kept in the record

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    # --- looking --------------------------------------------------------------------------------------

    def _read(self, look: Callable[[Tx, RunRow], T]) -> T:
        return self._runs.read(lambda tx: look(tx, control.load(tx, self.id)))

    async def _read_aside(self, look: Callable[[Tx, RunRow], T]) -> T:
        """The same for what reads a whole record: other runs of this event loop go on meanwhile."""
        return await asyncio.to_thread(self._read, look)

    def _row(self) -> RunRow:
        return self._read(lambda _, row: row)

    async def view(self) -> RunView:
        """The run as it is now."""
        doing = self._runs.doing(self.id)
        return self._read(lambda tx, row: view_of(tx, row, self._runs.clock.now(), doing))

    async def state(self, step: int | None = None) -> Any:
        """The state before a step (default: the current one): typed where the agent's code is known, else JSON."""

        if step is not None:
            arguments.whole("step", step, "give the number of a step")

        def look(tx: Tx, row: RunRow) -> tuple[str, bytes, bool]:
            _must_be_kept(row)
            found = tx.snapshot(row, step)
            if found is None:
                raise Misuse(f"run {row.id} has no step {step}", hint=f"it is at step {row.step}")
            agent = self._runs.agents.get(row.agent)
            same = agent is not None and agent.contract["state"] == (tx.contract(row.doc.contract) or {}).get("state")
            return row.agent, unpack(found[1])[1], same

        name, raw, typed = self._read(look)
        fetch = self._runs.fetch
        if typed:
            return self._runs.agents[name].state_codec.load_state(raw, fetch)
        return await asyncio.to_thread(lambda: expand_logs(from_json(raw), fetch))

    async def transcript(self) -> list[Said]:
        """What was said, call by call, partial text included: a call that was repeated is there once a try."""
        return await self._read_aside(transcript_of)

    async def stops(self) -> tuple[StopRecord, ...]:
        """The record of each stop, oldest first: by what and whom, when, and what had reached whom by then."""
        return await self._read_aside(stops_of)

    async def events(self, after: int = 0) -> AsyncIterator[Event | TextDelta]:
        """Every event once, in order, from `after` on; ends after the ending. Live text comes in between, without gaps.

        Text that was being said when the stream began comes as `TextFlushed` first.
        """
        arguments.whole("after", after, "give the seq of an event, or 0 for all of them")
        endings = (ev.RunDone, ev.RunCancelled, ev.RunFailed)
        live = LiveText(LIVE_BACKLOG)
        with self._runs.hub.waiting(self.id, steps=True) as waiter:
            while True:
                row = self._row()
                rows = self._runs.read(lambda tx: tx.record(row.n, after, ROWS_AT_ONCE))  # noqa: B023 - called at once
                ended = False
                for seq, events in rows:
                    await asyncio.sleep(0)  # who reads a long record must not keep other runs from going on
                    for event in events:
                        event.run = self.id
                        after = event.seq
                        if isinstance(event, ev.TextFlushed):
                            live.recorded(span_of(event))
                        yield event
                        ended = ended or isinstance(event, endings)
                    after = seq  # also of a row whose content was deleted
                if ended or (not rows and row.status in ENDED):
                    return
                if rows:
                    continue
                deltas, waiter.deltas = waiter.deltas, []
                live.waiting.extend(deltas)
                while delta := live.next():
                    yield delta
                if not deltas:
                    self._runs.must_be_open()
                    await waiter.wait(1.0)

    async def evidence(
        self,
        path: str | os.PathLike[str],
        *,
        recipients: Sequence[str] = (),
        children: bool = False,
        anchor: Sequence[str] = (),
        force: bool = False,
        by: str | None = None,
    ) -> About:
        """Write a signed bundle of everything that is on record of the run, for somebody who need not trust you.

        `recipients` are age public keys: for them alone the agent's instructions are sealed into it, if this process
        has the agent. That it was taken, and by whom, is in the record of the house.
        """
        from standfast.evidence.bundle_zip import placed  # noqa: PLC0415 - see Runtime.write_evidence

        with placed(Path(path), force=force) as file:
            wishes: Wishes = {"recipients": recipients, "children": children, "anchor": anchor}
            wishes |= {"by": by, "route": self.route}
            bundle = await self._runs.write_evidence(file, self.id, **wishes)
        return bundle.about

    # --- waiting --------------------------------------------------------------------------------------

    async def settled(self, timeout: float | None = None) -> Receipt:
        """Until nothing of the run is running but what the receipt names."""

        def look(tx: Tx, row: RunRow) -> Receipt | None:
            if row.status not in (*ENDED, "paused"):
                return None
            return row.doc.receipt or receipt(tx, row, row.status)

        return await self._until(look, timeout)

    async def result(self, wait_held: bool = True, timeout: float | None = None) -> R:
        """The run's result; raises RunCancelled, RunFailed, or RunHeld when it will not go on by itself."""

        def look(tx: Tx, row: RunRow) -> RunRow | RunView | None:
            if row.status in ENDED:
                return row
            if is_stuck(tx, row, wait_held=wait_held) or self._runs.doing(self.id).startswith("storage"):
                return view_of(tx, row, self._runs.clock.now(), self._runs.doing(self.id))
            return None

        found: RunRow | RunView = await self._until(look, timeout)
        if isinstance(found, RunView):
            doing = self._runs.doing(self.id)
            storage = doing if doing.startswith("storage") else ""
            told = f"run {self.id} is {found.status}: {storage or found.error or found.waiting_for}"
            raise RunHeld(told, view=found, traceback=found.traceback, hint=_what_to_do(found, storage))
        _must_be_kept(found)
        doc = found.doc
        if found.status == "cancelled":
            assert doc.receipt is not None
            raise RunCancelled(
                f"run {self.id} was cancelled: {doc.receipt.reason or 'no reason given'}",
                receipt=doc.receipt,
                hint="its .receipt tells what was undone and left behind; fork() begins anew from one of its steps",
            )
        if found.status == "failed":
            assert doc.error is not None
            raise RunFailed(
                f"run {self.id} failed: {doc.error.type}: {doc.error.message}",
                traceback=doc.error.traceback,
                hint="its .traceback tells where; fix the cause, then fork() begins anew from one of its steps",
            )
        return cast("R", self._runs.decode_result(found))

    async def _until(self, look: Callable[[Tx, RunRow], T | None], timeout: float | None) -> T:
        if timeout is not None:
            arguments.number("timeout", timeout, "give seconds, or None to wait for ever")
        loop = asyncio.get_running_loop()
        end = None if timeout is None else loop.time() + timeout
        with self._runs.hub.waiting(self.id) as waiter:
            while True:
                found = self._read(look)
                if found is not None:
                    return found
                self._runs.must_be_open()
                left = 1.0 if end is None else min(1.0, end - loop.time())
                if left <= 0:
                    raise TimeoutError(f"run {self.id} is still {self._row().status} after {timeout} s")
                await waiter.wait(left)


def _what_to_do(held: RunView, storage: str) -> str:
    if storage:
        return "free space, make the store writable, or end what locks it; the run goes on by itself then"
    if held.error:
        return "fix the cause, then resume(); its last snapshot is kept"
    return "view.needs lists what a person has to settle; what else holds it (view.holds) ends by resume() or by mail"


def _must_be_kept(row: RunRow) -> None:
    """Misuse for a run whose content was deleted, with who deleted it and why."""
    if row.doc.forgotten:
        raise Misuse(f"run {row.id} {row.doc.forgotten}", hint="its events, state and result are gone for good")
