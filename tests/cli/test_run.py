"""`standfast run`: steps and words, live; Ctrl-C pauses, a second one leaves, cancel is a word (R1, R3)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pexpect
import pytest
from tests.cli.places import ENVIRONMENT, standfast_process
from tests.server.serving import ROOT

AGENTS = "tests.programs.typed"
LONG = 40


def environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**ENVIRONMENT, "PYTHONPATH": path, "TERM": "xterm", **more}


@pytest.fixture
def on_terminal(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """`standfast run ...` on a real terminal."""
    children: list[Any] = []

    def start(*words: str) -> Any:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "standfast.cli", "run", *words],
            cwd=str(tmp_path),
            env=environment(),
            encoding="utf-8",
            timeout=LONG,
            dimensions=(40, 120),
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


def ended(child: Any) -> int:
    """Its exit code, once it is gone; `before` has everything that was said since the last match."""
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus)


def show(folder: Path, run: str) -> Any:
    return json.loads(standfast_process("show", run, "--json", cwd=folder).stdout)


def test_a_run_is_told_in_plain_lines_when_nobody_looks(tmp_path: Path) -> None:
    done = standfast_process("run", f"{AGENTS}:steps", "--state", '{"seconds": 0.01}', "--id", "one", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    told = [line for line in lines if line.startswith(("▶", "✔"))]
    assert "✔ 1/3 First" in told
    assert "✔ 3/3 Third" in told
    assert any("one two" in line for line in lines)
    assert told[-1].startswith("✔ done: ")


def test_events_as_json_one_a_line(tmp_path: Path) -> None:
    done = standfast_process("run", f"{AGENTS}:steps", "--state", '{"seconds": 0}', "--json", cwd=tmp_path)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said[0]["type"] == "run_started"
    assert said[-1]["run"]["status"] == "done"
    assert said[-1]["result"]["at"] == 3


def test_ctrl_c_pauses_and_says_how_to_resume(on_terminal: Callable[..., Any], tmp_path: Path) -> None:
    """R3, R4: what it says can be typed as it stands, and goes on where it was."""
    child = on_terminal(f"{AGENTS}:steps", "--state", '{"seconds": 30}', "--id", "held")
    child.expect("one two")
    child.sendintr()
    child.expect(r"go on: +standfast (run --resume held \S+)")
    resume = child.match.group(1).strip().split()
    assert ended(child) == 130
    assert "standfast cancel held" in child.before
    assert show(tmp_path, "held")["status"] == "paused"
    standfast_process("edit", "held", "--set", "seconds=0", cwd=tmp_path)
    again = standfast_process(*resume, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "✔ done" in again.stdout


@pytest.mark.more
def test_a_second_ctrl_c_leaves_although_a_write_is_in_flight(on_terminal: Callable[..., Any], tmp_path: Path) -> None:
    """The run stays stopped: nothing new begins, and what became of the write is a doubt, not a guess."""
    child = on_terminal(f"{AGENTS}:slow_write", "--id", "writing")
    child.expect("writing slowly")
    child.sendintr()
    child.expect("pausing; in flight: slow")
    child.sendintr()
    child.expect("go on:")
    assert ended(child) == 130
    view = show(tmp_path, "writing")
    assert view["status"] in ("pausing", "paused")
    assert "user" in view["holds"]


@pytest.mark.more
def test_ctrl_c_pauses_an_agent_that_blocks_its_loop(on_terminal: Callable[..., Any], tmp_path: Path) -> None:
    """R34: whoever holds the session cannot keep the stop from working."""
    child = on_terminal(f"{AGENTS}:wedged", "--id", "wedged")
    child.expect("wedged now")
    child.sendintr()
    child.expect("go on:")
    assert ended(child) == 130
    assert show(tmp_path, "wedged")["status"] == "paused"


def test_what_it_needs_is_asked_at_the_terminal(on_terminal: Callable[..., Any]) -> None:
    """R14: a number chooses, a JSON object changes the arguments."""
    child = on_terminal(f"{AGENTS}:asking")
    child.expect("needs you: question: Which colour")
    child.expect("type a number")
    child.sendline("9")
    child.expect("none of the choices|not one of")
    child.sendline("2")
    child.expect("needs you: approval")
    child.expect("type a number")
    child.sendline('{"colour": "grey"}')
    child.expect("done: painted grey")
    assert ended(child) == 0


def test_without_a_terminal_a_run_that_needs_someone_ends_with_5(tmp_path: Path) -> None:
    done = standfast_process("run", f"{AGENTS}:asking", "--id", "asks", cwd=tmp_path)
    assert done.returncode == 5
    assert "needs you: question" in done.stdout
    assert show(tmp_path, "asks")["status"] == "paused"
    standfast_process("answer", "asks", "red", cwd=tmp_path)
    again = standfast_process("run", "--resume", "asks", f"{AGENTS}:asking", cwd=tmp_path)
    assert again.returncode == 5, again.stdout
    assert "approval" in again.stdout


def test_an_error_holds_the_run_and_says_what_it_was(tmp_path: Path) -> None:
    done = standfast_process("run", f"{AGENTS}:failing", cwd=tmp_path)
    assert done.returncode == 5
    assert "ValueError: no such luck" in done.stdout


@contextmanager
def reading_aloud(folder: Path) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """`standfast run` of a long run x, which has begun to speak, and what it says from there."""
    words = ("run", f"{AGENTS}:steps", "--state", '{"seconds": 60}', "--id", "x")
    command = [sys.executable, "-m", "standfast.cli", *words]
    with subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            while "one two" not in process.stdout.readline():
                assert process.poll() is None
            yield process, process.stdout
        finally:
            process.kill()


@pytest.mark.more
def test_a_run_that_is_cancelled_elsewhere_ends_with_its_receipt(tmp_path: Path) -> None:
    with reading_aloud(tmp_path) as (process, words):
        standfast_process("cancel", "x", "--reason", "elsewhere", cwd=tmp_path)
        said = words.read()
        assert process.wait(LONG) == 7
    assert "receipt of x: cancelled" in said
    assert "elsewhere" in said


@pytest.mark.more
def test_a_killed_driver_is_named_by_the_doctor_and_the_run_goes_on(tmp_path: Path) -> None:
    """R2: kill -9 loses nothing; the next driver takes the run up."""
    with reading_aloud(tmp_path) as (process, words):
        process.send_signal(signal.SIGKILL)
        words.read()
    doctor = standfast_process("doctor", cwd=tmp_path)
    assert doctor.returncode == 1
    assert f"pid {process.pid} is dead" in doctor.stdout
    assert "its runs (x)" in doctor.stdout
    assert standfast_process("cancel", "x", cwd=tmp_path).returncode == 0
    late = standfast_process("run", "--resume", "x", f"{AGENTS}:steps", cwd=tmp_path)
    assert late.returncode == 7, late.stdout  # it was cancelled meanwhile, and this driver has settled it
    assert standfast_process("receipt", "x", "--wait", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere:agent"], 1, "cannot be imported"),
        ([f"{AGENTS}:nobody"], 1, "there is no 'nobody'"),
        ([AGENTS], 1, "write module:name"),
        ([f"{AGENTS}:steps", "--state", "{", "--id", "a"], 2, "not JSON"),
        ([f"{AGENTS}:steps", "--state", "{}", "--task", "x"], 2, "give one of them"),
        ([f"{AGENTS}:steps", "--resume", "x", "--task", "x"], 2, "for new runs"),
        ([f"{AGENTS}:steps", "--resume", "x"], 1, "no run 'x'"),
        ([f"{AGENTS}:steps", "--state", '{"seconds": "soon"}'], 1, "seconds"),
    ],
)
def test_what_makes_no_sense_is_said_in_two_lines(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    done = standfast_process("run", *words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert re.sub(r"\s+", " ", said) in re.sub(r"\s+", " ", done.stderr)
    assert "Traceback" not in done.stderr
