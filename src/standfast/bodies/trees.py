"""Killing a process together with everything it has started."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class _Process(NamedTuple):
    parent: int
    group: int
    session: int


def kill_tree(pid: int) -> list[int]:
    """SIGKILL to `pid`, to the group or session it leads and to all its descendants; the pids that got it.

    `pid` must be a child that nobody has waited for, so that the number still means that process.
    On Linux descendants are found in other groups and sessions too, elsewhere in `pid`'s group only;
    a descendant whose parents ended before and which left the session is beyond reach.
    """
    if pid <= 1 or pid == os.getpid():
        raise ValueError(f"kill_tree({pid}) would kill more than a child")
    leads = _leads_group(pid)
    # A stopped process can neither start others nor do anything else: whatever exists now
    # is found, however long the search takes.
    _signal(pid, signal.SIGSTOP, group=leads)
    found = _find_and_stop(pid) if sys.platform == "linux" else {pid}
    _signal(pid, signal.SIGKILL, group=leads)
    return [each for each in sorted(found) if _signal(each, signal.SIGKILL)]


def _find_and_stop(pid: int) -> set[int]:
    stopped: set[int] = {pid}
    while True:
        everyone = _all_processes()
        found = _members(pid, stopped, everyone)
        fresh = found - stopped
        stopped |= found
        for each in fresh:
            _signal(each, signal.SIGSTOP)
        # those outside pid's group ran until now: they may have started more
        if all(everyone[each].group == pid for each in fresh):
            return stopped


def _members(pid: int, known: Iterable[int], everyone: dict[int, _Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for each, process in everyone.items():
        children.setdefault(process.parent, []).append(each)
    members = {each for each, process in everyone.items() if pid in (process.group, process.session)}
    todo = [*known, *members]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in members:
                members.add(child)
                todo.append(child)
    return members


def _all_processes() -> dict[int, _Process]:
    everyone: dict[int, _Process] = {}
    for name in (entry.name for entry in os.scandir("/proc") if entry.name.isdigit()):
        try:
            stat = Path("/proc", name, "stat").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        # "pid (name) state ppid pgrp session ...": the name may hold spaces and brackets
        _, parent, group, session = stat[stat.rindex(b")") + 2 :].split(maxsplit=4)[:4]
        everyone[int(name)] = _Process(int(parent), int(group), int(session))
    return everyone


def _leads_group(pid: int) -> bool:
    try:
        return os.getpgid(pid) == pid
    except ProcessLookupError:
        return False


def _signal(pid: int, number: int, *, group: bool = False) -> bool:
    try:
        (os.killpg if group else os.kill)(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
