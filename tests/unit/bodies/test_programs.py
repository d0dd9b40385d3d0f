"""Programs: their output streams, and a stop takes everything they have started (R6, R35)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.bodies.watching import SAFETY, alive, open_files, pids_in, until_dead

from standfast.bodies import trees
from standfast.bodies.programs import _Output, run_process
from standfast.bodies.threads import Token
from standfast.bodies.trees import kill_tree
from standfast.context import current_call
from standfast.errors import Misuse


class Call:
    """The call around the program, as far as it matters here."""

    key = "k"
    stop_token = Token()

    def __init__(self, *, in_process_tool: bool = False) -> None:
        self.in_process_tool = in_process_tool
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def begin_program(self) -> str:
        return ""

    def use(self, type_: type[Any]) -> Any: ...

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None: ...

    def progress(self, fraction: float, text: str) -> None: ...


@contextmanager
def in_call(call: Call) -> Iterator[Call]:
    token = current_call.set(call)
    try:
        yield call
    finally:
        current_call.reset(token)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    async with asyncio.timeout(SAFETY):
        with pytest.raises(asyncio.CancelledError):
            await task


NOTED = "echo $$ > {}.pid; exec sleep 1000"  # a process that writes its pid down and stays


def sh(name: str) -> str:
    return f"sh -c '{NOTED.format(name)}'"


async def test_output_return_code_and_stdin_of_a_program() -> None:
    done = await run_process("sh", "-c", "cat; echo oops >&2; exit 3", stdin="grüße\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "grüße\n", "oops\n")


async def test_program_without_stdin_reads_nothing() -> None:
    assert (await run_process("cat", timeout=SAFETY)).stdout == ""


async def test_cwd_and_env_are_the_programs_own(tmp_path: Path) -> None:
    done = await run_process("/bin/sh", "-c", 'echo "$PWD $WHO"', cwd=tmp_path, env={"WHO": "ann"})
    assert done.stdout == f"{tmp_path} ann\n"


async def test_large_stdin_that_nobody_reads_is_no_error() -> None:
    assert (await run_process("true", stdin=b"x" * 1_000_000)).returncode == 0


async def test_large_input_and_output_pass_whole() -> None:
    data = "0123456789" * 300_000
    assert (await run_process("cat", stdin=data)).stdout == data


async def test_missing_program_and_no_program_are_clear_errors() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        await run_process("no-such-program")
    with pytest.raises(Misuse, match="no program"):
        await run_process()


async def test_output_streams_to_say_while_the_program_runs() -> None:
    """R26: and a character that comes in two halves is one."""
    with in_call(Call()) as call:
        task = asyncio.create_task(run_process("sh", "-c", r"printf 'a\303'; sleep 0.1; printf '\274b'; sleep 1000"))
        async with asyncio.timeout(SAFETY):
            while "".join(call.said) != "aüb":
                await asyncio.sleep(0.005)
        assert not task.done()
        await cancelled(task)


async def test_output_said_before_a_cut_is_kept() -> None:
    """R9"""
    with in_call(Call()) as call, pytest.raises(TimeoutError, match=r"^sh did not end within 0\.3 s, and was killed$"):
        await run_process("sh", "-c", "echo begun; sleep 1000", timeout=0.3)
    assert "".join(call.said) == "begun\n"


async def test_failing_listener_stops_the_program(tmp_path: Path) -> None:
    class Deaf(Call):
        def say(self, text: str) -> None:
            raise OSError("cannot show")

    with in_call(Deaf()), pytest.raises(OSError, match="cannot show"):
        await run_process("sh", "-c", f"echo $$ > {tmp_path}/a.pid; echo hello; sleep 1000")
    await until_dead(await pids_in(tmp_path, 1))


async def test_long_output_keeps_head_and_tail_and_says_what_is_missing() -> None:
    said: list[str] = []
    output = _Output(said.append, kept=20)
    for chunk in (b"0123456789", "ää".encode() * 20, b"abcdefghij"):
        output.add(chunk)
    assert output.text() == "0123456789\n[standfast: 80 bytes left out]\nabcdefghij"
    assert "".join(said) == "0123456789" + "ä" * 40 + "abcdefghij"


async def test_gap_in_long_output_halves_no_character() -> None:
    output = _Output(lambda _: None, kept=6)
    output.add("ääääää".encode())  # 3 bytes of head, 3 of tail: both in the middle of an ä
    assert output.text() == "ä\n[standfast: 6 bytes left out]\nä"


async def test_cancel_kills_the_whole_tree_at_once(tmp_path: Path) -> None:
    """R6: child, grandchild, background job, one in a session of its own, one orphaned."""
    (tmp_path / "deep.sh").write_text(f"{sh('c')} & wait\n")
    script = f"{sh('a')} & setsid {sh('b')} & (sh deep.sh & wait) & (({sh('d')}) &); echo $$ > e.pid; sleep 1000"
    task = asyncio.create_task(run_process("sh", "-c", script, cwd=tmp_path))
    pids = await pids_in(tmp_path, 5)
    assert all(alive(pid) for pid in pids)
    await cancelled(task)
    await until_dead(pids)


async def test_cancel_kills_sessions_started_within_sessions(tmp_path: Path) -> None:
    """R6"""
    inner = tmp_path / "inner.sh"
    inner.write_text(f"setsid {sh('a')} & echo $$ > b.pid; wait\n")
    task = asyncio.create_task(run_process("sh", "-c", f"setsid sh {inner} & wait", cwd=tmp_path))
    pids = await pids_in(tmp_path, 2)
    await cancelled(task)
    await until_dead(pids)


FORKS = """
import os, time
if os.fork() == 0:
    os.setsid()
    for _ in range(200):  # an end, should the kill fail
        if os.fork() == 0:
            os.setsid()
            time.sleep(10)
            os._exit(0)
        time.sleep(0.005)
os.wait()
"""
ORPHAN = """
import os, time
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        os.setpgid(0, 0)
        while os.getppid() == parent:
            time.sleep(0.001)
        open("a.pid", "w").write(str(os.getpid()))
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)
"""


def with_mark(mark: str) -> list[int]:
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes() and alive(int(path.parent.name)):
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


async def test_program_that_keeps_forking_does_not_outrun_the_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """R6: one session after the other is started; whoever is searched for children has been stopped."""
    children = trees._children

    def looks_slowly(pid: int) -> list[int]:
        found = children(pid)
        time.sleep(0.02)  # long enough for several more, if they could
        return found

    monkeypatch.setattr(trees, "_children", looks_slowly)
    mark = f"forks-{os.getpid()}-{time.monotonic_ns()}"
    task = asyncio.create_task(run_process(sys.executable, "-S", "-c", FORKS, mark))
    async with asyncio.timeout(SAFETY):
        while len(with_mark(mark)) < 5:
            await asyncio.sleep(0.005)
    await cancelled(task)
    await asyncio.sleep(0.05)
    left = with_mark(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


async def test_cancel_kills_orphans_of_the_session_in_other_groups(tmp_path: Path) -> None:
    """R6: as a shell with job control leaves them."""
    task = asyncio.create_task(run_process(sys.executable, "-c", ORPHAN, cwd=tmp_path))
    pids = await pids_in(tmp_path, 1)
    await cancelled(task)
    await until_dead(pids)


async def test_program_that_ignores_signals_is_killed_too(tmp_path: Path) -> None:
    """R6"""
    script = "trap '' TERM INT HUP; echo $$ > a.pid; while :; do sleep 0.01; done"
    task = asyncio.create_task(run_process("sh", "-c", script, cwd=tmp_path))
    pids = await pids_in(tmp_path, 1)
    await cancelled(task)
    await until_dead(pids)


async def test_timeout_kills_the_tree_and_raises(tmp_path: Path) -> None:
    """R6"""
    with pytest.raises(TimeoutError):
        await run_process("sh", "-c", f"{sh('a')} & {sh('b')}", cwd=tmp_path, timeout=0.5)
    await until_dead(await pids_in(tmp_path, 2))


async def test_grandchild_that_holds_the_pipes_delays_nothing_and_lives_on(tmp_path: Path) -> None:
    """R6: what a program leaves running on purpose is not killed, and nothing waits for it."""
    before = asyncio.all_tasks()
    began = time.monotonic()
    done = await run_process("sh", "-c", f"{sh('a')} & echo done", cwd=tmp_path)
    assert time.monotonic() - began < SAFETY
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert asyncio.all_tasks() == before
    [pid] = await pids_in(tmp_path, 1)
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)


async def test_cancel_after_the_programs_exit_still_kills_who_holds_the_pipes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6"""
    monkeypatch.setattr("standfast.bodies.programs.PIPE_GRACE", SAFETY)
    task = asyncio.create_task(run_process("sh", "-c", f"{sh('a')} & echo $$ > b.pid", cwd=tmp_path))
    pids = await pids_in(tmp_path, 2)
    await asyncio.sleep(0.1)
    assert not task.done()
    await cancelled(task)
    await until_dead(pids)


async def test_output_still_in_the_pipe_at_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9: after a normal exit with the pipes held by another, and after a cut."""
    monkeypatch.setattr("standfast.bodies.pipes.CHUNK", 10)  # so that much is left after each look
    monkeypatch.setattr("standfast.bodies.programs.PIPE_GRACE", 0)
    text = "0123456789" * 200
    done = await run_process("sh", "-c", f"printf {text}; {sh('a')} &", cwd=tmp_path)
    assert done.stdout == text
    os.kill((await pids_in(tmp_path, 1))[0], signal.SIGKILL)
    with in_call(Call()) as call:
        task = asyncio.create_task(run_process("sh", "-c", f"printf {text}; sleep 1000"))
        await asyncio.sleep(0)
        time.sleep(0.3)  # the loop sees nothing of it until the cancel
        await cancelled(task)
    assert "".join(call.said) == text


async def test_program_that_closes_its_stdin_is_no_error() -> None:
    errors: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
    done = await run_process("sh", "-c", "exec <&-; sleep 0.2; echo ok", stdin=b"x" * 1_000_000)
    assert (done.stdout, errors) == ("ok\n", [])


async def test_nothing_of_a_program_stays_open(tmp_path: Path) -> None:
    await run_process("true")
    before = open_files()
    await run_process("sh", "-c", "cat; sleep 0.5 &", stdin="x")
    await cancelled(asyncio.create_task(run_process("sleep", "1000")))
    task = asyncio.create_task(run_process("sleep", "1000", stdin=b"x" * 1_000_000))
    await asyncio.sleep(0.1)
    await cancelled(task)
    assert open_files() == before


async def test_in_a_process_tool_the_program_stays_in_the_tools_group(tmp_path: Path) -> None:
    """R6: what kills the tool's group kills its programs; a cancel kills the program alone."""
    with in_call(Call(in_process_tool=True)):
        task = asyncio.create_task(run_process("sh", "-c", f"{sh('a')} & {sh('b')}", cwd=tmp_path))
        pids = await pids_in(tmp_path, 2)
        assert {os.getpgid(pid) for pid in pids} == {os.getpgrp()}
        await cancelled(task)  # we are in that group, and live
        await until_dead(pids)
    task = asyncio.create_task(run_process("sh", "-c", NOTED.format("c"), cwd=tmp_path))
    [pid] = set(await pids_in(tmp_path, 3)) - set(pids)
    assert os.getsid(pid) == pid
    await cancelled(task)


@pytest.mark.parametrize("pid", [-1, 0, 1, os.getpid()], ids=["all", "group", "init", "self"])
def test_kill_tree_refuses_what_is_no_child(pid: int) -> None:
    with pytest.raises(ValueError, match="more than a child"):
        kill_tree(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="descendants in other sessions are found on Linux only")
async def test_kill_tree_names_whom_it_killed(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        "sh", "-c", f"setsid {sh('a')} & {sh('b')}", cwd=tmp_path, start_new_session=True
    )
    pids = await pids_in(tmp_path, 2)
    assert set(pids) <= set(kill_tree(child.pid))
    assert await child.wait() == -signal.SIGKILL
