"""Killing a process together with everything it has started."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

STOP_WAIT = 0.005  # how long one process may take to stop; in the midst of a system call it may not do so at all


def kill_tree(pid: int) -> list[int]:
    """SIGKILL to `pid`, to the group or session it leads and to all its descendants; the pids that got it.

    `pid` must be a child that nobody has waited for, so that the number still means that process.
    On Linux descendants are found in other groups and sessions too, elsewhere in `pid`'s group only;
    a descendant that left the session and whose parents ended before is beyond reach.
    """
    if pid <= 1 or pid == os.getpid():
        raise ValueError(f"kill_tree({pid}) would kill more than a child")
    leads = _ask(os.getpgid, pid) == pid
    # Stopped before they are killed: a stopped process starts no others, and while its parent
    # lives a descendant can be found.
    _signal(pid, signal.SIGSTOP, group=leads)
    found = {pid}
    if sys.platform == "linux":
        _stop_descendants(pid, found)
        for member in _members(pid):
            if member not in found:
                _stop_descendants(member, found)
    _signal(pid, signal.SIGKILL, group=leads)
    return [each for each in sorted(found) if _signal(each, signal.SIGKILL)]


def _stop_descendants(pid: int, found: set[int]) -> None:
    todo = [pid]
    while todo:
        each = todo.pop()
        found.add(each)
        _signal(each, signal.SIGSTOP)
        _await_stop(each)
        todo.extend(child for child in _children(each) if child not in found)


def _await_stop(pid: int) -> None:
    """Wait until a fork that was under way is over."""
    deadline = time.monotonic() + STOP_WAIT
    while time.monotonic() < deadline:
        stat = _stat(pid)
        if stat is None or stat[0] in (b"T", b"t", b"Z", b"X"):
            return
        time.sleep(0.0001)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - closed by itself, whatever ends
            children += map(int, Path(f"/proc/{pid}/task", thread, "children").read_bytes().split())
    except OSError:  # it has gone; or nobody can look, for want of descriptors: its group is killed all the same
        if _stat(pid) is not None:  # a kernel without these lists
            return [each for each in _all_pids() if (stat := _stat(each)) and int(stat[1]) == pid]
    return children


def _members(pid: int) -> list[int]:
    """Those in the group or session that `pid` leads, whoever their parents are."""
    # asked of the system call: reading /proc takes too long where thousands of processes live
    return [each for each in _all_pids() if pid in (_ask(os.getpgid, each), _ask(os.getsid, each))]


def _all_pids() -> list[int]:
    try:
        return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]
    except OSError:
        return []


def _stat(pid: int) -> list[bytes] | None:
    """State and parent; None if there is no such process, or nobody can look."""
    try:
        stat = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:
        return None
    # "pid (name) state ...": the name may hold spaces and brackets
    return stat[stat.rindex(b")") + 2 :].split(maxsplit=2)[:2]


def _ask(question: Callable[[int], int], pid: int) -> int | None:
    try:
        return question(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _signal(pid: int, number: int, *, group: bool = False) -> bool:
    try:
        (os.killpg if group else os.kill)(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
