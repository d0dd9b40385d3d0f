"""The gate: the one door every call of a run goes through (R7).

Looks in the journal first; else admits the call in one transaction, where the run is
running and fence and attempt are this driver's. A refused call never returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import JsonValue

from standfast import equal_writes, loops
from standfast.aside import ahead
from standfast.builtin_calls import AskCall, ChildCall
from standfast.children import check_depth, check_driven, insert_child, wait_for_child
from standfast.commit import Admission
from standfast.contained import contained, text_of
from standfast.errors import CallDenied, CallFailed, CallTimedOut, ChildCancelled, Fenced
from standfast.flight import Flight, Outcome
from standfast.in_context import in_context
from standfast.ladder import CODE_GRACE, ladder_of
from standfast.outliving import late
from standfast.performed import before_codec
from standfast.performing import CANCELLED_ITSELF, body_context, failure, is_cancelled, perform
from standfast.questions import question_row, takes_all
from standfast.records import CallRef, Hold
from standfast.rows import CallRow, RunDoc
from standfast.tools import Call, unperformed

if TYPE_CHECKING:
    from standfast.agents import Agent
    from standfast.codec import Codec
    from standfast.run import Run
    from standfast.session import Session

R = TypeVar("R")

SIBLINGS_MAY_ASK = 0.02
LOOK_AT_THE_CLOCK = 30.0  # it may be set, and the machine may have slept
_ERRORS: dict[str, type[CallFailed]] = {
    "CallTimedOut": CallTimedOut,
    "CallDenied": CallDenied,
    "ChildCancelled": ChildCancelled,
}
_STAKES = {"irreversible": " It cannot be undone.", "write": " It changes something outside."}


class Gate:
    """Admits, performs and records the calls of one driven run."""

    def __init__(self, session: Session) -> None:
        self._s = session

    async def call(self, run: Run[Any], call: Call[R], key: str | None, title: str | None, why: str | None) -> R:
        """The result of the call: from the journal, or performed now."""
        made = unperformed.get()
        if made is not None:
            made.discard(call)
        s = self._s
        scope = run.scope
        if scope.closed or run.number != scope.number or s.shut:
            await scope.park()
        task = asyncio.current_task(scope.loop)
        if task is not None and task is not scope.main:
            scope.used.add(task)
        id_ = s.journal.identify(call, key)
        known = s.journal.rows.get(id_) if s.journal.rows else None
        if known is not None and (known.status == "finished" or known.error is not None):
            return self._replayed(call, known)
        same = "" if s.person or s.agent.equal_writes is None else equal_writes.identity(call, key)
        over = self._over_budget(call) or (self._goes_round(run, call, same) if same else None)
        if over is not None:
            s.ask_stop(*over)
            await scope.park()
        if known is None and call.tool.inline and s.env.points is None:
            return await self._quick(run, call, id_, title or "", why or "", task)
        if known is not None and known.status in ("in_doubt", "check"):
            s.ask_stop("in_doubt", f"{known.tool}: it is not known whether this happened")
            await scope.park()
        question = call.question if isinstance(call, AskCall) else None
        if question is not None:
            return self._replayed(call, await self._ask(run, call, id_, known, question, title))
        asked = self._question(call)
        if asked and (known is None or known.status in ("asking", "withdrawn")):
            known = await self._ask(run, call, id_, known, asked, title)
            if known.error is not None:
                return self._replayed(call, known)
        if known is not None and known.wanted is not None:  # a person changed the arguments, for this key for good
            call = call.tool.parse(known.args)
            if made is not None:
                made.discard(call)
        outcome = await self._perform(run, call, id_, known, title or "", why or "", same)
        return self._value(call, id_, outcome)

    # --- before admission ---------------------------------------------------------------------

    def _goes_round(self, run: Run[Any], call: Call[Any], same: str) -> tuple[Hold, str, JsonValue] | None:
        """What holds the run if this write was made in the steps before this one already."""
        s, most = self._s, self._s.agent.equal_writes
        times = equal_writes.times(s.row.doc.writes, s.row.epoch, run.step, same, heard=bool(run.mail_read))
        if most is None or times < most:
            return None
        return "loop", equal_writes.in_words(call, s.shown(call), times), [call.tool.name, times]

    def _over_budget(self, call: Call[Any]) -> tuple[Hold, str, JsonValue] | None:
        """What holds the run, why, and whose cap it is: this run's or that of one above it."""
        s = self._s
        budget = s.row.doc.budget
        over = s.over_cap()
        if over is not None:
            return "budget", over[1], over[0]
        if budget.repeats is not None:
            again = loops.before_call(s.rounds, call.tool.kind, call.what, budget.repeats)
            if again:
                return "loop", again, s.row.id
        return None

    @staticmethod
    def _question(call: Call[Any]) -> str:
        tool = call.tool
        rule = tool.effect == "irreversible" if tool.confirm is None else tool.confirm
        if isinstance(rule, bool):
            asks: bool | str = rule
        else:
            asks = rule(call.args) if takes_all(rule, call.args) else rule(**call.args)
        if isinstance(asks, str):
            return asks
        return f"May {tool.name} be performed?{_STAKES.get(tool.effect, '')}" if asks else ""

    async def _ask(
        self, run: Run[Any], call: Call[Any], id_: str, known: CallRow | None, text: str, title: str | None
    ) -> CallRow:
        """Until a person has decided; the row then says what."""
        s = self._s
        if known is None or known.status not in ("asking", "approved"):
            s.show_plan(run.plan)
            row = question_row(s, call, id_, text, title or "", run.number)
            if not await s.post_question(row, known is not None, run.scope, run.number):
                await run.scope.park()
        run.scope.calling -= 1
        try:
            return await s.answer_to(id_)
        finally:
            run.scope.calling += 1

    async def _diverges(self, run: Run[Any], call: Call[Any], id_: str) -> None:
        """A repeated step that asks for a new effect, not for the one it had: a person must look first."""
        s = self._s
        if id_ in s.journal.rows or s.row.doc.may_differ or not s.journal.unasked_writes():
            return
        await asyncio.sleep(SIBLINGS_MAY_ASK)  # a parallel sibling may be about to ask for it
        missing = [row for row in s.journal.unasked_writes() if row.id not in s.row.doc.diverged_ok]
        if missing and id_ not in s.row.doc.diverged_ok:
            old = missing[0]
            had = old.args if s.env.redactor is None else s.env.redactor.json(old.args)
            s.ask_stop(
                "diverged",
                f"the repeated step asks for {s.shown(call)}, but it had performed {old.tool}({had.decode()[:200]})",
                [id_, *(row.id for row in missing)],
            )
            await run.scope.park()

    # --- admission and body -------------------------------------------------------------------

    async def _perform(
        self, run: Run[Any], call: Call[Any], id_: str, known: CallRow | None, title: str, why: str, same: str
    ) -> Outcome:
        s = self._s
        tool = call.tool
        effects = tool.effect in ("write", "irreversible")
        before: bytes | None = None
        facts: list[str] = []
        if effects:
            s.agent.saw(tool)
            if s.journal.rows:
                await self._diverges(run, call, id_)
            if tool.before is not None:
                before = await self._before(call, id_)
            facts = await s.freshness.holding()
        if isinstance(call, ChildCall):
            check_driven(s, call.agent.name)
            check_depth(s)
        ref = CallRef(id_, tool.name, tool.effect, s.env.store.now(), title)
        row = None
        if effects or tool.kind in ("sleep", "child") or known is not None:
            row = self._row(run, call, ref, known, before)
        flight = await self._admit(run, call, ref, row, known is not None, why, same=same)
        flight.facts = facts
        if s.env.performed is not None:
            s.env.performed[tool.name] = s.env.performed.get(tool.name, 0) + 1
        if isinstance(call, ChildCall):
            return await self._waiting(flight, wait_for_child(s, flight, call))
        if tool.kind == "sleep":
            assert row is not None and row.wake_at is not None
            return await self._waiting(flight, _sleep_until(s, row.wake_at))
        if not effects and tool.is_async and not tool.process and tool.timeout is None:
            return await self._inline(run, flight)
        return await self._owned(run, flight)

    async def _before(self, call: Call[Any], id_: str) -> bytes:
        tool = call.tool
        read = tool.before
        assert read is not None
        beside = Flight(self._s, id_, call, CallRef(id_, tool.name, tool.effect), 0, None)
        try:
            return before_codec(tool).dump(await ahead(beside, lambda: read(**call.args)))
        except Exception as error:
            raise CallFailed(
                f"what {tool.name} needs for its undo could not be read: {text_of(error)}",
                type=type(error).__name__,
                call=id_,
                hint="the call was not performed",
            ) from error

    def _row(
        self, run: Run[Any], call: Call[Any], ref: CallRef, known: CallRow | None, before: bytes | None
    ) -> CallRow:
        s = self._s
        tool = call.tool
        wake_at = known.wake_at if known is not None else None
        if tool.kind == "sleep" and wake_at is None:
            wake_at = s.env.clock.now() + float(call.args["seconds"])
        return CallRow(
            run=s.row.n,
            id=ref.id,
            epoch=s.row.epoch,
            step=run.place,
            attempt=run.number,
            tool=tool.name,
            kind=tool.kind,
            effect=tool.effect,
            settles=tool.settles,
            undoable=tool.undo is not None,
            status="started",
            args=call.raw,
            wanted=known.wanted if known is not None else None,
            before=before if before is not None else (known.before if known is not None else None),
            wake_at=wake_at,
            title=ref.title,
            since=ref.since,
            person=s.person,
        )

    async def _quick(
        self, run: Run[Any], call: Call[R], id_: str, title: str, why: str, task: asyncio.Task[Any] | None
    ) -> R:
        """The ordinary read, with nothing between it and its body: the same as _perform and _inline, in one frame."""
        s = self._s
        tool = call.tool
        flight = await self._admit(
            run, call, CallRef(id_, tool.name, tool.effect, s.env.store.now(), title), None, False, why
        )
        flight.task = task
        if s.env.performed is not None:
            s.env.performed[tool.name] = s.env.performed.get(tool.name, 0) + 1
        try:
            result: R = await in_context(body_context(flight), lambda: tool.fn(**call.args))
            raw, result = tool.round_trip(result)
        except asyncio.CancelledError:
            if is_cancelled(flight):
                self._inline_cut(flight)
                raise
            outcome = CANCELLED_ITSELF
        except BaseException as error:  # noqa: BLE001 - the step gets it as CallFailed
            outcome = failure(contained(error, task))
        else:
            if not flight.cutting and not flight.abandoned:
                s.ended(flight, Outcome("finished", raw))
                return result
            outcome = Outcome("finished", raw)
        await self._see_inline_end(run, flight, outcome)
        raise self._error(id_, outcome.error, outcome.message)

    def _inline_cut(self, flight: Flight) -> None:
        ladder = ladder_of(flight.task)
        if ladder is not None:
            ladder.allow(CODE_GRACE)  # from here on it is the step's own code that cleans up
        self._see_cut(flight, Outcome("cut"))

    def _see_cut(self, flight: Flight, outcome: Outcome) -> None:
        """An inline body was cut and has ended; its call has not before its threads have."""
        flight.unwound = True
        flight.token.stop()
        flight.cut_threads()
        if not flight.close():
            self._s.afterwards(self._see_threads_end(flight, outcome))
        elif flight.abandoned:
            self._s.afterwards(late(self._s, flight, outcome))
        else:
            self._s.ended(flight, outcome)

    async def _see_threads_end(self, flight: Flight, outcome: Outcome) -> None:
        await flight.threads_end()
        self._see_cut(flight, outcome)

    async def pass_through(
        self, run: Run[Any], call: Call[Any], ref: CallRef, refuse: Callable[[], Awaitable[None]]
    ) -> Flight:
        """Admit a request that no call made; refused, `refuse` raises instead of waiting for ever."""
        flight = await self._admit(run, call, ref, None, False, "", refuse)
        performed = self._s.env.performed
        if performed is not None:
            performed[ref.tool] = performed.get(ref.tool, 0) + 1
        return flight

    async def _admit(
        self,
        run: Run[Any],
        call: Call[Any],
        ref: CallRef,
        row: CallRow | None,
        update: bool,
        why: str,
        refuse: Callable[[], Awaitable[None]] | None = None,
        same: str = "",
    ) -> Flight:
        s = self._s
        scope = run.scope
        park = refuse or scope.park
        if scope.closed or run.number != scope.number or s.shut:
            await park()
        admission = Admission(ref, run.scope, run.number, call.raw, why, row, update)
        if same or s.row.doc.writes is not None:
            admission.counted = self._counted(run, call, ref.id, same, passage=refuse is not None)
        if isinstance(call, ChildCall) and not update:
            admission.also = insert_child(s, ref.id, call)
        s.spent.calls += 1
        if run.plan.changed:
            s.show_plan(run.plan)
        commit = s.commit()
        commit.admissions.append(admission)
        lease, lapses = s.env.lease, s.env.lease.lapses
        try:
            if s.env.live == 1:
                await s.flush(commit)
            else:
                await commit.wait()
        except asyncio.CancelledError:
            admission.orphaned = True
            if commit.done:
                s.not_begun(admission)
            raise
        except Fenced:
            await park()
        if not admission.admitted:
            await park()
        if run.number != admission.attempt:  # its step has returned meanwhile
            s.not_begun(admission)
            await park()
        flight = Flight(s, ref.id, call, ref, admission.attempt, row)
        s.flights[ref.id] = flight
        if s.env.points is not None or not lease.fresh or lease.lapses != lapses:
            try:
                await self._may_begin(flight, lapses)
            except asyncio.CancelledError:
                s.ended(flight, Outcome("cut"), begun=False)
                raise
            if flight.cutting:  # a stop came before there was anything to cut
                s.ended(flight, Outcome("cut"), begun=False)
                await park()
        s.began(flight)
        return flight

    def _counted(
        self, run: Run[Any], call: Call[Any], id_: str, same: str, *, passage: bool
    ) -> Callable[[RunDoc], None] | None:
        """What an admission changes in the counts of equal writes: nothing for a model's call or a person's."""
        epoch, step, heard = self._s.row.epoch, run.step, bool(run.mail_read)
        if call.tool.kind == "model" or passage or self._s.person:
            return None

        def change(doc: RunDoc) -> None:
            doc.writes = equal_writes.admitted(doc.writes, epoch, step, same, id_, heard=heard)

        return change

    async def _may_begin(self, flight: Flight, lapses: int) -> None:
        """Last checks between admission and body: was this process silent so long that it may have been replaced?"""
        s = self._s
        lease = s.env.lease
        if s.env.points is not None:
            await s.env.points.reached(s.row.id, flight.call.tool.name, "admitted")
        if (not lease.fresh or lease.lapses != lapses) and not await s.still_mine():
            await asyncio.get_running_loop().create_future()  # fenced: the attempt is about to be cut

    async def _inline(self, run: Run[Any], flight: Flight) -> Outcome:
        s = self._s
        flight.task = asyncio.current_task()
        try:
            outcome = await perform(s, flight)
            if s.env.points is not None:
                await s.env.points.reached(s.row.id, flight.call.tool.name, "performed")
        except asyncio.CancelledError:
            self._inline_cut(flight)
            raise
        await self._see_inline_end(run, flight, outcome)
        if s.env.points is not None:
            await s.recorded(flight)
        return outcome

    async def _see_inline_end(self, run: Run[Any], flight: Flight, outcome: Outcome) -> None:
        """Does not return if the body was cut and ended in its own way: its caller has not seen the cancellation."""
        if flight.cutting or flight.abandoned:
            self._see_cut(flight, outcome)
            await run.scope.park()
        else:
            self._s.ended(flight, outcome)
            if outcome.kind == "cut":  # between two tries: the stop that is in the store has not come here yet
                await run.scope.park()

    async def _owned(self, run: Run[Any], flight: Flight) -> Outcome:
        s = self._s
        flight.done = s.env.loop.create_future()
        _ = s.own(self._see_through(flight))
        try:
            outcome = await asyncio.shield(flight.done)
        except asyncio.CancelledError:
            if flight.repeatable:
                flight.cut()
            raise
        if outcome.kind == "cut" or flight.abandoned:
            await run.scope.park()
        return outcome

    async def _see_through(self, flight: Flight) -> None:
        """The driver's side of a call: its body, its record, whether or not anybody waits."""
        s = self._s
        outcome = await perform(s, flight)
        if s.env.points is not None:
            await s.env.points.reached(s.row.id, flight.call.tool.name, "performed")
        if flight.abandoned:
            await late(s, flight, outcome)
            return
        commit = s.ended(flight, outcome)
        if not flight.repeatable:
            try:
                await commit.wait()
            except Exception:  # noqa: BLE001 - fenced: kept as a late result; a fault of ours: the supervisor has it
                return
            await s.freshness.refresh(flight.facts)
        if s.env.points is not None:
            await s.recorded(flight)
        assert flight.done is not None
        if not flight.done.done():
            flight.done.set_result(outcome)

    async def _waiting(self, flight: Flight, wait: Any) -> Outcome:
        s = self._s
        flight.task = asyncio.current_task()
        s.waits(1)
        try:
            outcome: Outcome = await wait
        except asyncio.CancelledError:
            s.ended(flight, Outcome("cut"))
            raise
        finally:
            s.waits(-1)
        s.ended(flight, outcome)
        return outcome

    # --- results --------------------------------------------------------------------------------

    def _replayed(self, call: Call[R], row: CallRow) -> R:
        if row.error is not None:
            raise self._error(row.id, row.error, row.message or "")
        assert row.result is not None
        return self._load(call, row.result)

    def _value(self, call: Call[R], id_: str, outcome: Outcome) -> R:
        if outcome.kind == "finished":
            return self._load(call, outcome.raw)
        raise self._error(id_, outcome.error, outcome.message)

    @staticmethod
    def _load(call: Call[R], raw: bytes) -> R:
        if isinstance(call, AskCall):
            answer: Codec[R] = call.codec
            return answer.load(raw)
        if isinstance(call, ChildCall):
            child: Agent[Any, R] = call.agent
            return child.result_codec.load(raw)
        return call.tool.load_result(raw)

    @staticmethod
    def _error(id_: str, error: str, message: str) -> CallFailed:
        kind = _ERRORS.get(error, CallFailed)
        return kind(message, type=error, call=id_)


async def _sleep_until(session: Session, wake_at: float) -> Outcome:
    """Until the time has come by the wall clock, or has passed by the monotonic one if the wall clock was set back."""
    clock = session.env.clock
    end = clock.monotonic() + wake_at - clock.now()
    while (left := min(wake_at - clock.now(), end - clock.monotonic())) > 0:
        await clock.sleep(min(left, LOOK_AT_THE_CLOCK))
    return Outcome("finished", b"null")
