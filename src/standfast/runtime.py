"""Runtime: the store, the control thread and the drivers of one process, wired together."""

from __future__ import annotations

import asyncio
import builtins
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeGuard, TypeVar, cast, overload

from pydantic_core import to_json

from standfast import budget as budgets
from standfast import events as ev
from standfast import verbs
from standfast.abc import Clock, Connect, Ids, Points, Tx
from standfast.agent import Agent
from standfast.clock import RandomIds, SystemClock
from standfast.codec import JsonSchema, from_json
from standfast.control import Ask, load
from standfast.control_thread import ControlThread
from standfast.drivers.local import LocalDriver
from standfast.env import Env
from standfast.errors import (
    DuplicateAgent,
    Misuse,
    NotStorable,
    RunIdTaken,
    StoreError,
    UnknownAgent,
    UnknownRun,
    WrongState,
)
from standfast.events import Event
from standfast.forking import fork_run
from standfast.handle import Handle
from standfast.hub import Hub
from standfast.leases import LEASE_SECONDS, Lease, Others, proven_dead
from standfast.records import LIVE, Budget, Json, PlanItem, RunView, Status
from standfast.rows import RunDoc, RunRow
from standfast.scope import TaskWatch
from standfast.snapshots import pack
from standfast.starting import blank_row, digest, new_run
from standfast.stores.group import LOOK_SECONDS, GroupWriter
from standfast.stores.sqlite import SqliteStore, connect_sqlite
from standfast.views import view_of

log = logging.getLogger("standfast")

S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")

SWITCH_INTERVAL = 0.0005  # a control thread beside busy Python code must not wait 5 ms for each statement
TICK = 0.25


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
    ) -> None:
        if concurrency is not None and concurrency < 1:
            raise Misuse("concurrency must be at least 1", hint="leave it out for no limit")
        self.agents: dict[str, Agent[Any, Any]] = {}
        for given in agents:
            one = as_agent(given)
            if one.name in self.agents and self.agents[one.name] is not one:
                raise DuplicateAgent(f"two agents are called {one.name!r}", hint="names tell runs apart: rename one")
            self.agents[one.name] = one
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
        self._env: Env | None = None
        self._local: LocalDriver | None = None
        self._watch: TaskWatch | None = None
        self._switch_interval = 0.0
        self._trouble = ""
        self._performed: dict[str, int] | None = None  # counts of bodies begun, for tests

    @property
    def clock(self) -> Clock:
        """The time this runtime goes by."""
        return self._clock

    # --- entering and leaving -----------------------------------------------------------------------

    async def __aenter__(self) -> Runtime:
        if self._thread is not None:
            raise Misuse("this Runtime has been entered already", hint="use one `async with` per Runtime")
        if self._drives:
            self._store.create()
        elif self._store.exists():
            self._store.read(lambda tx: tx.last_signal())
        thread = ControlThread(
            self._store,
            touched=self._touched,
            changed=self._changed,
            tick=self._tick,
            lively=lambda: self.hub.watched or bool(self._local and self._local.active),
            curious=lambda: self._local is None or self.hub.watches_others(self._local.active),
        )
        self._thread = thread
        if self._drives:
            self._begin_driving()
        thread.start()
        if self._local is not None:
            self._local.look_soon()
        return self

    def _begin_driving(self) -> None:
        loop = asyncio.get_running_loop()
        lease = Lease(self.ids.process(), sorted(self.agents), self._lease_seconds)

        def enter(tx: Tx) -> None:
            """Others may start runs of these agents by name from now on."""
            for gone in filter(proven_dead, tx.leases()):
                tx.drop_lease(gone.id)
            lease.take(tx)
            for agent in self.agents.values():
                tx.put_contract(agent.contract_id, agent.name, agent.contract)

        self._store.write(enter)
        writer = GroupWriter(self._store, loop)
        writer.on_trouble = self._storage_trouble
        self._env = Env(
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
        )
        self._local = LocalDriver(self._env, self._others, self._concurrency)
        self._share_looking(writer)
        self._watch = TaskWatch(loop)
        self._watch.install()
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._local is not None:
            await self._local.close()
        self._end()

    async def restart_driver(self) -> None:
        """As if this process had been killed and another had taken its place; for tests."""
        assert self._env is not None
        assert self._local is not None
        assert self._watch is not None
        old, env = self._local, self._env
        env.crashed = True
        env.writer.close()
        old.drop()
        assert self._thread is not None
        # In the control thread: a tick of the old driver under way there would take the lease again.
        await asyncio.wrap_future(self._thread.call(lambda: self._bury(env.lease.id)))
        self._watch.remove()
        sys.setswitchinterval(self._switch_interval)
        self._begin_driving()
        self._local.look_soon()

    def _share_looking(self, writer: GroupWriter) -> None:
        """A writer that commits all the time sees signals too: the control thread need not look as well."""
        thread, local = self._thread, self._local
        assert thread is not None
        assert local is not None
        writer.heard = thread.heard
        writer.last_heard = lambda: thread.last_heard
        thread.relieved = lambda: (
            time.monotonic() - writer.looked < 2 * LOOK_SECONDS and not self.hub.watches_others(local.active)
        )

    def _bury(self, lease: str) -> None:
        """The lease of a dead process proves nothing any more."""
        self._store.write(lambda tx: tx.drop_lease(lease))

    def _end(self) -> None:
        assert self._thread is not None
        self._thread.stop()
        if self._env is not None:
            assert self._watch is not None
            self._env.writer.close()
            if not self._env.crashed:
                self._drop_lease(self._env.lease.id)
            self._watch.remove()
            sys.setswitchinterval(self._switch_interval)
        self._store.close()
        self._thread = None

    def _drop_lease(self, lease: str) -> None:
        try:
            self._store.write(lambda tx: tx.drop_lease(lease))
        except StoreError as error:
            log.warning("standfast: the lease was not given back, others wait until this process is gone: %s", error)

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
        budget: Budget | None = ...,
        labels: dict[str, str] | None = ...,
        deadline: float | None = ...,
        request_id: str | None = ...,
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
        budget: Budget | None = ...,
        labels: dict[str, str] | None = ...,
        deadline: float | None = ...,
        request_id: str | None = ...,
    ) -> Handle[Any]: ...
    async def start(
        self,
        agent: Any,
        state: Any,
        *,
        id: str | None = None,  # noqa: A002
        by: str | None = None,
        reason: str = "",
        budget: Budget | None = None,
        labels: dict[str, str] | None = None,
        deadline: float | None = None,
        request_id: str | None = None,
    ) -> Handle[Any]:
        """A new run, queued. The same id with the same agent and state gives the run that is there.

        `deadline` is a time (seconds since the epoch) at which the run is cancelled.
        """
        name = agent if isinstance(agent, str) else as_agent(agent).name
        code = self.agents.get(name) if isinstance(agent, str) else as_agent(agent)
        if code is not None and not isinstance(agent, str) and self._drives and name not in self.agents:
            raise UnknownAgent(f"agent {name!r} was not given to this runtime", hint="Runtime(..., agents=[...])")
        if id is not None and not id.strip():
            raise Misuse("a run id cannot be empty", hint="leave it out and one is made")
        if budget is not None:
            budgets.check(budget)
        typed = None if code is None else state_for(code, state)
        run_id = id or self.ids.run()

        def insert(tx: Tx) -> str:
            if request_id is not None and (known := tx.answered(request_id)) is not None:
                return known[0]
            asked = (
                digest(name, from_json(code.state_codec.dump(typed)))
                if code is not None
                else digest(name, plain_state(state))
            )
            old = tx.run(run_id)
            if old is not None:
                if old.agent == name and old.doc.start_digest == asked:
                    return run_id
                raise RunIdTaken(
                    f"run {run_id!r} exists already, with another agent or state",
                    hint="give another id, or leave it out and one is made",
                )
            if code is not None:
                new_run(
                    tx, code, typed, id=run_id, by=by, reason=reason, budget=budget, labels=labels, deadline=deadline
                )
            else:
                start_by_name(
                    tx, name, state, run_id, by=by, reason=reason, budget=budget, labels=labels, deadline=deadline
                )
            tx.signal(run_id)
            if request_id is not None:
                tx.remember(request_id, run_id, "start", "{}")
            return run_id

        return Handle(self, await self.control(insert))

    async def fork(self, source: Handle[R], at: int | None, state: Any, **ask: Any) -> Handle[R]:
        """See Handle.fork."""
        new_id = ask.pop("id") or self.ids.run()
        request_id = ask.pop("request_id")

        def insert(tx: Tx) -> str:
            if request_id is not None and (known := tx.answered(request_id)) is not None:
                return known[0]
            row = load(tx, source.id)
            fork_run(tx, row, at, state, self.agents.get(row.agent), new_id, **ask)
            tx.signal(new_id)
            if request_id is not None:
                tx.remember(request_id, new_id, "fork", "{}")
            return new_id

        return Handle(self, await self.control(insert))

    # --- looking ----------------------------------------------------------------------------------------

    def handle(self, id: str) -> Handle[Any]:  # noqa: A002
        """The run of that id; whether there is one is found out by using it."""
        return Handle(self, id)

    async def list(
        self,
        status: Status | Sequence[Status] | None = None,
        agent: str | None = None,
        labels: dict[str, str] | None = None,
        needs: bool | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunView]:
        """Runs, newest first."""
        statuses = [status] if isinstance(status, str) else status
        now = self.clock.now()

        def look(tx: Tx) -> list[RunView]:
            rows = tx.list_runs(status=statuses, agent=agent, labels=labels, needs=needs, limit=limit, before=before)
            return [view_of(tx, row, now, self.doing(row.id)) for row in rows]

        return self.read(look) if self._store.exists() else []

    async def events(self, labels: dict[str, str] | None = None) -> AsyncIterator[Event]:
        """Events of all runs (or of those with these labels), from now on; each names its run."""
        after = self.read(lambda tx: tx.last_record()) if self._store.exists() else 0
        with self.hub.waiting(None, steps=True) as waiter:
            while True:
                rows = self.read(lambda tx: tx.record_of_all(after, labels)) if self._store.exists() else []  # noqa: B023
                for place, run, events in rows:
                    after = place
                    for event in events:
                        event.run = run
                        yield event
                if not rows:
                    await waiter.wait(1.0)

    def decode_result(self, row: RunRow) -> Any:
        """A finished run's result, typed where the code is known."""
        agent = self.agents.get(row.agent)
        return row.doc.result if agent is None else agent.result_codec.load(to_json(row.doc.result))

    # --- what handles use -------------------------------------------------------------------------------

    def read(self, look: Callable[[Tx], T]) -> T:
        """One consistent look at the store."""
        if not self._store.exists():
            raise UnknownRun(
                f"the store {self._store.path} does not exist yet", hint="start a run first, or check the path"
            )
        return self._store.read(look)

    async def control(self, act: Callable[[Tx], T]) -> T:
        """Carry out a verb in the control thread: works from any event loop, also while this one is blocked."""
        thread = self._thread
        if thread is None:
            raise Misuse("the Runtime is not open", hint="use it inside `async with Runtime(...) as runs:`")

        def work() -> T:
            self._store.create()
            result = self._store.write(act)
            thread.read_signals()
            return result

        return await asyncio.wrap_future(thread.call(work))

    def fetch(self, log: str, start: int, stop: int) -> builtins.list[bytes]:
        """Rows of a log."""
        return self.read(lambda tx: tx.read_log(log, start, stop))

    def doing(self, run: str) -> str:
        """What this process's driver of a run waits for; storage trouble comes first."""
        if self._trouble:
            return f"storage: {self._trouble}"
        driver = self._local.active.get(run) if self._local is not None else None
        return driver.s.activity if driver is not None else ""

    def is_dead(self, tx: Tx, holder: str) -> bool:
        return self._others.dead(tx, holder)

    # --- in the control thread ------------------------------------------------------------------------------

    def _touched(self, ids: Sequence[str]) -> None:
        if self._local is not None:
            self._local.touched([*ids])
        else:
            for id_ in ids:
                self.hub.poke(id_)

    def _changed(self) -> None:
        self.hub.poke_all(but=self._local.active if self._local is not None else ())

    def _tick(self) -> float:
        if self._local is not None:
            self._local.tick()
            self._ring()
        return TICK

    def _ring(self) -> None:
        """Deadlines that have passed: questions get their default, runs are cancelled."""
        now = self.clock.now()
        due = self._store.read(lambda tx: tx.due(now))
        if not due:
            return

        def act(tx: Tx) -> None:
            for id_ in due:
                row = tx.run(id_)
                if row is None or row.status not in LIVE:
                    continue
                if row.doc.deadline is not None and row.doc.deadline <= now:
                    ask = Ask(reason="its deadline has passed", trigger="deadline")
                    if row.status != "cancelling":
                        verbs.cancel_one(tx, row, ask, "step", soft=False, is_dead=self.is_dead)
                else:
                    verbs.time_out_questions(tx, row)

        self._store.write(act)
        assert self._thread is not None
        self._thread.read_signals()

    def _storage_trouble(self, trouble: str) -> None:
        self._trouble = trouble
        self.hub.poke_all()


def _is_agent(thing: object) -> TypeGuard[Agent[Any, Any]]:
    return isinstance(thing, Agent)


def as_agent(given: Any) -> Agent[Any, Any]:
    """An agent, from whatever carries one (a Pipeline does)."""
    for one in (given, getattr(given, "agent", None)):
        if _is_agent(one):
            return one
    raise Misuse(f"{given!r} is no agent", hint="decorate its step with @agent(...), or make a Pipeline")


def state_for(agent: Agent[Any, Any], state: Any) -> Any:
    """The state as the agent's type, or WrongState."""
    kind: Any = agent.state_type
    given = type(state).__name__
    if isinstance(kind, type) and isinstance(state, kind):
        return state
    from_a_dict = isinstance(state, dict)
    try:
        if from_a_dict:
            return agent.state_codec.load(to_json(state))
        return agent.state_codec.accept(state)
    except NotStorable as error:
        raise WrongState(
            f"agent {agent.name} takes {getattr(kind, '__name__', kind)}, not {given}: {error.message}",
            hint="no run was started; " + (error.hint or "give a state of that type"),
        ) from error


def plain_state(state: Any) -> Json:
    """A state as JSON, where the agent's code is not here."""
    plain = from_json(to_json(state))
    if not isinstance(plain, dict):
        raise WrongState("without the agent's code, the state must be an object", hint="give a dict")
    return cast("Json", plain)


def start_by_name(tx: Tx, name: str, state: Any, run_id: str, **ask: Any) -> RunRow:
    """A run of an agent whose code is in another process: validated by its stored schema."""
    found = tx.contract_of(name)
    if found is None:
        raise UnknownAgent(
            f"no agent {name!r} is known here or in this store", hint="give the agent itself, or check its name"
        )
    contract_id, contract = found
    plain = plain_state(state)
    schema: Any = contract["state"]
    JsonSchema.validate(schema, plain)
    items: Any = contract.get("plan") or []
    plan = [PlanItem(item, title) for item, title in items]
    doc = RunDoc(
        by=ask["by"],
        labels=ask["labels"] or {},
        deadline=ask["deadline"],
        contract=contract_id,
        start_digest=digest(name, plain),
        budget=ask["budget"] or Budget(steps=1000),
        plan=plan,
    )
    row = blank_row(run_id, name, doc, tx.now)
    row.wake_at = ask["deadline"]
    event = ev.RunStarted(agent=name, by=ask["by"], reason=ask["reason"], labels=doc.labels)
    tx.insert_run(row, [event], pack(plan, to_json(plain)))
    return row
