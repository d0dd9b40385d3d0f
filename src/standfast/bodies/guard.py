"""The guard of this process, as seen from here: a process that outlives this one for as long as it takes."""

from __future__ import annotations

import atexit
import contextvars
import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

from standfast.bodies.marks import CAN_BE_READ

log = logging.getLogger("standfast")

END_WAIT = 2.0  # how long the end of this process waits for its guard
# The packages without their __init__, which would import everything: a guard is small, and ready soon.
START = """
import sys, types
for name, folder in (("standfast", sys.argv[1]), ("standfast.bodies", sys.argv[2])):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from standfast.bodies.guard_main import main
main()
"""


class Guard:
    """Programs of calls that are open here end with this process, whatever ends it. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._open: dict[str, set[int]] = {}  # marks of calls, and the groups of their programs that run now

    @property
    def marks(self) -> set[str]:
        """Calls that have started programs and have not ended."""
        with self._lock:
            return set(self._open)

    def open(self, mark: str) -> None:
        """A call is about to start its first program."""
        with self._lock:
            self._open.setdefault(mark, set())
            self._tell(f"open {mark}")

    def close(self, mark: str) -> None:
        """The call has ended: what it left running is no longer its own."""
        with self._lock:
            if self._open.pop(mark, None) is not None:
                self._tell(f"close {mark}")

    def group(self, mark: str, pid: int) -> None:
        """A program leads a group, by which it is found where marks cannot be read."""
        with self._lock:
            if mark in self._open and not CAN_BE_READ:
                self._open[mark].add(pid)
                self._tell(f"group {mark} {pid}")

    def ungroup(self, mark: str, pid: int) -> None:
        """The program is about to be reaped: its number will be another's."""
        with self._lock:
            if pid in self._open.get(mark, ()):
                self._open[mark].discard(pid)
                self._tell(f"ungroup {mark} {pid}")

    def end(self) -> None:
        """Let the guard do its work now, as at the end of this process."""
        with self._lock:
            process = self._drop()
        if process is not None:
            try:
                process.wait(END_WAIT)
            except subprocess.TimeoutExpired:
                log.warning("standfast: programs of this process could not be ended within %g s", END_WAIT)

    def forget(self) -> None:
        """In a fork: the guard is the parent's, and must not wait for us too."""
        self._lock = threading.Lock()
        process = self._drop()
        if process is not None:
            process.returncode = 0  # not ours to wait for
        self._open = {}

    def _drop(self) -> subprocess.Popen[bytes] | None:
        if self._pipe >= 0:
            os.close(self._pipe)
        process, self._process, self._pipe = self._process, None, -1
        return process

    def _tell(self, line: str) -> None:
        if self._pipe >= 0 and self._wrote(line):
            return
        if self._open:  # the first call, or the guard was killed: a new one is told everything
            self._replace()

    def _replace(self) -> None:
        old = self._drop()
        if old is not None:
            old.kill()
            old.wait()
        try:
            self._start()
        except OSError as error:
            log.warning("standfast: no guard could be started, programs may outlive this process: %s", error)
            return
        for mark, groups in self._open.items():
            for line in (f"open {mark}", *(f"group {mark} {group}" for group in groups)):
                self._wrote(line)

    def _start(self) -> None:
        theirs, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)  # a guard that is stopped must not stop us
        here = Path(__file__).parent
        words = f"standfast: ends the programs of process {os.getpid()} with it"
        try:
            self._process = contextvars.Context().run(  # it is nobody's program: no stop ends it
                subprocess.Popen[bytes],
                [sys.executable, "-I", "-S", "-c", START, str(here.parent), str(here), words],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # what a terminal sends is not for it
            )
        except OSError:
            self._drop()
            raise
        finally:
            os.close(theirs)

    def _wrote(self, line: str) -> bool:
        try:
            os.write(self._pipe, f"{line}\n".encode())
        except OSError:  # it is dead, or stopped for so long that its pipe is full
            return False
        return True


guard = Guard()
atexit.register(guard.end)
os.register_at_fork(after_in_child=guard.forget)
