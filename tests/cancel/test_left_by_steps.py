"""What a step has started ends when the run comes to rest, also by itself; what goes on is named (R39).

Beside the next step threads and tasks go on. At rest they have a moment to end by themselves, then they are cut.
Programs are left on purpose.
"""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, deaf_until, hangs, left_behind
from tests.cancel.test_left_running import told
from tests.cancel.test_owned_threads import Blocking, Ticking
from tests.helpers import eventually, held
from tests.unit.bodies.watching import alive, pids_in

from standfast import Accepted, Agent, CallTimedOut, Done, Handle, Idle, Run, Runtime, agent, tool
from standfast.events import LateResult, LeftBehind, RunPaused, VerbNoted

Leave = Callable[[], Awaitable[Any]]
ENDS = ["next", "idle", "done"]
however_it_ends = pytest.mark.parametrize("end", ENDS)


class Leaver:
    """An agent whose first step leaves something going on, and ends by itself."""

    def __init__(self, leave: Leave, end: str) -> None:
        self.went_on = asyncio.Event()
        self.end = end
        went_on = self.went_on

        @agent("leaver")
        async def leaver(run: Run[Nothing]) -> Done[str] | Idle | None:
            if run.step == 0:
                await leave()
                return {"next": None, "idle": Idle(), "done": Done("left")}[end]
            went_on.set()
            await asyncio.sleep(1000)
            return None

        self.agent: Agent[Nothing, Any] = leaver

    async def has_ended(self, run: Handle[Any]) -> None:
        """Until the first step is over, and what follows it is there."""
        if self.end == "next":
            await asyncio.wait_for(self.went_on.wait(), LIMIT)
        elif self.end == "idle":
            await held(run, "waiting")
        else:
            assert await run.result(timeout=LIMIT) == "left"


async def begun(event: threading.Event | asyncio.Event) -> None:
    await eventually(event.is_set)


# --- what ends when it is cut ---------------------------------------------------------------------


def in_an_executor(work: Callable[[], Any]) -> None:
    asyncio.get_running_loop().run_in_executor(None, work)


kept: set[asyncio.Task[Any]] = set()


def keep(task: asyncio.Task[Any]) -> None:
    kept.add(task)
    task.add_done_callback(kept.discard)


def by_to_thread(work: Callable[[], Any]) -> None:
    keep(asyncio.create_task(asyncio.to_thread(work)))


def by_anyio(work: Callable[[], Any]) -> None:
    keep(asyncio.create_task(anyio.to_thread.run_sync(work)))


in_a_thread = pytest.mark.parametrize("start", [in_an_executor, by_to_thread, by_anyio], ids=lambda s: s.__name__)


@in_a_thread
@however_it_ends
async def test_a_thread_that_a_step_leaves_is_cut_and_the_record_says_so(
    db: str, start: Callable[[Any], None], end: str
) -> None:
    work = Ticking()

    async def leave() -> None:
        start(work)
        await begun(work.begun)

    it = Leaver(leave, end)
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        assert work.ended.is_set() == (end != "next")
        if end != "next":
            await told(run, LeftBehind)
        if end != "done":
            assert (await cancelled(run)).residue == ()
        assert (await run.settled(timeout=LIMIT)).residue == ()
        assert work.ended.is_set()


@however_it_ends
async def test_a_task_that_a_step_leaves_is_cut_and_the_record_says_so(db: str, end: str) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def leave() -> None:
        keep(asyncio.create_task(hangs(started, ended)))
        await started.wait()

    it = Leaver(leave, end)
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        assert ended.is_set() == (end != "next")
        if end != "next":
            await told(run, LeftBehind)
        if end != "done":
            assert (await cancelled(run)).residue == ()
        assert ended.is_set()


@however_it_ends
async def test_what_a_finished_call_leaves_is_the_run_s(db: str, end: str) -> None:
    work, started, ended = Ticking(), asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def begin() -> None:
        in_an_executor(work)
        keep(asyncio.create_task(hangs(started, ended)))
        await started.wait()
        await begun(work.begun)

    went_on = asyncio.Event()

    @agent("leaver")
    async def leaver(run: Run[Nothing]) -> Done[str] | Idle | None:
        if run.step == 0:
            await run.call(begin())
            return {"next": None, "idle": Idle(), "done": Done("left")}[end]
        went_on.set()
        await asyncio.sleep(1000)
        return None

    it = Leaver(asyncio.Event().wait, end)
    it.went_on = went_on
    async with Runtime(db, agents=[leaver]) as runs:
        run = await runs.start(leaver, Nothing())
        await it.has_ended(run)
        assert work.ended.is_set() == ended.is_set() == (end != "next")
        if end != "done":
            assert (await cancelled(run)).residue == ()
        assert work.ended.is_set()
        assert ended.is_set()


async def test_what_a_person_s_call_leaves_ends_with_it(db: str) -> None:
    """R24, R39: it is a step of its own."""
    work = Ticking()

    @tool(effect="read")
    async def begin() -> None:
        in_an_executor(work)
        await begun(work.begun)

    @agent("taken", tools=[begin])
    async def taken(run: Run[Nothing]) -> None:
        await asyncio.sleep(1000)

    async with Runtime(db, agents=[taken]) as runs:
        run = await runs.start(taken, Nothing())
        assert isinstance(await run.take_over(by="ada"), Accepted)
        await held(run, "taken")
        await run.perform("begin", {}, by="ada")
        await eventually(lambda: step_of(run, 1))
        assert work.ended.is_set()


async def step_of(run: Handle[Any], step: int) -> bool:
    view = await run.view()
    return view.step == step and view.status == "paused"


# --- what ends by itself --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["idle", "done"])
async def test_what_ends_by_itself_soon_is_waited_for_and_never_cut(
    db: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.leftovers.PATIENCE", LIMIT)
    let_go, finished = asyncio.Event(), list[str]()
    work = Blocking()

    async def task() -> None:
        await let_go.wait()
        finished.append("task")

    async def leave() -> None:
        keep(asyncio.create_task(task()))
        in_an_executor(work)
        await begun(work.begun)

    it = Leaver(leave, end)
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await begun(work.begun)
        assert (await run.view()).step == 0
        let_go.set()
        work.let_go.set()
        await it.has_ended(run)
        assert finished == ["task"]
        assert work.log == ["charged"]
        if end != "done":
            assert (await cancelled(run)).residue == ()


@pytest.mark.parametrize("verb", ["cancel", "pause"])
async def test_a_stop_does_not_wait_for_what_a_step_has_left(
    db: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R3, R6: it is cut with the step, whose end is not there yet."""
    monkeypatch.setattr("standfast.leftovers.PATIENCE", 1000.0)
    work, returned = Ticking(), asyncio.Event()

    async def leave() -> None:
        in_an_executor(work)
        await begun(work.begun)
        asyncio.get_running_loop().call_soon(returned.set)

    it = Leaver(leave, "idle")
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await returned.wait()
        if verb == "pause":
            assert isinstance(await run.pause(), Accepted)
            assert (await run.settled(timeout=LIMIT)).residue == ()
            assert work.ended.is_set()
        assert (await cancelled(run)).residue == ()
        assert work.ended.is_set()


async def test_threads_of_the_next_step_are_not_disturbed(db: str) -> None:
    work, let_go = Ticking(), threading.Event()

    @agent("leaver")
    async def leaver(run: Run[Nothing]) -> Done[bool] | None:
        if run.step == 0:
            in_an_executor(work)
            await begun(work.begun)
            return None
        return Done(await asyncio.to_thread(let_go.wait, 2.5))

    async with Runtime(db, agents=[leaver]) as runs:
        run = await runs.start(leaver, Nothing())
        assert await run.result(timeout=LIMIT) is False


async def test_what_is_started_in_a_context_of_its_own_is_left_alone(db: str) -> None:
    """The way to start what is to outlive the step: a pool of connections, a browser."""
    work, started, ended = Ticking(), asyncio.Event(), asyncio.Event()

    async def open_all() -> None:
        in_an_executor(work)
        keep(asyncio.create_task(hangs(started, ended)))
        await started.wait()
        await begun(work.begun)

    async def leave() -> None:
        await asyncio.create_task(open_all(), context=contextvars.Context())

    it = Leaver(leave, "next")
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        assert (await cancelled(run)).residue == ()
        assert not work.ended.is_set()
        assert not ended.is_set()
        work.stop = True
        for task in tuple(kept):
            task.cancel()
        await begun(ended)


# --- what goes on although it was cut -------------------------------------------------------------


class Deaf:
    """Something that goes on until it is let go, in one of three ways."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.work = Blocking()
        self.let_task_go = asyncio.Event()
        self.pool = ThreadPoolExecutor(1)

    async def leave(self) -> None:
        if self.kind == "task":
            keep(asyncio.create_task(deaf_until(self.let_task_go)))
            await asyncio.sleep(0)
            return
        pool = self.pool if self.kind == "executor of its own" else None
        asyncio.get_running_loop().run_in_executor(pool, self.work)
        await begun(self.work.begun)

    @property
    def place(self) -> str:
        return {"task": "deaf_until", "thread": "test_owned_threads.py"}.get(self.kind, "in an executor of its own")

    def let_go(self) -> None:
        self.let_task_go.set()
        self.work.let_go.set()


@pytest.fixture(params=["thread", "task", "executor of its own"])
def deaf(request: pytest.FixtureRequest) -> Iterator[Deaf]:
    it = Deaf(request.param)
    yield it
    it.let_go()
    it.pool.shutdown()


@however_it_ends
async def test_what_goes_on_is_named_by_every_receipt_until_it_has_ended(db: str, deaf: Deaf, end: str) -> None:
    it = Leaver(deaf.leave, end)
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        if end == "next":
            assert isinstance(await run.pause(), Accepted)
        receipt = await run.settled(timeout=LIMIT)
        assert [one.what for one in receipt.residue] == ["code of step 0 is still running"]
        assert deaf.place in left_behind(receipt)
        deaf.let_go()
        await told(run, VerbNoted, "has ended")
        if end != "done":
            assert (await cancelled(run)).residue == ()


@pytest.mark.parametrize("end", ["next", "idle"])
async def test_a_later_cancel_knows_of_it(db: str, deaf: Deaf, end: str) -> None:
    it = Leaver(deaf.leave, end)
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        async with Runtime(db, drive=False) as elsewhere:  # and so does whoever cancels from elsewhere
            assert isinstance(await elsewhere.handle(run.id).cancel(), Accepted)
        assert deaf.place in left_behind(await run.settled(timeout=LIMIT))
        deaf.let_go()
        await told(run, VerbNoted, "has ended")


async def test_an_idle_run_says_what_of_it_is_still_running(db: str, deaf: Deaf) -> None:
    """R27: to whoever looks, and in its record."""
    it = Leaver(deaf.leave, "idle")
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        assert (await paused(run)).residue == ["code of step 0 is still running"]
        assert "code of step 0 is still running" in (await run.view()).waiting_for
        deaf.let_go()
        await told(run, VerbNoted, "has ended")
        assert (await run.view()).waiting_for == "waiting: until mail comes"


async def paused(run: Handle[Any]) -> RunPaused:
    async with asyncio.timeout(LIMIT):
        async for event in run.events():
            if isinstance(event, RunPaused):
                return event
    raise AssertionError("it ended without a pause")


@pytest.mark.parametrize("left", ["its step has ended", "its time is up"])
async def test_a_call_that_outlives_its_step_is_known_to_a_later_cancel(db: str, left: str) -> None:
    """R35: the driver that knew it has let go of the run meanwhile."""
    started, let_go = asyncio.Event(), asyncio.Event()

    @tool(effect="read", grace=0.1, timeout=0.1 if left == "its time is up" else None)
    async def deaf() -> None:
        started.set()
        await deaf_until(let_go)

    @agent("leaver")
    async def leaver(run: Run[Nothing]) -> Idle:
        if left == "its time is up":
            with pytest.raises(CallTimedOut):
                await run.call(deaf())
        else:
            keep(asyncio.create_task(run.call(deaf())))
            await started.wait()
        return Idle()

    async with Runtime(db, agents=[leaver]) as runs:
        run = await runs.start(leaver, Nothing())
        await held(run, "waiting")
        assert "deaf is still running" in (await run.view()).waiting_for
        receipt = await cancelled(run)
        assert ("deaf is still running", "deaf") in [(one.what, one.call and one.call.tool) for one in receipt.residue]
        let_go.set()
        await told(run, LateResult)


# --- programs -------------------------------------------------------------------------------------


def lines(folder: Path) -> list[str]:
    return ["sh", "-c", f"echo $$ > {folder}/a.pid; exec sleep 1000"]


def leaving_a_program(folder: Path, end: str) -> Leaver:
    async def leave() -> None:
        await asyncio.create_subprocess_exec(*lines(folder))
        await pids_in(folder, 1)

    return Leaver(leave, end)


only_with_marks = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere marks cannot be read")
NAMED = "a program that this run started is still running"


@only_with_marks
async def test_a_program_that_an_idle_run_has_left_is_named_and_a_cancel_ends_it(db: str, tmp_path: Path) -> None:
    it = leaving_a_program(tmp_path, "idle")
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        (pid,) = await pids_in(tmp_path, 1)
        assert alive(pid)
        assert (await paused(run)).residue == [NAMED]
        assert (await cancelled(run)).residue == ()
        assert not alive(pid)


@only_with_marks
async def test_a_program_that_a_run_leaves_when_it_is_done_goes_on_and_is_named(db: str, tmp_path: Path) -> None:
    """It was left on purpose; nobody asked for a stop."""
    programs: list[subprocess.Popen[bytes]] = []

    async def leave() -> None:
        programs.append(subprocess.Popen(lines(tmp_path), start_new_session=True))
        await pids_in(tmp_path, 1)

    it = Leaver(leave, "done")
    async with Runtime(db, agents=[it.agent]) as runs:
        run = await runs.start(it.agent, Nothing())
        await it.has_ended(run)
        (pid,) = await pids_in(tmp_path, 1)
        assert alive(pid)
        programs[0].kill()
        programs[0].wait()
        assert NAMED in [e.what async for e in run.events() if isinstance(e, LeftBehind)]


# --- after the runtime ------------------------------------------------------------------------------


async def test_what_ends_after_the_runtime_was_closed_leaves_no_task_behind(db: str) -> None:
    """The loop may be ending too: a task that is begun then stays pending, and Python warns of it at exit."""
    end, inside = asyncio.Event(), asyncio.Event()
    left: list[asyncio.Future[Any]] = []

    @agent("deaf")
    async def deaf(run: Run[Nothing]) -> None:
        task = asyncio.current_task()
        assert task is not None
        left.append(task)
        inside.set()
        await deaf_until(end)

    async with Runtime(db, agents=[deaf]) as runs:
        run = await runs.start(deaf, Nothing())
        await begun(inside)
        assert "deaf" in left_behind(await cancelled(run))
    end.set()
    await asyncio.wait(left)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
