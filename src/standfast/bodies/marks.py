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
ALL_GONE_WAIT = (
    10.0  # for all of them: some may have to be found that others start meanwhile, on a machine that is busy
)


STARTING_WAIT = 2.0  # for programs in the midst of `exec`: it takes microseconds, but the machine may be busy
PF_EXITING, PF_KTHREAD = 0x4, 0x200000  # of the kernel's flags of a process
STUCK_KEPT = 10_000
_stuck: set[tuple[int, bytes]] = set()  # programs that were waited for in vain, and when they were started


def run_mark(run: str, salt: str) -> str:
    """The first part of the marks of a run. Nobody can guess it who has not seen one; ids alone are not unique."""
    return _digest(f"{run}\0{salt}")


def call_mark(run: str, call: str, driver: str, *, beside: bool = False) -> str:
    """The mark of a call; `run` is a mark itself."""
    return f"{run}.{BESIDE if beside else ''}{_digest(call)}.{_digest(driver)}"


def step_mark(run: str, step: int, driver: str) -> str:
    """The mark of what the own code of a step starts, outside its calls."""
    return call_mark(run, f"step {step}", driver)


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
    todo = [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit() and int(entry.name) != os.getpid()]
    latest = time.monotonic() + STARTING_WAIT
    while todo:
        last = time.monotonic() > latest  # this look began when the time was up: whoever looks may be slow too
        starting: dict[int, bytes] = {}
        for pid in todo:
            environment = _environment(pid)
            if environment == b"":
                if since := _is_starting(pid):
                    starting[pid] = since
                    continue
                environment = _environment(pid)  # it may have come out of `exec` between the two looks
            if environment and (mark := _mark_in(environment, wanted)):
                found[pid] = mark
        if last:
            if len(_stuck) > STUCK_KEPT:
                _stuck.clear()
            _stuck.update(starting.items())
            break
        todo = [pid for pid, since in starting.items() if (pid, since) not in _stuck]
        if todo:
            time.sleep(FIRST_PAUSE)
    return found


def end_carriers(wanted: Callable[[str], bool]) -> dict[int, str]:
    """SIGKILL to those processes, their sessions and descendants, until there are none; those that do not vanish.

    A process counts as one that does not vanish if it is there after it was killed, and nothing has changed for a
    while. So programs that start others all the time, and a machine that is slow to look or to let them die, take
    longer, up to a limit that holds for whatever they do.
    """
    latest = time.monotonic() + ALL_GONE_WAIT
    deadline = latest
    pause = FIRST_PAUSE
    before: set[int] = set()
    while left := carriers(wanted):
        now = time.monotonic()
        if left.keys() != before:
            before, deadline = set(left), min(now + GONE_WAIT, latest)
        elif now > deadline:
            break
        for pid in left:  # all of them first: while one is killed with its tree, the others start no more
            _send(pid, wanted, _stop)
        for pid in left:
            _send(pid, wanted, _kill)
        if now > latest:
            return carriers(wanted)
        time.sleep(pause)
        pause = min(2 * pause, LAST_PAUSE)
    return left


def names(pids: Mapping[int, str]) -> str:
    """Processes as people know them; without arguments, which may hold secrets."""
    return ", ".join(f"process {pid} ({_name(pid)})" for pid in sorted(pids))


def _send(pid: int, wanted: Callable[[str], bool], act: Callable[[int, int], None]) -> None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return  # it has gone; or is killed by the next look, if it was out of descriptors
    try:
        if _carried(pid, wanted):  # looked at again behind the handle: the number may be another's by now
            act(pid, handle)
    except OSError:
        pass  # it has gone, or is not ours to kill: the next look tells
    finally:
        os.close(handle)


def _stop(_: int, handle: int) -> None:
    signal.pidfd_send_signal(handle, signal.SIGSTOP)


def _kill(pid: int, handle: int) -> None:
    signal.pidfd_send_signal(handle, signal.SIGSTOP)  # from here on the number stays this process's own
    kill_tree(pid)


def _carried(pid: int, wanted: Callable[[str], bool]) -> str:
    return _mark_in(_environment(pid) or b"", wanted)


def _mark_in(environment: bytes, wanted: Callable[[str], bool]) -> str:
    _, _, rest = (b"\0" + environment).partition(f"\0{VARIABLE}=".encode())
    marks = rest.partition(b"\0")[0].decode(errors="replace").split()
    return next(filter(wanted, marks), "")


def _environment(pid: int) -> bytes | None:
    """None if it has gone, or is another user's."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - thousands of them: no Path for each
            return file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _is_starting(pid: int) -> bytes:
    """When a program was started that is in the midst of `exec`: its environment is not there yet.

    Empty for those that have none, for those that end, and for threads of the kernel.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - as above
            stat = file.read()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""
    fields = stat[stat.rindex(b")") + 2 :].split()
    state, flags, since, end_of_environment = fields[0], int(fields[6]), fields[19], int(fields[48])
    lives = state not in (b"Z", b"X", b"x") and not flags & (PF_EXITING | PF_KTHREAD)
    return since if lives and not end_of_environment else b""


def _name(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "comm").read_text(errors="replace").strip()
    except OSError:
        return "gone"
