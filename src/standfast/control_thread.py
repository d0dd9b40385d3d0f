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

from standfast.abc import Store, Tx, Use
from standfast.clock import moment
from standfast.errors import StoreBusy, StoreDamaged, StoreError, StoreFailed
from standfast.records import Moment
from standfast.unwritten import Unwritten

T = TypeVar("T")

log = logging.getLogger("standfast")

BUSY_POLL = 0.005
IDLE_POLL = 0.05
MOST_REPORTED = 20  # different troubles, until the store is well again
VERBS_TOGETHER = 50  # so many share a commit: the lock is not held for long, and who starts 100 runs need not wait


class Verb(Generic[T]):
    """A transaction that somebody waits for. With `stop`, it holds in this process if the store cannot take it."""

    __slots__ = ("act", "asked", "future", "held_since", "stop", "use")

    def __init__(self, act: Callable[[Tx], T], use: Use, stop: Unwritten[T] | None) -> None:
        self.act = act
        self.use = use
        self.stop = stop
        self.asked = time.monotonic()
        self.held_since: Moment | None = None  # for a stop that the store could not take, and that holds here
        self.future: Future[T] = Future()

    def late(self, tx: Tx) -> T:
        """Carry out a stop that has held here since it was asked for: the record says since when."""
        tx.held_since = self.held_since
        return self.act(tx)


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
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._thread = threading.Thread(target=self._run, name="standfast-control", daemon=True)
        self._signal = 0
        self._version = -1
        self._hearing = threading.Lock()
        self.relieved: Callable[[], bool] = lambda: False  # is somebody else looking for signals just now?
        self._busy: tuple[float, StoreBusy] | None = None
        self._reported: set[str] = set()  # troubles that were reported, while the store is not well
        self._was_busy = False  # at the last look
        self._ended: StoreError | None = None  # what is said to whoever asks after this thread's end
        # Stops that the store could not take: written as soon as it can, before anything else.
        self._unwritten: list[Verb[Any]] = []
        # Makes a stop hold in this process; None where there is nothing here that it could stop.
        self.stop_here: Callable[[Unwritten[Any]], None] | None = None
        self.written: Callable[[Unwritten[Any], object], None] = lambda _stop, _answer: None

    def start(self) -> None:
        """Begin to watch from what is in the store now."""
        if self._store.exists():
            self._signal = self._store.read(lambda tx: tx.last_signal())
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, then end. What holds in this process alone is written now, or named as lost."""
        self._work.put(None)
        self._thread.join()

    def call(self, work: Callable[[], T]) -> Future[T]:
        """Have `work` done in the control thread."""
        future: Future[T] = Future()
        self._calls.append((work, future))
        if self._ended is not None:
            self._fail_waiting(self._ended)
        self._work.put(self._do_next)
        return future

    def _do_next(self) -> None:
        if not self._calls:
            return  # failed meanwhile
        work, future = self._calls.popleft()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever asked
            future.set_exception(error)
        else:
            future.set_result(result)

    @property
    def unwritten(self) -> bool:
        """Is there a stop that the store could not take yet?"""
        return bool(self._unwritten)

    def unwritten_stops(self) -> list[Unwritten[Any]]:
        """Those, in the order in which they were asked for."""
        return [verb.stop for verb in self._unwritten if verb.stop is not None]

    def held_stops(self) -> list[Unwritten[Any]]:
        """Those of them that hold in this process."""
        return [verb.stop for verb in self._unwritten if verb.stop is not None and verb.held_since is not None]

    def carry_out(self, act: Callable[[Tx], T], use: Use = "ordinary", stop: Unwritten[T] | None = None) -> Future[T]:
        """Have a verb carried out; verbs that wait at the same time share a commit."""
        verb = Verb(act, use, stop)
        self._verbs.append(verb)
        if self._ended is not None:
            self._fail_waiting(self._ended)
        self._work.put(self._carry_out_waiting)
        return verb.future

    def _carry_out(self, verbs: list[Verb[Any]]) -> None:
        """One transaction for all of them, or one each if one of them raises."""
        results: list[Any] = []

        def act(tx: Tx) -> None:
            results[:] = [verb.act(tx) for verb in verbs]

        try:
            self._store.create()
            controls = [verb.use == "control" for verb in verbs]
            self._store.write(act, "control" if all(controls) else "ordinary", stops=any(controls))
        except StoreBusy as error:
            self._busy = (time.monotonic(), error)
            self._fail(verbs, error)
        except StoreFailed as error:
            self._not_written(verbs, error, known=not results)
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
            except Exception as error:  # noqa: BLE001 - they are carried out all the same; the next look passes it on
                self._report(error)
            for verb, result in zip(verbs, results, strict=True):
                verb.future.set_result(result)

    def _not_written(self, verbs: list[Verb[Any]], error: StoreFailed, *, known: bool) -> None:
        """The disk did not take it: a stop holds in this process all the same, and is written later."""
        if len(verbs) > 1 and (known or self._store.nothing_written(error)):
            for verb in verbs:
                self._carry_out([verb])
            return
        for verb in verbs:
            if verb.stop is None or self.stop_here is None or not self._store.is_at_fault(error):
                verb.future.set_exception(error)
            else:
                self._hold_here(verb, verb.stop)

    def _hold_here(self, verb: Verb[Any], stop: Unwritten[Any]) -> None:
        assert self.stop_here is not None
        if all(stop.what != one.stop.what for one in self._unwritten if one.stop is not None):
            self._unwritten.append(verb)
        verb.held_since = moment(self._store.now())
        try:
            self.stop_here(stop)
        except Exception as error:  # whoever asked must not be told that it holds
            verb.held_since = None
            log.exception("standfast: a stop that could not be written does not hold here either: %s", stop.what)
            verb.future.set_exception(error)
            return
        verb.held_since = moment(self._store.now())  # nothing begins from here on
        if isinstance(stop.answer, BaseException):
            verb.future.set_exception(stop.answer)
        else:
            verb.future.set_result(stop.answer)

    def _write_what_holds(self) -> None:
        """Stops that hold in this process alone, in the order in which they were asked for."""
        while self._unwritten:
            verb = self._unwritten[0]
            assert verb.stop is not None
            try:
                answer = self._store.write(verb.late, "control")
            except StoreDamaged as error:  # of what it would stop: those behind it need not wait for that
                answer = error
            except StoreError:
                return  # not yet: its trouble is the store's, which says so
            except Exception as error:
                log.exception("standfast: a stop that holds in this process cannot be written: %s", verb.stop.what)
                answer = error
            del self._unwritten[0]
            try:
                self.read_signals()
            except Exception as error:  # noqa: BLE001 - it is written all the same; the next look passes it on
                self._report(error)
            self.written(verb.stop, answer)

    def _leave(self) -> None:
        """Nobody in this process holds up any more what could not be written: a last try, and then the truth."""
        try:
            self._write_what_holds()
        except Exception as error:  # noqa: BLE001 - what is left is named below
            self._report(error)
        for stop in self.unwritten_stops():
            log.critical(
                "standfast: a stop was never recorded, and ends with this process: %s. "
                "Its runs go on when they are driven again: ask for it again once the store can be written",
                stop.words,
            )
        self._unwritten.clear()

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
        self._write_what_holds()
        verbs: list[Verb[Any]] = []
        while self._verbs and len(verbs) < VERBS_TOGETHER:
            verb = self._verbs.popleft()
            if self._asked_in_time(verb):
                verbs.append(verb)
        if not verbs:
            return
        try:
            self._carry_out(verbs)
        except BaseException as error:
            self._fail([verb for verb in verbs if not verb.future.done()], error)
            raise

    def _run(self) -> None:
        """The thread's life. When it ends, by an error too, nobody waits for it in vain."""
        try:
            self._loop()
            self._leave()
            self._fail_waiting(StoreError("the Runtime was closed; nothing was changed", hint="open it again"))
        except BaseException as error:
            log.critical("standfast: control of runs has ended in this process", exc_info=error)
            self._fail_waiting(
                StoreError(
                    f"control of runs has ended in this process: {type(error).__name__}: {error}",
                    hint="act from another process, and start this one again; its log has the traceback",
                )
            )
            raise

    def _fail_waiting(self, ended: StoreError) -> None:
        self._ended = ended
        waiting: list[Future[Any]] = []
        while self._verbs:
            waiting.append(self._verbs.popleft().future)
        while self._calls:
            waiting.append(self._calls.popleft()[1])
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(ended)

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
            except Exception as error:  # noqa: BLE001 - who asked has it; control goes on for all the others
                self._report(error)
            try:
                self._write_what_holds()
                self._watch()
                if time.monotonic() >= due:
                    due = time.monotonic() + self._tick()
                    self._was_busy = False
                    if not self._store.trouble:
                        self._reported.clear()
            except Exception as error:  # noqa: BLE001 - verbs are carried out whatever befell the watch
                # Nothing can be learnt from a store that does not answer; the lease lapses, which is the truth.
                self._report(error)
                due = time.monotonic() + 0.25

    def _report(self, error: Exception) -> None:
        """Once for a trouble that lasts, on a disk that may be full; with the traceback if it is not the store's.

        A lock that is gone by the next look is none: the machine was busy.
        """
        if isinstance(error, StoreBusy) and not self._was_busy:
            self._was_busy = True
            return
        trouble = f"{type(error).__name__}: {error}"
        if trouble not in self._reported and len(self._reported) < MOST_REPORTED:
            self._reported.add(trouble)
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
