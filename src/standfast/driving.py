"""What a process that drives runs holds besides its store: a lease, a writer, a driver and its event loop."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from standfast.abc import Tx
from standfast.agents import Agent
from standfast.bodies.executors import watch_threads
from standfast.bodies.guard import guard
from standfast.bodies.marks import end_carriers, is_of_driver
from standfast.bodies.popen import leave_programs, mark_programs
from standfast.control import Ask
from standfast.control_thread import ControlThread
from standfast.drivers.local import LocalDriver
from standfast.env import Env
from standfast.errors import StoreBusy, StoreError, StoreFailed
from standfast.leases import Lease, Others, proven_dead
from standfast.records import LIVE
from standfast.remains import without_programs
from standfast.scope import TaskWatch
from standfast.stores.group import LOOK_SECONDS
from standfast.stores.sqlite import SqliteStore
from standfast.verbs import cancel_one, time_out_questions

log = logging.getLogger("standfast")

SWITCH_INTERVAL = 0.0005  # a control thread beside busy Python code must not wait 5 ms for each statement


def announce(store: SqliteStore, lease: Lease, agents: Iterable[Agent[Any, Any]]) -> None:
    """Others may start runs of these agents by name from now on."""

    # A lease outlives what its process started: one that is not there says that nothing of it is.
    dead = without_programs([lease.id for lease in store.read(lambda tx: tx.leases()) if proven_dead(lease)])

    def enter(tx: Tx) -> None:
        for gone in dead:
            tx.drop_lease(gone)
        lease.take(tx)
        for agent in agents:
            tx.put_contract(agent.contract_id, agent.name, agent.contract)

    store.write(enter, "upkeep")


class Driving:
    """One life of this process as a driver, from its lease to its end or its crash."""

    def __init__(self, env: Env, others: Others, concurrency: int | None, thread: ControlThread) -> None:
        self.env = env
        self.local = LocalDriver(env, others, concurrency)
        self._others = others
        self._thread = thread
        self._unreadable: set[str] = set()  # runs that were reported once
        self._share_looking()
        self._watch = TaskWatch(env.loop)
        self._watch.install()
        self._unwatch_threads = watch_threads(env.loop)
        mark_programs()
        self._switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_INTERVAL)

    def _share_looking(self) -> None:
        """A writer that commits all the time sees signals too: the control thread need not look as well."""
        thread, writer = self._thread, self.env.writer
        writer.heard = thread.heard
        writer.last_heard = lambda: thread.last_heard
        thread.relieved = lambda: (
            time.monotonic() - writer.looked < 2 * LOOK_SECONDS and not self.env.hub.watches_others(self.local.active)
        )

    def tick(self) -> None:
        """Keep the lease, look for work and ring; in the control thread."""
        self.local.tick()
        self._ring()

    def _ring(self) -> None:
        """Deadlines that have passed: questions get their default, runs are cancelled."""
        now = self.env.clock.now()
        due = self.env.store.read(lambda tx: tx.due(now))
        for id_ in due:
            try:
                self.env.store.write(partial(self._ring_one, id_, now), "control")
            except (StoreBusy, StoreFailed):
                raise
            except Exception as error:  # noqa: BLE001 - a transaction a run: a bad one does not stop the others
                if id_ not in self._unreadable:
                    self._unreadable.add(id_)
                    log.error("standfast: the deadline of run %s cannot be kept: %s", id_, error)
        if due:
            self._thread.read_signals()

    def _ring_one(self, id_: str, now: float, tx: Tx) -> None:
        row = tx.run(id_)
        if row is None or row.status not in LIVE:
            return
        if row.doc.deadline is not None and row.doc.deadline <= now:
            ask = Ask(reason="its deadline has passed", trigger="deadline")
            if row.status != "cancelling":
                cancel_one(tx, row, ask, "step", soft=False, is_dead=self._others.dead)
        else:
            time_out_questions(tx, row)

    def crash(self) -> None:
        """As if killed: nothing more is written or begun; the lease stays behind."""
        self.env.crashed = True
        self.env.writer.close()
        self.local.drop()

    def bury(self) -> None:
        """The lease of a dead process proves nothing any more."""
        self.env.store.write(lambda tx: tx.drop_lease(self.env.lease.id), "upkeep")

    def end(self) -> None:
        """Give the lease back, and leave the process as it was found."""
        self.env.writer.close()
        self._end_programs()
        if not self.env.crashed:
            try:
                self.bury()
            except StoreError as error:
                log.warning(
                    "standfast: the lease was not given back, others wait until this process is gone: %s", error
                )
        self.leave_loop()

    def _end_programs(self) -> None:
        """What could not be drained is left to a takeover, which may begin as soon as the lease is gone."""
        mine = {mark for mark in guard.marks if is_of_driver(mark, self.env.lease.id)}
        if mine:
            end_carriers(mine.__contains__)

    def leave_loop(self) -> None:
        """Event loop and interpreter are as they were."""
        self._watch.remove()
        self._unwatch_threads()
        leave_programs()
        sys.setswitchinterval(self._switch_interval)
