"""One run, held by this driver: its row, its calls in flight, and the way to the store."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar
from weakref import WeakKeyDictionary

from pydantic import JsonValue

from standfast import budget as budgets
from standfast import equal_writes, loops
from standfast import events as ev
from standfast.abc import Tx
from standfast.agents import Agent
from standfast.clock import moment
from standfast.codec import expand_logs, from_json
from standfast.commit import Admission, DriverWrite, Ended, StepCommit, ended_row
from standfast.contained import contain
from standfast.env import Env
from standfast.errors import Fenced
from standfast.events import Event
from standfast.family import Over, over_cap
from standfast.flight import Flight, Outcome
from standfast.freshness import Freshness
from standfast.gate import Gate
from standfast.journal import Journal
from standfast.loops import Rounds
from standfast.outliving import keep_refused
from standfast.plan import Plan
from standfast.programs import Programs
from standfast.records import EndedAs, Hold, InFlight, Interruption, Mode, Moment, Residue, Spent
from standfast.rows import CLEANING_UP, CallRow, RunDoc, RunRow
from standfast.scope import Attempt, current_attempt
from standfast.tools import Call, Tool
from standfast.voice import Voice

T = TypeVar("T")

YIELD_SECONDS = 0.01
NOTICEABLE = 0.1  # seconds of clean-up before people are shown it: most calls have none
SHOWN_BYTES = 200  # of a call's arguments, when it is said what repeats
REFUSED_NAMED = 20  # requests of clean-up that a receipt names
StopAsked = tuple[Hold, str, JsonValue, Moment]


class Session:
    """What the parts of a driver share about one run. Only the event loop's thread changes it, but for `shut`."""

    def __init__(self, env: Env, row: RunRow, agent: Agent[Any, Any]) -> None:
        self.env = env
        self.row = row  # as last committed
        self.fence = row.fence
        self.agent = agent
        self.step = row.step  # may be one ahead of the row while a boundary is being committed
        self.spent = Spent()
        self.rounds = row.doc.rounds or Rounds()
        self.person = ""  # the order of a person whose call this attempt performs
        self.journal = Journal(row.id, row.epoch, row.doc.own_step(row.step))
        self.interruption: Interruption | None = None
        self.attempt: Attempt | None = None
        self.pending: StepCommit | None = None
        self.sealed: StepCommit | None = None  # the last that was handed to the store; it may be on its way there
        self.flights: dict[str, Flight] = {}
        self.left: list[Flight] = []  # outlived their deadline
        self.begun_in = WeakKeyDictionary[asyncio.Future[Any], int]()  # code that goes on beside a later step: its own
        self.ended_code: set[str] = set()  # calls and places of code, of what was named as still running
        self.outcomes: list[InFlight] = []  # of the stop under way
        self.refused: list[Residue] = []  # requests that clean-up was refused, for the receipt of the stop
        self.begun: deque[tuple[str, float]] = deque(maxlen=1000)  # bodies begun, and when
        self.answers: dict[str, asyncio.Future[CallRow]] = {}
        self.wake = asyncio.Event()
        self.shut = False  # set by the control thread the moment a verb has closed the gate
        self.unwritten: Mode | None = None  # a stop that the store could not take: it holds in this process
        self.held_here = False  # such a stop has shut the gate for this attempt, whatever came of it
        self.noticed = False
        self.fenced = False
        self.fault: BaseException | None = None  # of ours: a commit that could not be made
        self.stop_asked: StopAsked | None = None
        self.activity = ""
        self.waiting = 0
        self.on_waiting: Callable[[int], None] = lambda _: None
        self.look_for_work: Callable[[], None] = lambda: None
        self.tasks: set[asyncio.Task[Any]] = set()
        self.gate = Gate(self)
        self.voice = Voice(self)
        self.freshness = Freshness(self)
        self.programs = Programs(self)
        self.thread = threading.get_ident()
        self._yielded = env.loop.time()
        self._counted_until = env.clock.monotonic()

    # --- writing ------------------------------------------------------------------------------

    def commit(self) -> StepCommit:
        """What will be written next; begins a new one if the last is sealed."""
        pending = self.pending
        if pending is None:
            pending = self.pending = StepCommit(self)
            self.env.writer.submit(pending)
        return pending

    async def flush(self, commit: StepCommit) -> None:
        """Until `commit` is durable: at once while this is the only run, with others' commits otherwise."""
        env = self.env
        if env.live == 1 and env.writer.idle:
            env.writer.flush()
            now = env.loop.time()
            if now - self._yielded > YIELD_SECONDS:
                self._yielded = now
                await asyncio.sleep(0)
            if commit.done and commit.error is None:
                return
        await commit.wait()

    async def flushed(self) -> None:
        """Until all that was said so far is durable, a commit that is being made included."""
        latest = self.pending or self.sealed
        if latest is not None and not latest.done:
            await self.flush(latest)

    async def flushed_or_fenced(self) -> None:
        """The same at the end of an attempt: a fence is then found by whoever looks next."""
        try:
            await self.flushed()
        except Fenced:
            self.fenced = True
            self.wake.set()

    def agent_json(self, raw: bytes) -> Any:
        """A stored state as plain JSON, logs included."""
        return expand_logs(from_json(raw), self.fetch)

    def note(self, event: Event) -> None:
        """Add an event to the record with the next commit."""
        self.commit().notes.append(event)

    def change(self, change: Callable[[RunDoc], None]) -> None:
        """Change the run's document with the next commit."""
        self.commit().change.append(change)

    def show_plan(self, plan: Plan) -> None:
        """Let people see the plan as it is now, with the next commit."""
        if not plan.changed:
            return
        plan.changed = False
        items = list(plan.items)

        def change(doc: RunDoc) -> None:
            doc.plan = items

        self.note(ev.PlanChanged(plan=items))
        self.change(change)

    def remember_value(
        self, name: str, value: JsonValue, *, took_mail: bool = False, heard: Sequence[str] = ()
    ) -> None:
        """Journal a value that is no call's: the same when the step is repeated."""
        self.journal.values[name] = value

        def change(doc: RunDoc) -> None:
            doc.values = {**doc.values, name: value}
            doc.took_mail = doc.took_mail or took_mail
            if heard:
                doc.writes = None  # whoever acts on what was said anew does not go round and round

        commit = self.commit()
        commit.heard += heard
        commit.change.append(change)

    def begin_step(self) -> None:
        """The next step begins with an empty journal."""
        self.journal = Journal(self.row.id, self.row.epoch, self.row.doc.own_step(self.step))
        self.interruption = None
        self.programs.step_ended()

    def fetch(self, log: str, start: int, stop: int) -> list[bytes]:
        """Rows of a log, when a step reads it."""
        return self.env.store.read(lambda tx: tx.read_log(log, start, stop))

    async def write(
        self, act: Callable[[Tx, RunRow], tuple[T, list[Event], bytes | None]], *, urgent: bool = True
    ) -> T:
        """A transition of this driver, on the run as it is now; raises Fenced if it is no longer ours."""
        future: asyncio.Future[T] = self.env.loop.create_future()
        self.env.writer.submit(DriverWrite(self, act, future, urgent))
        return await asyncio.shield(future)

    def advanced(self, commit: StepCommit) -> None:
        """A commit is durable."""
        row = commit.row
        assert row is not None
        self.row = row
        for admission in commit.admissions:
            if admission.orphaned:
                self.not_begun(admission)
        attempt = self.attempt
        if commit.boundary_refused or row.status != "running" or (attempt is not None and row.attempt > attempt.number):
            self.wake.set()
        self.env.hub.stepped(row.id)

    def commit_failed(self, commit: StepCommit, error: BaseException) -> None:
        """A commit was lost for good: the run was taken away, or the fault is ours."""
        if isinstance(error, Fenced):
            self.fenced = True
            keep_refused(self, commit)
        else:
            self.fault = error
        self.shut = True
        self.wake.set()

    def running_seconds(self) -> float:
        """Running time since the last commit."""
        now = self.env.clock.monotonic()
        seconds, self._counted_until = now - self._counted_until, now
        self.spent.seconds += seconds
        return seconds

    def count_later(self, seconds: float) -> None:
        """Running time that was not written after all."""
        self._counted_until -= seconds
        self.spent.seconds -= seconds

    # --- budget -------------------------------------------------------------------------------

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None:
        """Count what a call used."""
        used = Spent(input_tokens=input_tokens, output_tokens=output_tokens, cost=cost)
        self.commit().use(used)
        budgets.add(self.spent, used)

    def count_child_calls(self, calls: int) -> None:
        """A child's calls are the parent's too."""
        used = Spent(calls=calls)
        self.commit().use(used)
        budgets.add(self.spent, used)

    def over_cap(self) -> Over | None:
        """The run, this one or one above it, whose budget leaves no room for another call."""
        spent = self.spent
        if self.row.doc.budget.seconds is not None:
            spent = replace(spent, seconds=spent.seconds + self.env.clock.monotonic() - self._counted_until)
        if self.row.parent is None and not (self.flights and any(f.is_child for f in self.flights.values())):
            over = budgets.exhausted(self.row.doc.budget, spent)
            return (self.row.id, over) if over else None
        return self.env.store.read(lambda tx: over_cap(tx, self.row, spent))

    # --- calls in flight ------------------------------------------------------------------------

    def began(self, flight: Flight) -> None:
        """A body begins now."""
        self.begun.append((flight.id, self.env.store.now()))

    def ended(self, flight: Flight, outcome: Outcome, *, begun: bool = True) -> StepCommit:
        """A call has ended: recorded with the next commit."""
        if flight.spoiled and flight.repeatable:
            outcome = Outcome("cut")
        flight.ended = True
        if flight.tied:
            flight.cut_tied()
        if flight.mark:
            flight.let_go_of_programs(cut=outcome.kind in ("cut", "timed_out"))
        if flight.token.stopped:
            flight.close()
        elif flight.threads and flight.scope is not None:
            flight.scope.pieces.take(flight.threads)
        self.flights.pop(flight.id, None)
        if flight.speech is not None:
            self.voice.end(flight)
        if flight.cleaning:
            self.waits_no_longer(flight)
        ended = ended_row(flight, outcome, self.step, self.row.n, self.row.epoch)
        if not begun and ended.row is not None:
            ended.row.status = "not_begun"
            ended.event = ev.CallCut(call=flight.id, outcome="not_begun", why="it was stopped before it began")
        commit = self.commit()
        commit.ended.append(ended)
        if self.row.doc.budget.repeats is not None and outcome.kind != "cut" and not flight.passage:
            self._repeated(flight, outcome)
        if outcome.kind == "not_performed" or not begun:
            self._not_made(flight.id)
        if flight.over is not None and not flight.over.done():
            flight.over.set_result(None)
        if self.answers:
            self.wake.set()  # perhaps only questions are left now
        if flight.cutting or self.shut or not begun:
            self._note_outcome(flight, outcome, begun=begun)
        return commit

    def _note_outcome(self, flight: Flight, outcome: Outcome, *, begun: bool) -> None:
        if not begun:
            word: EndedAs = "aborted"
        elif outcome.error == "ChildCancelled":
            word = "aborted"  # whether the call or its child was seen to end first
        elif flight in self.left and not flight.gone:  # its time was up before the stop came, and it goes on
            word = "still_running"
        elif outcome.kind == "cut":
            word = "aborted" if flight.repeatable else "in_doubt"
        else:
            word = "finished" if outcome.kind == "finished" else "failed"
        self.outcomes.append(flight.outcome(word))
        if self.shut and flight.is_stream:
            self.note(flight.stream_ended(word))

    def _repeated(self, flight: Flight, outcome: Outcome) -> None:
        call, result = flight.call, outcome.raw or f"{outcome.error}: {outcome.message}".encode()
        short = len(call.raw) <= SHOWN_BYTES and call.tool.kind != "model"
        shown = self.shown(call) if short else f"{call.tool.name}(...)"
        self._went_on(loops.called(self.rounds, call.tool.kind, call.what, result, shown))

    def stepped_quietly(self, state: bytes) -> None:
        """A step has ended that called nothing and read no mail."""
        self._went_on(loops.stepped(self.rounds, state))

    def _went_on(self, rounds: Rounds) -> None:
        self.rounds = rounds

        def change(doc: RunDoc) -> None:
            doc.rounds = rounds

        self.change(change)

    def not_begun(self, admission: Admission) -> None:
        """An admission whose caller had gone: recorded as not begun, never in doubt."""
        admission.orphaned = False
        if not admission.admitted:
            return
        row = admission.row
        if row is not None:
            row.status = "not_begun"
        self._not_made(admission.ref.id)
        event = ev.CallCut(call=admission.ref.id, outcome="not_begun", why="its caller had gone")
        self.commit().ended.append(Ended(admission.ref.id, row, row is not None, event))

    def _not_made(self, call: str) -> None:
        """Nothing of a call has happened: it is no equal write."""
        writes = self.row.doc.writes
        if writes is None or call not in writes.calls:
            return

        def change(doc: RunDoc) -> None:
            doc.writes = equal_writes.not_made(doc.writes, call)

        self.change(change)

    async def recorded(self, flight: Flight) -> None:
        """A test's point: the result is durable."""
        await self.flushed()
        assert self.env.points is not None
        await self.env.points.reached(self.row.id, flight.call.tool.name, "recorded")

    # --- questions ------------------------------------------------------------------------------

    async def post_question(self, row: CallRow, known: bool, scope: Attempt, attempt: int) -> bool:
        """Make a question durable; False if the gate has closed meanwhile."""
        await self.flushed()

        def act(tx: Tx, run: RunRow) -> tuple[bool, list[Event], bytes | None]:
            if run.status != "running" or run.attempt != attempt or scope.closed:
                return False, [], None
            old = tx.call(run.n, row.id)
            if old is not None:
                tx.update_call(row)
            else:
                tx.insert_call(row)
            if row.wake_at is not None:
                run.wake_at = min(row.wake_at, run.wake_at) if run.wake_at is not None else row.wake_at
            kind: Literal["question", "approval"] = "question" if row.kind == "ask" else "approval"
            asked = ev.Asked(
                call=row.id, kind=kind, text=row.question or "", args=from_json(row.args), options=row.options
            )
            return True, [asked], None

        del known
        return await self.write(act, urgent=False)

    async def answer_to(self, id_: str) -> CallRow:
        """The row of a question, once a person has decided."""
        future = self.answers.get(id_)
        if future is None:
            future = self.answers[id_] = self.env.loop.create_future()
        self.noticed = True  # it may have been answered before anybody waited
        self.wake.set()
        try:
            return await asyncio.shield(future)
        finally:
            self.answers.pop(id_, None)
            self.journal.left_open = self.journal.left_open or not future.done()

    # --- retries of a model's call ----------------------------------------------------------------

    def waits_for_retry(self, flight: Flight, seconds: float, why: str, tries: int) -> None:
        """Show what a call waits for, here and to other processes."""
        text = f"waiting {seconds:.3g} s: {why}"

        def change(doc: RunDoc) -> None:
            doc.retrying = {**doc.retrying, flight.id: text}

        self.note(ev.CallWaits(call=flight.id, seconds=seconds, why=why, tries=tries))
        self.change(change)

    def waits_no_longer(self, flight: Flight) -> None:
        """The call is tried again."""

        def change(doc: RunDoc) -> None:
            doc.retrying = {id_: text for id_, text in doc.retrying.items() if id_ != flight.id}

        self.change(change)

    # --- clean-up of calls that were cut ----------------------------------------------------------

    def cleans_up(self, flight: Flight) -> None:
        """A call was cut: if it takes a moment, people see that it is cleaning up, here and in other processes."""
        self.env.loop.call_later(NOTICEABLE, self._cleans_up, flight)

    def _cleans_up(self, flight: Flight) -> None:
        def change(doc: RunDoc) -> None:
            doc.retrying = {**doc.retrying, flight.id: CLEANING_UP}

        if flight.being_cut and not flight.ended and not flight.abandoned and not self.fenced:
            flight.cleaning = True
            self.change(change)

    def refused_in_clean_up(self, request: str, flight: Flight | None = None) -> None:
        """Code in its clean-up asked for a request that no stopped run may send: what it would have released stays."""
        code = f"code of step {self.step}" if flight is None else flight.call.tool.name
        refused = Residue(f"the clean-up of {code} was refused {request}", "a run that is stopped sends nothing")
        if refused in self.refused or len(self.refused) == REFUSED_NAMED or self.fenced:
            return
        self.refused.append(refused)
        self.note(ev.LeftBehind(what=refused.what, where=refused.why))

    def may_go_on(self, flight: Flight) -> bool:
        """Is the gate open for a call that was admitted a while ago? Asked of the store: a verb may be on its way."""
        row = self.env.store.read(lambda tx: tx.run_n(self.row.n))
        mine = row is not None and row.fence == self.fence and row.status == "running"
        return mine and not flight.being_cut and not self.shut

    async def may_still_happen(self, call: CallRow) -> bool:
        """Whoever had begun it, before it was taken over or left, is not known to be dead, or a program of theirs."""
        holder = call.left_by
        return holder is not None and not await self.env.remains.all_dead(self.env.store, self.row, holder, [call.id])

    # --- signals ----------------------------------------------------------------------------------

    def notice(self) -> None:
        """A verb has touched this run."""
        self.noticed = True
        self.wake.set()

    def stop_unwritten(self, mode: Mode | None) -> None:
        """A stop holds here that is not in the store yet; None once it is, or if it came to nothing."""
        self.unwritten = mode
        if mode is not None:
            self.shut = self.held_here = True
        self.wake.set()

    def ask_stop(self, hold: Hold, text: str, data: JsonValue = None) -> None:
        """The run itself cannot go on: it will be paused with this hold."""
        if self.stop_asked is None:
            self.stop_asked = (hold, self.without_secrets(text), data, moment(self.env.store.now()))
            self.shut = True
        self.wake.set()

    def doing(self, what: str) -> None:
        """What this driver waits for, for people."""
        self.activity = what

    def waits(self, change: int) -> None:
        """Calls that only wait (children, sleep) give their place to other runs."""
        self.waiting += change
        self.on_waiting(self.waiting)

    def in_loop(self, act: Callable[..., object], *args: Any) -> None:
        """Do something in the event loop's thread, from whatever thread."""
        if threading.get_ident() == self.thread:
            act(*args)
        elif not self.env.loop.is_closed():
            self.env.loop.call_soon_threadsafe(act, *args)

    # --- without secrets ----------------------------------------------------------------------------

    def without_secrets(self, text: str) -> str:
        """A text that people are shown, and that nothing needs to be exact."""
        redactor = self.env.redactor
        return text if redactor is None else redactor.text(text)

    def shown(self, call: Call[Any]) -> str:
        """A call in a few words: its arguments are cleaned before they are cut, or half a key would be left."""
        redactor = self.env.redactor
        clean = call.raw if redactor is None else redactor.json(call.raw)
        return call.shown(call.args if clean is call.raw else from_json(clean))

    # --- small services ---------------------------------------------------------------------------

    def own(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task of the driver, in nobody's step: whoever's code it is called from, it is not stopped with that."""
        context = contextvars.copy_context()
        context.run(current_attempt.set, None)
        task = self.env.loop.create_task(work, context=context)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def afterwards(self, work: Coroutine[Any, Any, Any]) -> None:
        """The same for what nobody waits for, because the run has gone on without it.

        Once the runtime is closed nothing can be written: the loop may be ending, and would leave the task pending.
        """
        if self.env.writer.closed:
            work.close()
        else:
            _ = self.own(work)

    async def perform_plainly(self, tool: Tool[..., Any], args: dict[str, Any]) -> Any:
        """A read outside the journal, as freshness needs it."""
        return await contain(lambda: tool.fn(**args) if tool.is_async else asyncio.to_thread(tool.fn, **args))

    async def still_mine(self) -> bool:
        """After a long silence: is this driver's fence still the run's?"""
        row = self.env.store.read(lambda tx: tx.run_n(self.row.n))
        if row is not None and row.fence == self.fence and row.holder == self.env.lease.id:
            return True
        self.fenced = True
        self.shut = True
        self.wake.set()
        return False

    def tool_of(self, row: CallRow) -> Tool[..., Any] | None:
        """The code of a ledger row, as the agent that performed it means the name: this run's, or a child's."""
        if row.run == self.row.n:
            return self.agent.tool(row.tool)
        owner = self.env.store.read(lambda tx: tx.run_n(row.run))
        agent = self.env.agents.get(owner.agent) if owner is not None else None
        return agent.tool(row.tool) if agent is not None else None
