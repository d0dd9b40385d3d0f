"""Tools in processes of their own: what crosses, what a kill takes, how they are found (R6, R35)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from tests.unit.bodies import process_tools
from tests.unit.bodies.watching import SAFETY, alive, open_files, pids_in, until_dead

from standfast.bodies import Cut, RemoteError
from standfast.bodies.processes import ProcessBody, process_target
from standfast.bodies.targets import unguarded_line
from standfast.errors import BadTool


class Heard:
    def __init__(self) -> None:
        self.all: list[Any] = []

    def say(self, text: str) -> None:
        self.all.append(text)

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None:
        self.all.append((input_tokens, output_tokens, cost))

    def progress(self, fraction: float, text: str) -> None:
        self.all.append((fraction, text))


def body_of(tool: Any, heard: Heard | None = None, **args: Any) -> ProcessBody:
    heard = heard or Heard()
    module, path, qualname = process_target(tool.fn)
    return ProcessBody(
        module=module,
        path=path,
        qualname=qualname,
        args_json=json.dumps(args).encode(),
        key="key-1",
        on_say=heard.say,
        on_spend=heard.spend,
        on_progress=heard.progress,
    )


async def outcome(body: ProcessBody) -> Any:
    async with asyncio.timeout(SAFETY):
        return json.loads(await body.future)


async def performed(tool: Any, heard: Heard | None = None, **args: Any) -> Any:
    body = body_of(tool, heard, **args)
    await body.start()
    return await outcome(body)


async def test_arguments_and_result_cross_as_json() -> None:
    assert await performed(process_tools.add, a=2, b=40) == 42
    assert await performed(process_tools.Kit.double, n=21) == 42


async def test_what_the_tool_says_spends_and_prints_arrives_in_its_place(capfd: pytest.CaptureFixture[str]) -> None:
    """R26: prints go where the parent's go and never into the protocol."""
    heard = Heard()
    text = "grüße\n" * 40_000  # more than a pipe holds, both ways
    assert await performed(process_tools.tell, heard, text=text) == f"key-1 {text}"
    assert heard.all == [text, (3, 4, 0.5), (0.25, "a quarter")]
    assert capfd.readouterr().out == "printed by the tool\n"


async def test_tool_sees_the_parents_environment_in_a_session_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    python_path, pid, session, inherited = await performed(process_tools.environment)
    assert python_path is None
    assert pid == session != os.getsid(0)
    assert inherited == []
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    assert (await performed(process_tools.environment))[0] == "/somewhere"


@pytest.mark.parametrize(
    ("how", "type_", "text"),
    [
        ("error", "KeyError", "lost"),
        ("nothing happened", "NotPerformed", "the card was refused"),
        ("exit", "SystemExit", "3"),
        ("die", "ProcessDied", "exit code 7"),
        ("segfault", "ProcessDied", "SIGSEGV"),
        ("use", "Misuse", "dependencies do not cross processes"),
        ("wrong result", "NotStorable", "result"),
    ],
)
async def test_error_crosses_with_type_message_and_traceback(how: str, type_: str, text: str) -> None:
    with pytest.raises(RemoteError) as caught:
        await performed(process_tools.fails, how=how)
    error = caught.value
    assert error.type == type_
    assert text in error.message
    assert error.not_performed == (how == "nothing happened")
    if how == "error":
        assert 'raise KeyError("lost")' in error.traceback


async def test_failing_listener_ends_the_call_with_its_error(tmp_path: Path) -> None:
    class Deaf(Heard):
        def say(self, text: str) -> None:
            raise OSError("cannot show")

    with pytest.raises(OSError, match="cannot show"):
        await performed(process_tools.tell, Deaf(), text="hello")


async def test_cut_kills_what_no_exception_could_stop(tmp_path: Path) -> None:
    """R6: a C call that holds the interpreter."""
    body = body_of(process_tools.holds_the_interpreter, folder=str(tmp_path))
    assert body.where() == ""
    await body.start()
    [pid] = await pids_in(tmp_path, 1)
    assert body.where() == f"process {pid} (tests.unit.bodies.process_tools:holds_the_interpreter)"
    body.cut()
    body.cut()
    with pytest.raises(Cut):
        await outcome(body)
    assert not alive(pid)
    assert body.where() == ""


async def test_cut_kills_the_programs_of_the_tool(tmp_path: Path) -> None:
    """R6: those of run_process and those in sessions of their own."""
    body = body_of(process_tools.starts_programs, folder=str(tmp_path))
    await body.start()
    pids = await pids_in(tmp_path, 3)
    body.cut()
    with pytest.raises(Cut):
        await outcome(body)
    await until_dead(pids)


async def test_cut_before_start_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """R7"""
    body = body_of(process_tools.add, a=1, b=2)
    body.cut()
    monkeypatch.setattr(subprocess, "Popen", None)
    await body.start()
    with pytest.raises(Cut):
        await outcome(body)


async def test_cut_after_the_end_changes_nothing() -> None:
    body = body_of(process_tools.add, a=1, b=2)
    await body.start()
    assert await outcome(body) == 3
    body.cut()
    assert await outcome(body) == 3


async def test_result_still_in_the_pipe_at_the_exit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """R9"""
    body = body_of(process_tools.add, a=1, b=2)
    await body.start()
    pid = int(body.where().split()[1])
    while alive(pid):  # the loop sees nothing of it until then
        time.sleep(0.01)
    monkeypatch.setattr("standfast.bodies.pipes.CHUNK", 3)  # so that much is left after the first look
    body.cut()
    assert await outcome(body) == 3


async def test_tool_that_leaves_threads_behind_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """R35: the result counts, the process does not outlive it for long."""
    monkeypatch.setattr("standfast.bodies.processes.EXIT_GRACE", 0.2)
    assert await performed(process_tools.lingers) == "done"


async def test_death_is_noticed_while_a_fork_holds_the_pipes(tmp_path: Path) -> None:
    """R6"""
    with pytest.raises(RemoteError, match="SIGKILL"):
        await performed(process_tools.fork_holds_pipe, folder=str(tmp_path))
    [pid] = await pids_in(tmp_path, 1)
    os.kill(pid, signal.SIGKILL)


async def test_nothing_of_a_process_stays_open() -> None:
    await performed(process_tools.add, a=1, b=2)
    before = open_files()
    await performed(process_tools.add, a=1, b=2)
    body = body_of(process_tools.add, a=1, b=2)
    await body.start()
    body.cut()
    with pytest.raises(Cut):
        await outcome(body)
    await asyncio.sleep(0)
    assert open_files() == before


# --- how a tool is found -----------------------------------------------------------------------

SCRIPT = """
import asyncio, ctypes, json, os, sys
from dataclasses import dataclass
from standfast.bodies.processes import ProcessBody, process_target
from standfast.tools import tool

@dataclass
class Point:
    x: int

@tool(process=True)
def shift(point: Point, by: int) -> Point:
    return Point(point.x + by)

@tool(process=True)
def forever(note: str) -> None:
    open(note, "w").write(str(os.getpid()))
    ctypes.PyDLL(None).sleep(1000)  # no other thread of the tool can notice anything

async def main():
    name, args = sys.argv[1], sys.argv[2]
    module, path, qualname = process_target(globals()[name].fn)
    body = ProcessBody(module=module, path=path, qualname=qualname, args_json=args.encode(), key="k",
                       on_say=print, on_spend=print, on_progress=print)
    await body.start()
    print((await body.future).decode())

if __name__ == "__main__":
    asyncio.run(main())
"""


def script(tmp_path: Path, text: str = SCRIPT) -> Path:
    path = tmp_path / "myscript.py"
    path.write_text(text)
    return path


def python(*argv: str | Path, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *argv]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=SAFETY, cwd=cwd, env=env, input=stdin
    )


def test_tool_in_a_guarded_script_runs(tmp_path: Path) -> None:
    done = python(script(tmp_path), "shift", '{"point": {"x": 1}, "by": 2}', cwd=tmp_path)
    assert (done.stdout, done.stderr) == ('{"x":3}\n', "")


def test_tool_in_a_module_run_with_m_is_found_by_its_real_name(tmp_path: Path) -> None:
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    script(package, "from . import __name__ as package\n" + SCRIPT)
    done = python("-m", "mypackage.myscript", "shift", '{"point": {"x": 1}, "by": 2}', cwd=tmp_path)
    assert (done.stdout, done.stderr) == ('{"x":3}\n', "")


def test_file_in_the_working_directory_does_not_stand_in_for_ours(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "json.py").write_text("raise SystemExit('wrong json')")
    done = python(script(tmp_path), "shift", '{"point": {"x": 1}, "by": 2}', cwd=elsewhere)
    assert (done.stdout, done.stderr) == ('{"x":3}\n', "")


def test_unguarded_script_is_refused_with_a_hint(tmp_path: Path) -> None:
    done = python(
        script(tmp_path, SCRIPT.replace('if __name__ == "__main__":', "if True:")), "shift", "{}", cwd=tmp_path
    )
    assert "BadTool" in done.stderr
    assert 'would run the whole program again there (put it under `if __name__ == "__main__":`' in done.stderr


@pytest.mark.parametrize("how", ["-c", "stdin"])
def test_tool_without_a_file_is_refused_with_a_hint(tmp_path: Path, how: str) -> None:
    code = "from standfast.bodies.processes import process_target\ndef f(): ...\nprocess_target(f)"
    done = python("-c", code, cwd=tmp_path) if how == "-c" else python("-", cwd=tmp_path, stdin=code)
    assert "its code is in no file (define a process=True tool in a module or script" in done.stderr


def test_nested_function_and_lambda_are_refused_with_a_hint() -> None:
    def nested() -> None: ...

    for fn in (nested, lambda: None):
        with pytest.raises(BadTool, match="at the top level of a module"):
            process_target(fn)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("asyncio.run(main())", 1),
        ("x = 1\nresult = asyncio.run(main())", 2),
        ("from asyncio import run\nrun(main())", 2),
        ("with asyncio.Runner() as runner:\n    runner.run(main())", 2),
        ("try:\n    loop.run_until_complete(main())\nfinally:\n    loop.close()", 2),
        ("def main():\n    go()\ndef go():\n    asyncio.run(amain())\nmain()", 5),
        ("if __name__ == '__main__':\n    pass\nelse:\n    asyncio.run(main())", 4),
        ("if __name__ == '__main__':\n    asyncio.run(main())", None),
        ("if '__main__' == __name__ and sys.argv:\n    asyncio.run(main())", None),
        ("logging.basicConfig()\nsys.path.insert(0, 'x')", None),
        ("def setup():\n    logging.basicConfig()\nsetup()", None),
        ("def main():\n    asyncio.run(amain())", None),
        ("class A:\n    def go(self):\n        asyncio.run(amain())", None),
    ],
)
def test_only_what_would_run_the_program_again_counts_as_unguarded(source: str, line: int | None) -> None:
    assert unguarded_line(source.encode()) == line


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the child notices by the end of its stdin")
async def test_process_dies_with_its_parent(tmp_path: Path) -> None:
    """R6: also when the parent is killed and can do nothing about it."""
    note = tmp_path / "tool.pid"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, script(tmp_path), "forever", json.dumps({"note": str(note)}), env=env
    )
    pids = await pids_in(tmp_path, 1)
    assert alive(pids[0])
    parent.kill()
    await parent.wait()
    await until_dead(pids)


async def test_process_whose_stdin_ends_dies_with_its_group(tmp_path: Path) -> None:
    """R6: the way to notice a dead parent where the system does not tell."""
    watch = textwrap.dedent("""
        import sys, time, threading
        from standfast.bodies.process_main import _die_at_end_of
        threading.Thread(target=_die_at_end_of, args=(0,), daemon=True).start()
        time.sleep(1000)
    """)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", watch, stdin=subprocess.PIPE, start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert child.stdin is not None
    child.stdin.close()
    async with asyncio.timeout(SAFETY):
        assert await child.wait() == -signal.SIGKILL
