"""Programs that a call leaves in the background: a cut and a cancel take them, a pause and an end do not (R6)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cancel.support import Nothing, cancelled, left_behind, outcomes
from tests.helpers import eventually
from tests.unit.bodies.watching import alive, pids_in, until_dead

from standfast import (
    Accepted,
    CallFailed,
    Done,
    Handle,
    Performed,
    Run,
    Runtime,
    Tool,
    agent,
    child,
    run_process,
    sleep,
    tool,
)
from standfast.bodies import looking, marks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere marks cannot be read")


def background(folder: Path, name: str, *, session: str = "") -> str:
    """A shell line that leaves a program running, and writes its pid down."""
    return f"{session} sh -c 'echo $$ > {folder}/{name}.pid; exec sleep 1000' > /dev/null 2>&1 &"


def serving(folder: Path, **options: object) -> Tool[[], str]:
    """A tool that leaves two programs running and goes on itself."""

    @tool(**{"effect": "read", **options})  # type: ignore[call-overload, untyped-decorator]
    async def serve() -> str:
        await run_process("sh", "-c", background(folder, "a"))
        await run_process("sh", "-c", background(folder, "b", session="setsid"), env={"PATH": os.environ["PATH"]})
        await asyncio.sleep(1000)
        return "never"

    return serve  # type: ignore[no-any-return]


def starting(folder: Path) -> Tool[[], str]:
    """A tool that leaves a program running and ends."""

    @tool(effect="read")
    async def start() -> str:
        await run_process("sh", "-c", background(folder, "a", session="setsid"))
        return "started"

    return start


async def test_a_cut_call_takes_what_its_programs_left_in_the_background(db: str, tmp_path: Path) -> None:
    """R6: also in a session of its own, and with an environment of its own."""
    serve = serving(tmp_path)

    @agent("server")
    async def server(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(serve()))

    async with Runtime(db, agents=[server]) as runs:
        run = await runs.start(server, Nothing())
        pids = await pids_in(tmp_path, 2)
        receipt = await cancelled(run)
        assert not any(map(alive, pids))
        assert outcomes(receipt) == {"serve": "aborted"}
        assert receipt.residue == ()


async def test_a_call_whose_time_is_up_takes_them_too(db: str, tmp_path: Path) -> None:
    """R6"""
    serve = serving(tmp_path, timeout=1.0)

    @agent("server")
    async def server(run: Run[Nothing]) -> Done[str]:
        try:
            return Done(await run.call(serve()))
        except CallFailed as error:
            return Done(error.type)

    async with Runtime(db, agents=[server]) as runs:
        run = await runs.start(server, Nothing())
        pids = await pids_in(tmp_path, 2)
        assert await run.result(timeout=120) == "CallTimedOut"
        await until_dead(pids)


async def test_a_redirect_takes_them_and_the_call_is_made_anew(db: str, tmp_path: Path) -> None:
    """R4, R6"""
    serve = serving(tmp_path)

    @agent("server")
    async def server(run: Run[Nothing]) -> Done[str]:
        if run.take_redirects():
            return Done("elsewhere")
        return Done(await run.call(serve()))

    async with Runtime(db, agents=[server]) as runs:
        run = await runs.start(server, Nothing())
        pids = await pids_in(tmp_path, 2)
        assert isinstance(await run.redirect("stop serving"), Accepted)
        assert await run.result(timeout=120) == "elsewhere"
        assert not any(map(alive, pids))


async def test_a_pause_leaves_alone_what_a_finished_call_started_and_names_it(db: str, tmp_path: Path) -> None:
    """R6: the call is not made again on resume; a cancel of the paused run ends it, before it is settled."""
    start = starting(tmp_path)

    @agent("starter")
    async def starter(run: Run[Nothing]) -> None:
        await run.call(start(), key=str(run.step))
        await asyncio.sleep(1000)

    async with Runtime(db, agents=[starter]) as runs:
        run = await runs.start(starter, Nothing())
        (pid,) = await pids_in(tmp_path, 1)
        assert await run.pause()
        receipt = await run.settled(timeout=120)
        assert alive(pid)
        assert f"a program that this run started is still running: process {pid} (sleep)" in left_behind(receipt)
        receipt = await cancelled(run)
        assert not alive(pid)
        assert receipt.residue == ()


async def test_a_paused_run_that_left_nothing_is_cancelled_at_once(db: str, tmp_path: Path) -> None:
    """R5: nobody need come who drives it."""

    @tool(effect="read")
    async def build() -> int:
        return (await run_process("true")).returncode

    @agent("builder")
    async def builder(run: Run[Nothing]) -> None:
        await run.call(build())
        (tmp_path / "built").touch()
        await asyncio.sleep(1000)

    async with Runtime(db, agents=[builder]) as runs:
        run = await runs.start(builder, Nothing())
        await eventually((tmp_path / "built").exists)
        assert await run.pause()
        assert (await run.settled(timeout=120)).residue == ()
    async with Runtime(db, drive=False) as runs:
        assert await runs.handle(run.id).cancel()
        assert (await runs.handle(run.id).view()).status == "cancelled"


async def test_what_a_finished_call_started_outlives_a_run_that_is_done(db: str, tmp_path: Path) -> None:
    """It was left on purpose; nobody asked for a stop."""
    start = starting(tmp_path)

    @agent("starter")
    async def starter(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(start()))

    async with Runtime(db, agents=[starter]) as runs:
        assert await (await runs.start(starter, Nothing())).result(timeout=120) == "started"
    (pid,) = await pids_in(tmp_path, 1)
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_a_cancel_reaches_what_child_runs_left(db: str, tmp_path: Path) -> None:
    """R6"""
    start = starting(tmp_path)

    @agent("starter")
    async def starter(run: Run[Nothing]) -> None:
        await run.call(start(), key=str(run.step))
        await asyncio.sleep(1000)

    @agent("parent")
    async def parent(run: Run[Nothing]) -> None:
        await run.call(child(starter, Nothing()))

    async with Runtime(db, agents=[starter, parent]) as runs:
        run = await runs.start(parent, Nothing())
        (pid,) = await pids_in(tmp_path, 1)
        receipt = await cancelled(run)
        assert not alive(pid)
        assert receipt.residue == ()


async def test_programs_of_another_run_go_on(db: str, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    one, two = [serving(folder, name=folder.name) for folder in folders]

    @agent("server")
    async def server(run: Run[Nothing]) -> Done[str]:
        return Done(await run.call(one() if run.id == "0" else two()))

    async with Runtime(db, agents=[server]) as runs:
        handles = [await runs.start(server, Nothing(), id=str(n)) for n in range(2)]
        first, second = [await pids_in(folder, 2) for folder in folders]
        await cancelled(handles[0])
        assert not any(map(alive, first))
        assert all(map(alive, second))
        await cancelled(handles[1])
        assert not any(map(alive, second))


async def test_a_call_that_was_cut_starts_no_further_program(db: str, tmp_path: Path) -> None:
    """R7: nothing is done after the stop, also by code that swallows its cancellation."""
    begun = asyncio.Event()

    @tool(effect="read")
    async def deaf() -> None:
        begun.set()
        try:
            await run_process("sleep", "1000")
        except asyncio.CancelledError:
            await run_process("touch", str(tmp_path / "after"))

    @agent("caller")
    async def caller(run: Run[Nothing]) -> Done[None]:
        return Done(await run.call(deaf()))

    async with Runtime(db, agents=[caller]) as runs:
        run = await runs.start(caller, Nothing())
        await begun.wait()
        receipt = await cancelled(run)
    assert outcomes(receipt) == {"deaf": "aborted"}
    assert not (tmp_path / "after").exists()


async def test_what_an_undo_has_put_back_is_left_alone(db: str, tmp_path: Path) -> None:
    """R8: a service that an undo started again is not the run's."""

    async def start_again(_: Performed[None, None]) -> None:
        await run_process("sh", "-c", background(tmp_path, "service", session="setsid"))

    @tool(undo=start_again)
    async def stop_service() -> None:
        """It was running before."""

    @agent("stopper")
    async def stopper(run: Run[Nothing]) -> None:
        if not run.take_redirects():
            await run.call(stop_service())
        await run.call(sleep(1000))

    async with Runtime(db, agents=[stopper]) as runs:
        run = await runs.start(stopper, Nothing())
        await eventually(lambda: _sleeps(run))
        assert await run.redirect("leave it", from_step=0)
        (service,) = await pids_in(tmp_path, 1)
        try:
            await eventually(lambda: _sleeps(run))
            assert (await cancelled(run, undo="none")).residue == ()
            assert alive(service)
        finally:
            os.kill(service, signal.SIGKILL)


async def _sleeps(run: Handle[Any]) -> bool:
    view = await run.view()
    return view.status == "running" and [call.tool for call in view.in_flight] == ["sleep"]


@pytest.mark.parametrize("scarce", ["descriptors", "threads"])
async def test_a_cancel_settles_when_nobody_can_look_for_programs(
    db: str, tmp_path: Path, scarce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R34: it says so; the stop itself works."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files") if scarce == "descriptors" else RuntimeError("can't start new thread")

    @tool(effect="read")
    async def wait() -> None:
        await run_process("sh", "-c", f"echo $$ > {tmp_path}/a.pid; exec sleep 1000")

    @agent("waiter")
    async def waiter(run: Run[Nothing]) -> Done[None]:
        return Done(await run.call(wait()))

    async with Runtime(db, agents=[waiter]) as runs:
        run = await runs.start(waiter, Nothing())
        pids = await pids_in(tmp_path, 1)
        with monkeypatch.context() as lack:
            if scarce == "descriptors":
                lack.setattr(marks.os, "scandir", refuse)
            else:
                lack.setattr(looking.ThreadPoolExecutor, "submit", refuse)
            receipt = await cancelled(run)
    assert [one.what for one in receipt.residue] == (
        ["programs that this run started may still be running"] if scarce == "descriptors" else []
    )
    await until_dead(pids)
