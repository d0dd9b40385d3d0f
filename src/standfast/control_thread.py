"""A thread that keeps control of runs while the event loop may be blocked.

It has its own connection to the store. Verbs are carried out in it, the process's lease
is kept alive by it, and it notices what other processes have written.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from standfast.abc import Store, Tx
from standfast.errors import StoreBusy, StoreError

T = TypeVar("T")

log = logging.getLogger("standfast")

BUSY_POLL = 0.005
IDLE_POLL = 0.05
VERBS_TOGETHER = 50  # so many share a commit: the lock is not held for long, and who starts 100 runs need not wait


class Verb(Generic[T]):
    """A transaction that somebody waits for."""

    __slots__ = ("act", "asked", "future")

    def __init__(self, act: Callable[[Tx], T]) -> None:
        self.act = act
        self.asked = time.monotonic()
        self.future: Future[T] = Future()


class ControlThread:
    """Carries out verbs in the order in which they were asked, and watches the store in between."""

    def __init__(
        self,
        store: Store,
        *,
        touched: Callable[[list[str]], None],
        changed: Callable[[], None],
        tick: Callable[[], float],
        lively: Callable[[], bool],
        curious: Callable[[], bool],
    ) -> None:
        self._store = store
        self._touched = touched
        self._changed = changed
        self._tick = tick
        self._lively = lively
        self._curious = curious  # does anybody wait for what other processes do?
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._verbs: deque[Verb[Any]] = deque()
        self._thread = threading.Thread(target=self._loop, name="standfast-control", daemon=True)
        self._signal = 0
        self._version = -1
        self._hearing = threading.Lock()
        self.relieved: Callable[[], bool] = lambda: False  # is somebody else looking for signals just now?
        self._busy: tuple[float, StoreBusy] | None = None
        self._trouble = ""  # what was reported last, while it lasts

    def start(self) -> None:
        """Begin to watch from what is in the store now."""
        if self._store.exists():
            self._signal = self._store.read(lambda tx: tx.last_signal())
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, then end."""
        self._work.put(None)
        self._thread.join()

    def call(self, work: Callable[[], T]) -> Future[T]:
        """Have `work` done in the control thread."""
        future: Future[T] = Future()

        def do() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
                future.set_exception(error)
            else:
                future.set_result(result)

        self._work.put(do)
        return future

    def carry_out(self, act: Callable[[Tx], T]) -> Future[T]:
        """Have a verb carried out; verbs that wait at the same time share a commit."""
        verb = Verb(act)
        self._verbs.append(verb)
        self._work.put(self._carry_out_waiting)
        return verb.future

    def _carry_out(self, verbs: list[Verb[Any]]) -> None:
        """One transaction for all of them, or one each if one of them raises."""
        results: list[Any] = []

        def act(tx: Tx) -> None:
            results.extend([verb.act(tx) for verb in verbs])

        try:
            self._store.create()
            self._store.write(act)
        except StoreBusy as error:
            self._busy = (time.monotonic(), error)
            self._fail(verbs, error)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            if results or len(verbs) == 1:  # what a commit that failed has left is not known: never twice
                self._fail(verbs, error)
            else:
                for verb in verbs:
                    self._carry_out([verb])
        else:
            self._busy = None
            try:
                self.read_signals()
            except StoreError as error:
                self._report(error)  # they are carried out all the same, and the next look passes it on
            for verb, result in zip(verbs, results, strict=True):
                verb.future.set_result(result)

    def _fail(self, verbs: list[Verb[Any]], error: BaseException) -> None:
        for verb in verbs:
            verb.future.set_exception(error)

    def _asked_in_time(self, verb: Verb[Any]) -> bool:
        """Is it still to be carried out? Who waited in the queue while the store was locked has waited long enough."""
        if not verb.future.set_running_or_notify_cancel():
            return False
        if self._busy is not None and verb.asked < self._busy[0]:
            verb.future.set_exception(self._busy[1])
            return False
        return True

    def _carry_out_waiting(self) -> None:
        """The verbs that wait; those asked before the first of them was taken up find themselves done."""
        verbs: list[Verb[Any]] = []
        while self._verbs and len(verbs) < VERBS_TOGETHER:
            verb = self._verbs.popleft()
            if self._asked_in_time(verb):
                verbs.append(verb)
        if verbs:
            self._carry_out(verbs)

    def _loop(self) -> None:
        due = time.monotonic()
        while True:
            try:
                work = self._work.get(timeout=BUSY_POLL if self._lively() and not self.relieved() else IDLE_POLL)
                if work is None:
                    return
                work()
            except queue.Empty:
                pass
            try:
                self._watch()
                if time.monotonic() >= due:
                    due = time.monotonic() + self._tick()
            except Exception as error:  # noqa: BLE001 - verbs are carried out whatever befell the watch
                # Nothing can be learnt from a store that does not answer; the lease lapses, which is the truth.
                self._report(error)
                due = time.monotonic() + 0.25
            else:
                self._trouble = ""

    def _report(self, error: Exception) -> None:
        """Once for a trouble that lasts; with the traceback if it is not the store's."""
        trouble = f"{type(error).__name__}: {error}"
        if trouble != self._trouble:
            self._trouble = trouble
            unexpected = None if isinstance(error, StoreError) else error
            log.error("standfast: the store cannot be watched: %s", trouble, exc_info=unexpected)

    def _watch(self) -> None:
        """One statement a look, where that will do: each costs a busy event loop a switch of threads."""
        if self.relieved() or not self._store.exists():
            return
        if self._curious():
            version = self._store.version()
            if version == self._version:
                return
            self._version = version
            self.read_signals()
            self._changed()
        else:
            self.read_signals()

    def read_signals(self) -> None:
        """Pass on which runs were touched by a verb since the last look."""
        self.heard(self._store.signals(self._signal))

    def heard(self, signals: list[tuple[int, str]]) -> None:
        """Signals that somebody has read: passed on once, whoever reads them."""
        with self._hearing:
            new = [(n, run) for n, run in signals if n > self._signal]
            if new:
                self._signal = new[-1][0]
        if new:
            self._touched(list(dict.fromkeys(run for _, run in new)))

    @property
    def last_heard(self) -> int:
        return self._signal
