"""Agent code that blocks the event loop cannot keep a stop from working (R7, R34, R35)."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from tests.cancel.support import LIMIT, Nothing, late_result, left_behind, of_kind, outcomes, recorded
from tests.helpers import eventually

from standfast import Accepted, Agent, Done, Handle, Receipt, Run, Runtime, agent, child, say, tool
from standfast.events import CallStarted

T = TypeVar("T")


class Elsewhere:
    """A thread with an event loop of its own, from which a person still has control."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.result: Any = None
        self.blocked_until = 0.0
        self._thread = threading.Thread(target=lambda: self._run(work))
        self._thread.start()

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        try:
            self.result = asyncio.run(work())
        except BaseException as error:  # noqa: BLE001 - shown by the test
            self.result = error

    async def join(self) -> Any:
        await eventually(lambda: not self._thread.is_alive(), timeout=LIMIT)
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


async def stopped_from_elsewhere(
    runs: Runtime,
    agent: Agent[Any, Any],
    verb: Literal["cancel", "pause"],
    blocking: threading.Event,
    free: threading.Event,
    while_blocked: Callable[[], None] = lambda: None,
) -> tuple[Handle[Any], Receipt]:
    """A run that is stopped while it blocks the loop, and the receipt, settled meanwhile; then the loop is let go.

    The other thread is there before the run is: its step may block the loop before `start` has returned.
    """
    run = runs.handle("blocked")

    async def stop() -> Receipt:
        await asyncio.to_thread(blocking.wait, LIMIT)
        began = time.monotonic()
        assert isinstance(await getattr(run, verb)(), Accepted)
        assert time.monotonic() - began < LIMIT / 2  # the loop is not let go before
        receipt = await run.settled(timeout=LIMIT)
        while_blocked()
        assert not free.is_set()
        free.set()
        return receipt

    elsewhere = Elsewhere(stop)
    await runs.start(agent, Nothing(), id=run.id)
    receipt: Receipt = await elsewhere.join()
    return run, receipt


async def test_a_step_that_blocks_the_loop_is_cancelled_from_another_thread(db: str) -> None:
    """R34, R7: accepted at once, settled while the loop is still blocked, the code named, no call afterwards."""
    blocking, free = threading.Event(), threading.Event()
    performed: list[int] = []

    @tool(effect="write")
    async def effect() -> None:
        performed.append(1)

    @agent("blocker")
    async def blocker(run: Run[Nothing]) -> None:
        blocking.set()
        free.wait(LIMIT)  # the whole event loop waits here
        await run.call(effect())

    async with Runtime(db, agents=[blocker]) as runs:
        run, receipt = await stopped_from_elsewhere(runs, blocker, "cancel", blocking, free)
        assert receipt.status == "cancelled"
        assert "test_blocked_loop.py:" in left_behind(receipt)
        assert "blocker" in left_behind(receipt)
        await asyncio.sleep(0.1)
        assert performed == []
        assert await of_kind(run, CallStarted) == []
        assert receipt.calls_after_cancel == 0
        assert (await run.view()).status == "cancelled"


async def test_a_tool_that_blocks_the_loop_is_still_running_and_its_late_result_is_caught(db: str) -> None:
    """R34, R35: the call is named as still running; what it brings back later stays out of the run."""
    blocking, free = threading.Event(), threading.Event()
    went_on: list[str] = []

    @tool(effect="read")
    async def blocks() -> str:
        blocking.set()
        while not free.is_set():
            pass  # a busy loop: Python code, but in the event loop's own thread
        return "late"

    @agent("blocker")
    async def blocker(run: Run[Nothing]) -> Done[str]:
        went_on.append(await run.call(blocks()))
        went_on.append(await run.call(blocks()))
        return Done("never")

    async with Runtime(db, agents=[blocker]) as runs:
        run, receipt = await stopped_from_elsewhere(runs, blocker, "cancel", blocking, free)
        assert outcomes(receipt) == {"blocks": "still_running"}
        assert "blocks at test_blocked_loop.py:" in left_behind(receipt)
        assert (await late_result(run)).result == "late"
        await asyncio.sleep(0.1)
        assert len(await of_kind(run, CallStarted)) == 1
        assert (await run.view()).status == "cancelled"


async def test_threads_beside_a_blocked_loop_are_cut_too(db: str) -> None:
    """R6, R34: what can be cut without the loop is cut, and not only named."""
    blocking, free, cut = threading.Event(), threading.Event(), threading.Event()

    @tool(effect="read")
    def crunch() -> None:
        try:
            while True:
                time.sleep(0.005)
        finally:
            cut.set()

    @agent("both")
    async def both(run: Run[Nothing]) -> None:
        work = asyncio.create_task(run.call(crunch()))
        await asyncio.sleep(0.1)
        blocking.set()
        free.wait(LIMIT)
        await work

    async with Runtime(db, agents=[both]) as runs:

        def the_thread_is_cut() -> None:
            assert cut.wait(LIMIT)

        _, receipt = await stopped_from_elsewhere(runs, both, "cancel", blocking, free, the_thread_is_cut)
        assert "both at test_blocked_loop.py:" in left_behind(receipt)


async def test_children_of_a_blocked_loop_settle_before_their_parent(db: str) -> None:
    """R6, R34: child runs in the same blocked loop are settled as well."""
    blocking, free = threading.Event(), threading.Event()

    @agent("leaf")
    async def leaf(run: Run[Nothing]) -> None:
        blocking.set()
        free.wait(LIMIT)

    @agent("root")
    async def root(run: Run[Nothing]) -> None:
        await run.call(child(leaf, Nothing()))

    async with Runtime(db, agents=[root, leaf]) as runs:
        _, receipt = await stopped_from_elsewhere(runs, root, "cancel", blocking, free)
        assert receipt.status == "cancelled"
        assert {v.status for v in await runs.list()} == {"cancelled"}


async def test_pause_of_a_blocked_loop_settles_and_the_run_can_be_resumed(db: str) -> None:
    """R3, R34: held although the code blocks; resumed, the step is taken again."""
    blocking, free = threading.Event(), threading.Event()
    taken: list[int] = []

    @agent("blocker")
    async def blocker(run: Run[Nothing]) -> Done[int]:
        taken.append(1)
        blocking.set()
        free.wait(LIMIT)
        return Done(len(taken))

    async with Runtime(db, agents=[blocker]) as runs:
        run, receipt = await stopped_from_elsewhere(runs, blocker, "pause", blocking, free)
        assert receipt.status == "paused"
        assert "test_blocked_loop.py:" in left_behind(receipt)
        await run.resume()
        assert await run.result(timeout=LIMIT) == 2
        assert [e.type for e in await recorded(run)][-1] == "run_done"


async def test_the_receipt_says_that_a_blocked_step_kept_the_end_of_the_one_before_from_being_stored(db: str) -> None:
    """R7, R34: the step that blocks is named, and why the step before it counts as not finished."""
    blocking, free = threading.Event(), threading.Event()

    @tool
    async def effect(n: int) -> int:
        return n

    @agent("late_blocker")
    async def late_blocker(run: Run[Nothing]) -> None:
        if run.step == 2:
            blocking.set()
            free.wait(LIMIT)
        await run.call(effect(run.step))

    async with Runtime(db, agents=[late_blocker]) as runs:
        _, receipt = await stopped_from_elsewhere(runs, late_blocker, "cancel", blocking, free)
        said = " ".join(r.what for r in receipt.residue)
        assert "code of step 2" in said and "the end of step 1 was not stored" in said
        assert receipt.finished_steps == 1


async def test_what_was_said_before_the_loop_was_blocked_is_kept(db: str) -> None:
    """R3: text that was not written yet when the control thread settled the stop is written when the loop turns."""
    blocking, free = threading.Event(), threading.Event()

    @tool(effect="read")
    async def speaks() -> None:
        say("half a sen")
        blocking.set()
        free.wait(LIMIT)

    @agent("speaker")
    async def speaker(run: Run[Nothing]) -> None:
        await run.call(speaks())

    async with Runtime(db, agents=[speaker]) as runs:
        run, receipt = await stopped_from_elsewhere(runs, speaker, "pause", blocking, free)
        assert receipt.status == "paused"
        [said] = await eventually(run.transcript)
        assert said.text == "half a sen"
