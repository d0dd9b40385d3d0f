"""Runtime: the store, the control thread and the drivers of one process, wired together."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

from pydantic_core import from_json, to_json
from typing_extensions import Unpack

from standfast import arguments
from standfast import budget as budgets
from standfast.abc import Clock, Connect, Ids, Points, Tx, Use
from standfast.agents import Agent, as_agent
from standfast.clock import RandomIds, SystemClock, moment
from standfast.codec import storable
from standfast.control import Ask, by_route, load
from standfast.control_thread import ControlThread
from standfast.driver import Driver
from standfast.driving import Driving, announce
from standfast.env import Env
from standfast.errors import DuplicateAgent, Misuse, StoreDamaged, StoreError, UnknownAgent, UnknownRun
from standfast.events import Event
from standfast.evidence.forgetting import PAUSE_SECONDS, Turn, forgetting
from standfast.evidence.notary import Notary, NotaryState
from standfast.evidence.signing import Signing
from standfast.forking import fork_run
from standfast.handle import Handle
from standfast.hub import Hub
from standfast.json_values import fingerprint
from standfast.leases import LEASE_SECONDS, Lease, Others
from standfast.outside import MOST_TRIES, Outside, Unfinished
from standfast.records import Answer, Budget, Halt, Mode, RunView, Status
from standfast.redaction import Redactor, Secret, as_redactor
from standfast.requests import made_once
from standfast.rows import RunRow
from standfast.starting import digest_of_start, start_once, state_for
from standfast.stores.group import GroupWriter
from standfast.stores.sqlite import SqliteStore, connect_sqlite
from standfast.unwritten import Unwritten, halt_not_recorded
from standfast.verbs import Sign, Verify, halts_in, lift_halt, set_halt, wanted_halt
from standfast.views import readable_view
from standfast.watched import ROWS_AT_ONCE

S = TypeVar("S")
if TYPE_CHECKING:
    from standfast.evidence.bundle import Bundle, Wishes

R = TypeVar("R")
T = TypeVar("T")

log = logging.getLogger("standfast")

TICK = 0.25
PROBE_SECONDS = 2.0  # a server that writes nothing else for so long finds out whether it could, if that matters


class Runtime:
    """Runs in one store. With agents, it drives them; with `drive=False`, it only controls."""

    def __init__(
        self,
        store: str | os.PathLike[str],
        agents: Sequence[Any] = (),
        *,
        provide: Mapping[type[Any], Any] | None = None,
        concurrency: int | None = None,
        drive: bool = True,
        clock: Clock | None = None,
        ids: Ids | None = None,
        connect: Connect = connect_sqlite,
        points: Points | None = None,
        lease_seconds: float = LEASE_SECONDS,
        notary: Notary | bool = True,
        redact: Redactor | Sequence[Secret | str] | bool = True,
    ) -> None:
        if not isinstance(store, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Misuse(f"{store!r} is no place for a store", hint='give the path of a file, or ":memory:"')
        if not isinstance(agents, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Misuse(f"agents={agents!r} is no list", hint="Runtime(..., agents=[...])")
        if concurrency is not None and arguments.whole("concurrency", concurrency, "leave it out for no limit") < 1:
            raise Misuse("concurrency must be at least 1", hint="leave it out for no limit")
        self.agents: dict[str, Agent[Any, Any]] = {}
        for given in agents:
            one = as_agent(given)
            if one.name in self.agents and self.agents[one.name] is not one:
                raise DuplicateAgent(f"two agents are called {one.name!r}", hint="names tell runs apart: rename one")
            self.agents[one.name] = one
            _ = one.tools  # BadTool here, not in the middle of a run
        self._clock: Clock = clock or SystemClock()
        self.ids: Ids = ids or RandomIds()
        self.hub = Hub()
        self._store = SqliteStore(store, connect=connect, now=self._clock.now, looks_only=not drive)
        self._provide = dict(provide or {})
        self._concurrency = concurrency
        self._drives = drive
        self._points = points
        self._others = Others(lease_seconds)
        self._lease_seconds = lease_seconds
        self._thread: ControlThread | None = None
        self._driving: Driving | None = None
        self._trouble = ""
        self._shown = ""  # the trouble that readers were last woken for
        self._keeps_room = False
        self._probed = 0.0
        self._probe_wanted = False
        self._held_here: dict[str, Unwritten[Any]] = {}  # runs that wait for a stop to be recorded: shown to people
        self._unrecorded: builtins.list[Unwritten[Any]] = []  # stops of what cannot be read: they hold here to the end
        self._end_elsewhere: Callable[[Sequence[str], str], None] | None = None
        self._performed: dict[str, int] | None = None  # counts of bodies begun, for tests
        self._signing = Signing(self._store, notary, drives=drive)
        self._redactor = as_redactor(redact)
        if self._redactor is not None:
            self._store.redact = self._redactor

    @property
    def signing(self) -> NotaryState:
        """Is what happens here signed for, up to where, and if not, why?"""
        return self._signing.state

    @property
    def store_path(self) -> Path:
        """The file that the runs are in."""
        return self._store.path

    @property
    def clock(self) -> Clock:
        """The time this runtime goes by."""
        return self._clock

    # --- entering and leaving -----------------------------------------------------------------------

    async def __aenter__(self) -> Runtime:
        if self._thread is not None:
            raise Misuse("this Runtime has been entered already", hint="use one `async with` per Runtime")
        self._checks = ThreadPoolExecutor(1, "standfast-checks")  # one at a time, so a flood of them fills no core
        if self._drives:
            self._store.create()
            self.keep_room()
        elif self._store.exists():
            self._store.read(lambda tx: tx.last_signal())
        self._signing.open()
        if self._redactor is not None:
            self._redactor.lasting = partial(self._signing.secret, b"redaction")  # it may be made after us, or by us
        thread = ControlThread(
            self._store,
            touched=self._touched,
            changed=self._changed,
            tick=self._tick,
            lively=lambda: self.hub.watched or bool(self._active),
            curious=lambda: self._driving is None or self.hub.watches_others(self._active),
        )
        self._thread = thread
        thread.written = self._written
        if self._drives:
            self._driving = self._drive(thread)
            thread.stop_here = self._stop_here
        thread.start()
        if self._driving is not None:
            self._driving.local.look_soon()
        return self

    def _drive(self, thread: ControlThread) -> Driving:
        loop = asyncio.get_running_loop()
        lease = Lease(self.ids.process(), sorted(self.agents), self._lease_seconds)
        announce(self._store, lease, self.agents.values())
        writer = GroupWriter(self._store, loop)
        writer.on_trouble = self._storage_trouble
        env = Env(
            self._store,
            writer,
            self.clock,
            self.ids,
            lease,
            self.hub,
            self.agents,
            self._provide,
            loop,
            self._points,
            performed=self._performed,
            redactor=self._redactor,
        )
        return Driving(env, self._others, self._concurrency, thread)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        if self._driving is not None:
            await self._driving.local.close()
        self._thread.stop()
        if self._driving is not None:
            self._driving.end()
        await asyncio.to_thread(self._signing.close)  # it may wait for an anchor: the loop is not ours to block
        self._store.close()
        self._checks.shutdown(wait=False)  # what waits for one is told that the Runtime is not open
        self._thread = None

    async def restart_driver(self) -> None:
        """As if this process had been killed and another had taken its place; for tests."""
        old, thread = self._driving, self._thread
        assert old is not None
        assert thread is not None
        old.crash()
        # In the control thread: a tick of the old driver under way there would take the lease again.
        await asyncio.wrap_future(thread.call(old.bury))
        old.leave_loop()
        self._driving = self._drive(thread)
        self._driving.local.look_soon()

    # --- starting -------------------------------------------------------------------------------------

    @overload
    async def start(
        self,
        agent: Agent[S, R],
        state: S | dict[str, Any] | str,
        *,
        id: str | None = ...,
        by: str | None = ...,
        reason: str = ...,
        budget: Budget | dict[str, Any] | None = ...,
        labels: dict[str, str] | None = ...,
        deadline: float | None = ...,
        request_id: str | None = ...,
        route: str = ...,
    ) -> Handle[R]: ...
    @overload
    async def start(
        self,
        agent: str,
        state: Any,
        *,
        id: str | None = ...,
        by: str | None = ...,
        reason: str = ...,
        budget: Budget | dict[str, Any] | None = ...,
        labels: dict[str, str] | None = ...,
        deadline: float | None = ...,
        request_id: str | None = ...,
        route: str = ...,
    ) -> Handle[Any]: ...
    async def start(
        self,
        agent: Any,
        state: Any,
        *,
        id: str | None = None,  # noqa: A002
        by: str | None = None,
        reason: str = "",
        budget: Budget | dict[str, Any] | None = None,
        labels: dict[str, str] | None = None,
        deadline: float | None = None,
        request_id: str | None = None,
        route: str = "",
    ) -> Handle[Any]:
        """A new run, queued. The same id with the same agent and state gives the run that is there.

        `deadline` is a time (seconds since the epoch) at which the run is cancelled.
        """
        name = arguments.text("agent", agent) if isinstance(agent, str) else as_agent(agent).name
        code = self.agents.get(name) if isinstance(agent, str) else as_agent(agent)
        if code is not None and not isinstance(agent, str) and self._drives and name not in self.agents:
            raise UnknownAgent(f"agent {name!r} was not given to this runtime", hint="Runtime(..., agents=[...])")
        if id is not None:
            self._check_id(id)
        arguments.text_or_none("by", by)
        arguments.text("route", route)
        reason = arguments.reason(reason)
        arguments.text_or_none("request_id", request_id)
        labels = None if labels is None else arguments.labels_by_name(labels)
        if deadline is not None:
            arguments.number("deadline", deadline, "give seconds since the epoch, as time.time() or .timestamp() do")
        caps = None if budget is None else budgets.given(budget)
        typed = state if code is None else state_for(code, state)
        run_id = id or self.ids.run()
        checks = Outside()

        def insert(tx: Tx) -> bool:
            return start_once(
                tx,
                code,
                name,
                typed,
                run_id,
                checks,
                by=by,
                reason=reason,
                budget=caps,
                labels=labels,
                deadline=deadline,
            )

        def act(tx: Tx) -> str:
            asked = "" if request_id is None else fingerprint([id, name, digest_of_start(tx, code, name, typed)])
            return made_once(tx, request_id, "start", run_id, asked, insert)

        return Handle(self, await self.control(by_route(route, act)))

    async def fork(self, source: Handle[R], at: int | None, state: Any, **ask: Any) -> Handle[R]:
        """See Handle.fork."""
        given_id = ask.pop("id")
        asked_id = None if given_id is None else self._check_id(given_id)
        new_id = asked_id or self.ids.run()
        ask["reason"] = Ask(**{name: ask[name] for name in ("by", "reason", "request_id")}).reason
        if at is not None:
            arguments.whole("at", at, "give the number of a step")
        request_id, route = ask.pop("request_id"), ask.pop("route", "")
        asked = fingerprint([source.id, at, from_json(storable(state)), asked_id])
        checks = Outside()

        def insert(tx: Tx) -> bool:
            row = load(tx, source.id)
            fork_run(tx, row, at, state, self.agents.get(row.agent), new_id, checks=checks, **ask)
            return True

        def act(tx: Tx) -> str:
            return made_once(tx, request_id, "fork", new_id, asked, insert)

        return Handle(self, await self.control(by_route(route, act)))

    def _check_id(self, given: Any) -> str:
        """An id is told to everybody who sees the run and stays when it is forgotten: it must not be a secret."""
        id_ = arguments.run_id(given)
        if self._redactor is not None and self._redactor.text(id_) != id_:
            raise Misuse(
                "this id of a run looks like a secret, and ids are not redacted",
                hint="give another, or leave it out and one is made; nothing was started",
            )
        return id_

    # --- halting --------------------------------------------------------------------------------------

    async def halt(
        self,
        *,
        agent: str | None = None,
        labels: Mapping[str, str] | None = None,
        all: bool = False,  # noqa: A002 - the word of the command
        then: Literal["pause", "cancel"] = "pause",
        reason: str,
        by: str | None = None,
        id: str | None = None,  # noqa: A002
        sign: Sign | None = None,
        route: str = "",
    ) -> Halt:
        """An operator's halt: every matching run stops now, and none starts or goes on until it is lifted.

        It holds runs of an agent, with labels, or all; what lives below them too. The same `id` sets it once.
        """
        wanted = wanted_halt(
            id or self.ids.halt(), agent=agent, labels=labels, all=all, then=then, reason=reason, by=by
        )
        sign, asked = sign or self._signing.halts(), moment(self.clock.now())
        mode: Mode = "pause" if then == "pause" else "cancel"
        stop: Unwritten[Halt] = Unwritten(mode, halt_not_recorded(), agent=wanted.agent, labels=wanted.labels)
        return await self.control(
            lambda tx: set_halt(tx, wanted, self.is_dead, sign=sign, route=route, asked=asked), "control", stop
        )

    async def lift(self, id: str, *, by: str | None = None, reason: str = "", route: str = "") -> Halt:  # noqa: A002
        """The halt holds no longer; runs that nothing else holds go on by themselves."""
        sign = self._signing.halts()
        return await self.control(lambda tx: lift_halt(tx, id, by=by, reason=reason, sign=sign, route=route))

    async def halts(self, *, lifted: bool = False, verify: Verify | None = None) -> builtins.list[Halt]:
        """The halts that hold, oldest first; with `lifted`, every one there ever was."""
        return self.read(lambda tx: halts_in(tx, lifted=lifted, verify=verify)) if self._has_store() else []

    async def forget(
        self, run: Handle[Any] | str, *, by: str | None = None, reason: str = "", route: str = ""
    ) -> Answer:
        """Delete the content of an ended run and its children; the chain keeps their hashes, the house who did it."""
        id_ = run.id if isinstance(run, Handle) else arguments.text("run", run)
        Ask(by=by, reason=reason)
        why = reason if self._redactor is None else self._redactor.text(reason)  # it outlives what is forgotten
        return await self._forgotten(forgetting(id_, by=by, reason=why, route=route))

    async def _forgotten(self, turns: Generator[Turn, Any, Answer]) -> Answer:
        """Each turn in a transaction of its own, among the verbs of others; long looks in a thread of their own."""
        found: Any = None
        while True:
            try:
                kind, act = turns.send(found)
            except StopIteration as end:
                answer: Answer = end.value
                return answer
            self.must_be_open()
            if kind == "read":
                found = await asyncio.wrap_future(self._checks.submit(self.read, act))
            else:
                found = await self.control(act)
                await asyncio.sleep(PAUSE_SECONDS)

    # --- looking ----------------------------------------------------------------------------------------

    def handle(self, id: str, route: str = "") -> Handle[Any]:  # noqa: A002
        """The run of that id; whether there is one is found out by using it. `route`: by which way its verbs come."""
        return Handle(self, arguments.text("id", id), route)

    async def list(
        self,
        status: Status | Sequence[Status] | None = None,
        agent: str | None = None,
        labels: dict[str, str] | None = None,
        needs: bool | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunView]:
        """Runs, newest first. One that cannot be read is listed too: its `error` says why."""
        statuses = None if status is None else arguments.some_of("status", status, get_args(Status))
        if arguments.whole("limit", limit, "give 0 or more") < 0:
            raise Misuse(f"limit={limit!r} makes no sense", hint="give 0 or more")
        arguments.text_or_none("agent", agent)
        arguments.text_or_none("before", before)
        labels = None if labels is None else arguments.texts_by_name("labels", labels)
        if needs is not None:
            arguments.flag("needs", needs)
        now = self.clock.now()

        def look(tx: Tx) -> list[RunView]:
            found = tx.list_runs(status=statuses, agent=agent, labels=labels, needs=needs, limit=limit, before=before)
            if before is not None and not found:
                with contextlib.suppress(StoreDamaged):
                    load(tx, before)  # UnknownRun: nothing comes before nothing
            return [readable_view(tx, named, now, self.doing(named[0])) for named in found]

        return self.read(look) if self._has_store() else []

    async def events(self, labels: dict[str, str] | None = None) -> AsyncIterator[Event]:
        """Events of all runs (or of those with these labels), from now on; each names its run."""
        labels = None if labels is None else arguments.texts_by_name("labels", labels)
        after = self.read(lambda tx: tx.last_record()) if self._has_store() else 0
        with self.hub.waiting(None, steps=True) as waiter:
            while True:
                rows = self.read(lambda tx: tx.record_of_all(after, labels, ROWS_AT_ONCE)) if self._has_store() else []  # noqa: B023
                for place, run, events in rows:
                    await asyncio.sleep(0)  # as a reader of one run does
                    after = place
                    for event in events:
                        event.run = run
                        yield event
                if not rows:
                    self.must_be_open()
                    await waiter.wait(1.0)

    async def write_evidence(self, file: IO[bytes], run: str, **wish: Unpack[Wishes]) -> Bundle:
        """Write an evidence bundle of a run into an open file; `Handle.evidence` is for people."""
        # A fifth of `import standfast`, and few programs write a bundle.
        from standfast.evidence.bundle import Wish, write_bundle  # noqa: PLC0415

        self.must_be_open()
        if not self._store.exists():
            raise UnknownRun(f"there is no run {run!r}: there is no store {self._store.path}", hint="check the path")
        here = {name: agent.instructions for name, agent in self.agents.items() if agent.instructions}
        wish["instructions"] = {**here, **wish.get("instructions", {})}
        wanted = Wish(run=run, **wish)
        return await asyncio.to_thread(lambda: write_bundle(self._store, self._signing.key(), file, wanted))

    def decode_result(self, row: RunRow) -> Any:
        """A finished run's result, typed where the code is known."""
        agent = self.agents.get(row.agent)
        return row.doc.result if agent is None else agent.result_codec.load(to_json(row.doc.result))

    # --- what handles use -------------------------------------------------------------------------------

    def read(self, look: Callable[[Tx], T]) -> T:
        """One consistent look at the store."""
        if not self._has_store():
            raise UnknownRun(
                f"the store {self._store.path} does not exist yet", hint="start a run first, or check the path"
            )
        return self._store.read(look)

    def _has_store(self) -> bool:
        """Is there anything to look at? What was in memory is gone with the Runtime: then Misuse says that."""
        if self._store.in_memory:
            self.must_be_open()
        return self._store.exists()

    def must_be_open(self) -> ControlThread:
        """The control thread; Misuse where there is none, and so nobody who would hear of a change."""
        if self._thread is None:
            raise Misuse("the Runtime is not open", hint="use it inside `async with Runtime(...) as runs:`")
        return self._thread

    async def control(self, act: Callable[[Tx], T], use: Use = "ordinary", stop: Unwritten[T] | None = None) -> T:
        """Carry out a verb in the control thread: works from any event loop, also while this one is blocked."""
        for _ in range(MOST_TRIES):
            try:
                return await asyncio.wrap_future(self.must_be_open().carry_out(act, use, stop))
            except Unfinished as found:
                await asyncio.wrap_future(self._checks.submit(found.work))
        raise Misuse(
            f"what was to be checked has changed {MOST_TRIES} times while it was being checked",
            hint="nothing was changed by this; look at the run, and ask again",
        )

    # --- a disk that takes nothing -----------------------------------------------------------------------

    def keep_room(self) -> None:
        """Keep room for stops on the disk, and find out in time that it takes nothing any more."""
        self._keeps_room = True
        if self._store.exists() and not self._store.in_memory:
            self._store.reserve.keep()

    @property
    def storage(self) -> str:
        """Why nothing new can be written, by the last write of this process; empty if it can."""
        if not self._keeps_room:  # it writes so seldom that its last write says nothing of now
            return self._store.shortage
        return self._store.storage

    def storage_for_probes(self) -> str:
        """The same for who asks whether this process is ready: if it writes nothing else it tries, for the next one."""
        self._probe_wanted = True
        return self.storage

    @property
    def unwritten(self) -> bool:
        """Does a stop hold in this process that the store could not take yet?"""
        return self._thread is not None and self._thread.unwritten

    def stops_elsewhere(self, end: Callable[[Sequence[str], str], None]) -> None:
        """Runs are driven by processes that this one can end: `end(runs, why)` does so, from whatever thread.

        It is used for a stop that the store cannot take, and that they would not learn of.
        """
        self._end_elsewhere = end
        self.must_be_open().stop_here = self._stop_here

    def fetch(self, log: str, start: int, stop: int) -> builtins.list[bytes]:
        """Rows of a log."""
        return self.read(lambda tx: tx.read_log(log, start, stop))

    def doing(self, run: str) -> str:
        """What this process's driver of a run waits for; a stop not recorded, or storage trouble, comes first."""
        trouble = self._trouble or self.storage
        if (stop := self._held_here.get(run)) is not None:
            return stop.waits(trouble)
        if trouble:
            return f"storage: {trouble}"
        driver = self._active.get(run)
        return driver.s.activity if driver is not None else ""

    @property
    def _active(self) -> dict[str, Driver]:
        """The runs that this process drives now."""
        return {} if self._driving is None else self._driving.local.active

    @property
    def blocked_by(self) -> str:
        """The stopped run whose code still blocks this process's event loop; empty while the loop turns."""
        return "" if self._driving is None else self._driving.local.blocked_by

    def is_dead(self, tx: Tx, holder: str) -> bool:
        return self._others.dead(tx, holder)

    # --- in the control thread ------------------------------------------------------------------------------

    def _touched(self, ids: Sequence[str]) -> None:
        if self._driving is not None:
            self._driving.local.touched([*ids])
        else:
            for id_ in ids:
                self.hub.poke(id_)

    def _changed(self) -> None:
        self.hub.poke_all(but=self._active)

    def _tick(self) -> float:
        if self._keeps_room and not self._store.in_memory:
            self._look_after_room()
        if self._driving is not None:
            self._driving.tick()
        return TICK

    def _look_after_room(self) -> None:
        store = self._store
        if not store.exists():
            return
        store.reserve.keep()
        store.reserve.tend()
        trouble = store.storage
        if trouble != self._shown:
            self._shown = trouble
            self.hub.poke_all()
        if self._driving is None and self._must_probe():  # who drives writes its lease anyway
            self._probed, self._probe_wanted = time.monotonic(), False
            store.create()
            store.probe()

    def _must_probe(self) -> bool:
        """It writes a page for nothing, and wakes whoever watches: only where it says something that somebody needs."""
        if time.monotonic() - max(self._store.wrote, self._probed) <= PROBE_SECONDS:
            return False
        return self._probe_wanted or bool(self._store.storage) or self._store.reserve.disk_is_short

    def _stop_here(self, stop: Unwritten[Any]) -> None:
        """Make a stop hold that the store could not take."""
        ids = self._reached(stop)
        if self._driving is not None:
            self._driving.local.stop_unwritten(ids, stop.mode, all_of_them=stop.run is None)
        if self._end_elsewhere is not None:
            self._end_elsewhere(ids, f"a stop could not be written, and holds all the same: {', '.join(ids)[:200]}")
        self._show_held(stop, ids)

    def _reached(self, stop: Unwritten[Any]) -> builtins.list[str]:
        """The runs that a stop is for; by what this process drives where the store cannot even be read."""

        def look(tx: Tx) -> builtins.list[str]:
            if stop.run is None:
                return tx.runs_to_halt(stop.agent, dict(stop.labels))
            found = [stop.run]
            for id_ in found:
                found += tx.children(id_, live=True)
            return found

        try:
            return self._store.read(look)
        except StoreError:
            return builtins.list(self._active) if stop.run is None else [stop.run]

    def _written(self, stop: Unwritten[Any], answer: object) -> None:
        """A stop is in the store now, or came to nothing."""
        thread, driving = self._thread, self._driving
        if isinstance(answer, BaseException):
            log.error("standfast: a stop that held in this process alone came to nothing (%s): %s", stop.words, answer)
        else:
            log.warning("standfast: a stop that held in this process alone is recorded now: %s", stop.words)
        if thread is None:
            return
        left, reached = thread.unwritten_stops(), self._reached(stop)
        self._show_recorded(stop, reached, thread.held_stops())
        if driving is None:
            return
        if isinstance(answer, StoreDamaged):
            self._unrecorded.append(stop)
        others = {id_ for one in (*left, *self._unrecorded) for id_ in self._reached(one)}
        driving.local.written(set(reached), others, halts=any(one.run is None for one in left))

    def _show_held(self, stop: Unwritten[Any], ids: Sequence[str]) -> None:
        """These runs wait for a stop to be recorded; of several, a cancel is shown, or the last."""
        for id_ in ids:
            shown = self._held_here.get(id_)
            if stop.mode == "cancel" or shown is None or shown.mode != "cancel":
                self._held_here[id_] = stop
            self.hub.poke(id_)

    def _show_recorded(self, stop: Unwritten[Any], ids: Sequence[str], held: Sequence[Unwritten[Any]]) -> None:
        """They no longer wait for this one; perhaps for another, which is asked only of those few."""
        gone = {id_ for id_ in ids if id_ in self._held_here and self._held_here[id_].what == stop.what}
        for id_ in gone:
            del self._held_here[id_]
            self.hub.poke(id_)
        for one in held:
            if gone and (one.run is None or one.run in gone):
                self._show_held(one, [id_ for id_ in self._reached(one) if id_ in gone])

    def _storage_trouble(self, trouble: str) -> None:
        self._trouble = trouble
        self.hub.poke_all()
