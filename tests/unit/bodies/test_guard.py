"""Marks and the guard: programs are found by what they carry, and end with the process that started them (R6)."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.bodies.watching import SAFETY, alive, pids_in, until_dead

from standfast.bodies import guard_main, marks
from standfast.bodies.guard import Guard
from standfast.bodies.marks import (
    VARIABLE,
    call_mark,
    carriers,
    end_carriers,
    is_beside,
    is_of_driver,
    is_of_run,
    marked,
    run_mark,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere marks cannot be read")


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark that nobody else carries; what carries it does not outlive the test."""
    mine = call_mark(run_mark("run", os.urandom(8).hex()), "call", "driver")
    yield mine
    end_carriers(mine.__eq__)


def start(mark: str, *argv: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, env=marked(None, mark), start_new_session=True, **options)  # type: ignore[call-overload,no-any-return]


def test_a_mark_tells_run_call_and_driver_apart() -> None:
    run = run_mark("run-1", "salt")
    one = call_mark(run, "call-1", "driver-1")
    assert one != call_mark(run, "call-2", "driver-1")
    assert one != call_mark(run_mark("run-1", "pepper"), "call-1", "driver-1")
    assert is_of_run(one, run)
    assert not is_of_run(one, run_mark("run-2", "salt"))
    assert is_of_driver(one, "driver-1")
    assert not is_of_driver(one, "driver-2")
    assert not is_beside(one)
    assert is_beside(call_mark(run, "call-1", "driver-1", beside=True))


def test_an_environment_keeps_the_marks_of_what_it_is_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that drives runs itself: whoever stops the outer call finds the inner programs too."""
    monkeypatch.setenv(VARIABLE, "outer")
    assert marked({"A": "b"}, "inner") == {"A": "b", VARIABLE: "outer inner"}
    assert marked({"A": "b"}, "") == {"A": "b", VARIABLE: "outer"}
    monkeypatch.delenv(VARIABLE)
    assert marked({"A": "b"}, "") == {"A": "b"}
    assert marked(None, "") is None


def test_a_carrier_is_found_by_its_whole_mark_alone(mark: str) -> None:
    program = start(f"outer {mark} inner", "sleep", "1000")
    try:
        assert carriers(mark.__eq__) == {program.pid: mark}
        assert carriers(mark[:-1].__eq__) == {}
        assert end_carriers(mark.__eq__) == {}
    finally:
        program.kill()
        program.wait()


def in_the_midst_of_exec(program: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """What a look finds there: no environment yet, and no end of it in the kernel's line about the process."""
    environment, is_starting = marks._environment, marks._is_starting
    end = time.monotonic() + seconds

    def read(pid: int) -> bytes | None:
        return b"" if pid == program.pid and time.monotonic() < end else environment(pid)

    def look(pid: int) -> bytes:
        return b"1" if pid == program.pid and time.monotonic() < end else is_starting(pid)

    monkeypatch.setattr(marks, "_environment", read)
    monkeypatch.setattr(marks, "_is_starting", look)


def test_a_program_that_is_just_being_started_is_found(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6, R39: in the midst of `exec` it shows no environment; a look that missed it would call it ended."""
    program = start(mark, "sleep", "1000")
    in_the_midst_of_exec(program, monkeypatch, seconds=0.3)  # a busy machine lets it wait longer than 100 ms
    assert carriers(mark.__eq__) == {program.pid: mark}
    monkeypatch.undo()
    assert end_carriers(mark.__eq__) == {}
    program.wait()


def test_a_program_that_comes_out_of_exec_between_two_looks_is_found(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6, R39"""
    program = start(mark, "sleep", "1000")
    environment = marks._environment
    missed: list[int] = []

    def read(pid: int) -> bytes | None:
        if pid != program.pid or missed:
            return environment(pid)
        missed.append(pid)
        return b""

    monkeypatch.setattr(marks, "_environment", read)
    assert carriers(mark.__eq__) == {program.pid: mark}
    monkeypatch.undo()
    assert end_carriers(mark.__eq__) == {}
    program.wait()


def test_a_program_without_environment_is_not_waited_for() -> None:
    program = subprocess.Popen(["sleep", "1000"], env={})
    end = time.monotonic() + 60
    try:
        while marks._is_starting(program.pid):  # `Popen` returns a moment before `exec` is over
            assert time.monotonic() < end
            time.sleep(0.001)
    finally:
        program.kill()
        program.wait()


def test_a_program_that_stays_in_exec_is_waited_for_once(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk may not answer: a stop does not wait for that each time it looks."""
    program = start(mark, "sleep", "1000")
    try:
        monkeypatch.setattr(marks, "STARTING_WAIT", 0.1)
        with monkeypatch.context() as patch:
            in_the_midst_of_exec(program, patch, seconds=1000)
            assert carriers(mark.__eq__) == {}
        assert program.pid in {pid for pid, _ in marks._stuck}
        assert carriers(mark.__eq__) == {program.pid: mark}
    finally:
        program.kill()
        program.wait()


async def test_descendants_that_cleaned_their_environment_end_with_their_parent(mark: str, tmp_path: Path) -> None:
    program = start(mark, "sh", "-c", f"env -i setsid sh -c 'echo $$ > {tmp_path}/a.pid; exec sleep 1000' & wait")
    pids = await pids_in(tmp_path, 1)
    assert pids[0] not in carriers(mark.__eq__)
    end_carriers(mark.__eq__)
    program.wait()
    await until_dead(pids)


def test_a_program_that_forks_all_the_time_ends(mark: str) -> None:
    program = forking(mark)
    assert end_carriers(mark.__eq__) == {}
    program.wait()
    assert carriers(mark.__eq__) == {}


def forking(mark: str) -> subprocess.Popen[bytes]:
    """A program that forks all the time, and has begun to."""
    program = start(mark, "sh", "-c", "while :; do (setsid sleep 1000 &) ; sleep 0.001; done")
    end = time.monotonic() + 60
    while len(carriers(mark.__eq__)) < 20 and time.monotonic() < end:
        time.sleep(0.01)
    return program


def test_it_ends_on_a_machine_that_is_slow_to_look(mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R6, R39: one that has died meanwhile is not named as left."""

    def look_slowly(wanted: Callable[[str], bool]) -> dict[int, str]:
        found = carriers(wanted)
        time.sleep(1.2 * marks.GONE_WAIT)
        return found

    program = forking(mark)
    monkeypatch.setattr(marks, "carriers", look_slowly)
    assert end_carriers(mark.__eq__) == {}
    program.wait()


def test_nobody_waits_for_ever_for_programs_that_are_faster_than_this(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R34: those that are there at the end are named."""
    pids = itertools.count(2**22 + 1)  # no process has such a number
    monkeypatch.setattr(marks, "carriers", lambda _: {next(pids): mark})
    monkeypatch.setattr(marks, "ALL_GONE_WAIT", 0.3)
    assert list(end_carriers(mark.__eq__).values()) == [mark]


DRIVER = """
import os, subprocess, sys, time
from standfast.bodies.guard import guard
from standfast.bodies.marks import marked
mark, folder, how = sys.argv[1:]
guard.open(mark)
program = f"echo $$ > {folder}/a.pid; exec sleep 1000"
subprocess.Popen(["sh", "-c", program], env=marked(None, mark), start_new_session=True)
if how == "closed":
    guard.close(mark)
if how == "forked" and os.fork() == 0:
    open(f"{folder}/b.pid", "w").write(str(os.getpid()))
    time.sleep(1000)
if how in ("exits", "closed"):
    while not os.path.exists(f"{folder}/a.pid"):
        time.sleep(0.01)
    sys.exit()
time.sleep(1000)
"""


def driver(mark: str, folder: Path, how: str) -> subprocess.Popen[bytes]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(DRIVER), mark, str(folder), how], env=env)


async def test_programs_end_with_a_process_that_exits(mark: str, tmp_path: Path) -> None:
    with driver(mark, tmp_path, "exits") as process:
        assert await asyncio.to_thread(process.wait, SAFETY) == 0
    assert not alive((await pids_in(tmp_path, 1))[0])


async def test_a_call_that_has_ended_leaves_its_programs_alone(mark: str, tmp_path: Path) -> None:
    with driver(mark, tmp_path, "closed") as process:
        assert await asyncio.to_thread(process.wait, SAFETY) == 0
    await asyncio.sleep(0.2)
    assert alive((await pids_in(tmp_path, 1))[0])


async def test_a_fork_of_the_process_does_not_keep_its_guard_waiting(mark: str, tmp_path: Path) -> None:
    with driver(mark, tmp_path, "forked") as process:
        await pids_in(tmp_path, 2)
        program, fork = (int((tmp_path / name).read_text()) for name in ("a.pid", "b.pid"))
        process.kill()
        process.wait()
        await until_dead([program])
        assert alive(fork)
        os.kill(fork, signal.SIGKILL)


def test_a_guard_that_is_killed_or_stopped_is_replaced_and_told_everything(mark: str) -> None:
    """And nobody waits for it: its pipe is full after some thousand calls."""
    guard = Guard()
    guard.open(mark)
    program = start(mark, "sleep", "1000")
    try:
        for number in (signal.SIGKILL, signal.SIGSTOP):
            assert guard._process is not None
            old = guard._process.pid
            os.kill(old, number)
            for n in range(3000):
                guard.open(f"other-{n}")
                guard.close(f"other-{n}")
            assert guard._process.pid != old
        assert guard.marks == {mark}
        guard.end()
        assert program.wait(SAFETY) == -signal.SIGKILL
    finally:
        program.kill()
        program.wait()


def test_without_a_guard_programs_run_all_the_same(
    mark: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    guard = Guard()
    guard.open(mark)
    guard.close(mark)
    assert "programs may outlive this process" in caplog.text


def test_where_marks_cannot_be_read_the_group_of_a_running_program_is_killed() -> None:
    calls: dict[str, set[int]] = {}
    program = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    for line in ("open a", f"group a {program.pid}", "group a 2000000000", "ungroup a 2000000000", "clo"):
        guard_main.hear(line.split(), calls)
    assert calls == {"a": {program.pid}}
    guard_main.end_groups(calls["a"])
    assert program.wait(SAFETY) == -signal.SIGKILL
    guard_main.hear(["close", "a"], calls)
    assert calls == {}
