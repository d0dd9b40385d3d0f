"""Marks: by what a program carries in its environment it is found, whoever its parent and its session are now.

A mark names run, call and driver, as digests. Children inherit it. A process of a guard imports this file without
the rest of the package: the standard library and `trees` are all it may use.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from standfast.bodies.trees import kill_tree

VARIABLE = "STANDFAST_WITHIN"  # the marks of the calls that a program runs in, the outermost first
BESIDE = "aside-"  # before the call in the mark of a program that no body started, but an undo or a probe
CAN_BE_READ = sys.platform == "linux"
FIRST_PAUSE = 0.0005
LAST_PAUSE = 0.02
GONE_WAIT = 1.0  # how long a killed process may take to vanish; in the midst of a system call it may not do so at all


def run_mark(run: str, salt: str) -> str:
    """The first part of the marks of a run. Nobody can guess it who has not seen one; ids alone are not unique."""
    return _digest(f"{run}\0{salt}")


def call_mark(run: str, call: str, driver: str, *, beside: bool = False) -> str:
    """The mark of a call; `run` is a mark itself."""
    return f"{run}.{BESIDE if beside else ''}{_digest(call)}.{_digest(driver)}"


def is_of_run(mark: str, run: str) -> bool:
    return mark.startswith(f"{run}.")


def is_of_driver(mark: str, driver: str) -> bool:
    return mark.endswith(f".{_digest(driver)}")


def is_beside(mark: str) -> bool:
    return f".{BESIDE}" in mark


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def marked(env: Mapping[str, str] | None, mark: str) -> Mapping[str, str] | None:
    """An environment with this mark, after those that this process carries itself."""
    within = " ".join(filter(None, (os.environ.get(VARIABLE, ""), mark)))
    if not within:
        return env
    return {**(os.environ if env is None else env), VARIABLE: within}


def carriers(wanted: Callable[[str], bool]) -> dict[int, str]:
    """Processes that carry a mark that is wanted, and that mark. Linux alone lets us look."""
    if not CAN_BE_READ:
        return {}
    found: dict[int, str] = {}
    for pid in (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()):
        mark = _carried(pid, wanted)
        if mark and pid != os.getpid():
            found[pid] = mark
    return found


def end_carriers(wanted: Callable[[str], bool], wait: float = GONE_WAIT) -> dict[int, str]:
    """SIGKILL to those processes, their sessions and descendants, until there are none; those that do not vanish."""
    deadline = time.monotonic() + wait
    pause = FIRST_PAUSE
    while left := carriers(wanted):
        for pid in left:
            _kill(pid, wanted)
        if time.monotonic() > deadline:
            break
        time.sleep(pause)
        pause = min(2 * pause, LAST_PAUSE)
    return left


def names(pids: Mapping[int, str]) -> str:
    """Processes as people know them; without arguments, which may hold secrets."""
    return ", ".join(f"process {pid} ({_name(pid)})" for pid in sorted(pids))


def _kill(pid: int, wanted: Callable[[str], bool]) -> None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return  # it has gone; or is killed by the next look, if it was out of descriptors
    try:
        # Looked at again behind the handle, and stopped: from here on the number stays this process's own.
        if _carried(pid, wanted):
            signal.pidfd_send_signal(handle, signal.SIGSTOP)
            kill_tree(pid)
    except OSError:
        pass  # it has gone, or is not ours to kill: the next look tells
    finally:
        os.close(handle)


def _carried(pid: int, wanted: Callable[[str], bool]) -> str:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - thousands of them: no Path for each
            environment = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return ""  # gone, or another user's
    _, _, rest = (b"\0" + environment).partition(f"\0{VARIABLE}=".encode())
    marks = rest.partition(b"\0")[0].decode(errors="replace").split()
    return next(filter(wanted, marks), "")


def _name(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "comm").read_text(errors="replace").strip()
    except OSError:
        return "gone"
