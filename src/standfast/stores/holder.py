"""The process that keeps the store locked: what it is, and whether it moves. Named, never killed from here (R34)."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

WORD_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds SQLite's write lock, as far as the system tells."""

    pid: int | None
    work: str = ""  # the program, and which of our commands it is; no arguments: they may hold secrets
    stopped: bool = False

    @property
    def text(self) -> str:
        """In words."""
        if self.pid is None:
            return "another process"
        if self.pid == os.getpid():
            return f"this process ({self.pid})"
        return f"process {self.pid}" + (f" ({self.work})" if self.work else "")

    @property
    def hint(self) -> str:
        """What to do: only who does not move is to be ended."""
        if self.pid is None:
            return "try again; if it stays locked, another process may be frozen: continue it or kill it"
        if self.stopped:
            return f"process {self.pid} is stopped: continue it (kill -CONT {self.pid}) or kill it"
        return f"try again: it is at work; if it stays locked, see what process {self.pid} is doing"


def holder(pid: int | None) -> Holder:
    """What is known of a process that holds the lock."""
    return Holder(None) if pid is None else Holder(pid, _work(pid), _is_stopped(pid))


def _work(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    named = _program(words)
    ours = named[:1] in (["standfast"], ["standfast.cli"], ["standfast.server"])
    return " ".join(word[:WORD_SHOWN] for word in (named[:2] if ours else named[:1]))


def _program(words: list[str]) -> list[str]:
    """The module or script that runs, and what follows it."""
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1 :]
    if "-c" in words[1:] and all(word.startswith("-") for word in words[1 : words.index("-c", 1)]):
        return [Path(words[0]).name, "-c"]  # not the code: it may hold anything
    script = next((n for n, word in enumerate(words[1:], 1) if word and not word.startswith("-")), 0)
    return [Path(words[script]).name, *words[script + 1 :]]


def _is_stopped(pid: int) -> bool:
    """As SIGSTOP leaves it, where the system tells."""
    fields = _stat(pid)
    return bool(fields) and fields[0] in "Tt"


def trace_of_work(pid: int | None) -> tuple[object, ...]:
    """Differs from one look to the next while the holder computes, waits for the disk, or is another one.

    On a busy machine who computes may wait long for a processor: it is at work all the same.
    """
    fields = [] if pid is None else _stat(pid)
    if not fields:
        return (pid,)
    if fields[0] in "DR":
        return pid, time.monotonic()
    return pid, *fields[11:13]  # the processor time of all its threads


def _stat(pid: int) -> list[str]:
    """What the system tells of a process, from its state on."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return []
    return stat.rpartition(")")[2].split()
