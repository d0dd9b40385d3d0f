"""The guard of a process: when that ends, however it does, programs of its calls in flight are killed.

It is told on stdin which calls have programs; the end of stdin is the end of the process. The standard library and
what is beside this file are all it may use: it is started before a first program, and lives as long as its process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterable

from standfast.bodies.marks import CAN_BE_READ, end_carriers

LOOKS = (0.0, 0.05, 0.5)  # a program that was just being started carries its mark a moment later


def main() -> None:
    """Until stdin ends; then until nothing of the calls named there is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # what is meant for the process must not reach its guard first
    calls: dict[str, set[int]] = {}
    for line in sys.stdin:
        hear(line.split(), calls)
    if not calls:
        return
    for pause in LOOKS:
        time.sleep(pause)
        end_carriers(calls.__contains__)
        if not CAN_BE_READ:
            end_groups(group for groups in calls.values() for group in groups)


def hear(words: list[str], calls: dict[str, set[int]]) -> None:
    """One line: "open MARK", "close MARK", "group MARK PID" or "ungroup MARK PID"."""
    match words:
        case ["open", mark]:
            calls.setdefault(mark, set())
        case ["close", mark]:
            calls.pop(mark, None)
        case ["group", mark, group]:
            calls.setdefault(mark, set()).add(int(group))
        case ["ungroup", mark, group]:
            calls.get(mark, set()).discard(int(group))
        case _:
            pass  # half a line: the process was killed while it wrote


def end_groups(groups: Iterable[int]) -> None:
    """Where marks cannot be read: the group of each program that was running."""
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass  # it has gone
