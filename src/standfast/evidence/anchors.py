"""Anchors: the hash of each checkpoint kept where whoever can rewrite the store cannot, or is seen to."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shlex
import socket
import subprocess
import threading
import time
from collections import deque
from pathlib import Path
from typing import Protocol

from standfast.errors import AnchorFailed, Misuse

log = logging.getLogger("standfast")

COMMAND_SECONDS = 10.0
RETRY_SECONDS = 1.0
LONGEST_RETRY = 60.0
BACKLOG = 1000  # of an anchor that does not answer; the newest stands for all before it
SYSLOG = "/dev/log"
_AUTHPRIV_NOTICE = 10 * 8 + 5


class Anchor(Protocol):
    """A place outside the store for one line a checkpoint. `put` may take its time, and raises if it did not work."""

    @property
    def name(self) -> str: ...

    def put(self, line: str) -> None: ...


class FileAnchor:
    """A file elsewhere, best on another disk or machine: one line a checkpoint, on disk when `put` returns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name = f"file:{self.path}"

    def put(self, line: str) -> None:
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # of two processes, each writes whole lines
                self._append(descriptor, f"{line}\n".encode())
            finally:
                os.close(descriptor)
        except OSError as error:
            raise AnchorFailed(
                f"{self.path} cannot be written: {error.strerror}", hint="free space, or make its folder writable"
            ) from error

    def _append(self, descriptor: int, content: bytes) -> None:
        before = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)  # no half a line for whoever compares
            raise


class SyslogAnchor:
    """The system's log, which may be kept on another machine."""

    def __init__(self, address: str = SYSLOG) -> None:
        self.address = address
        self.name = "syslog"

    def put(self, line: str) -> None:
        message = f"<{_AUTHPRIV_NOTICE}>standfast[{os.getpid()}]: checkpoint {line}".encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.settimeout(COMMAND_SECONDS)
            try:
                sending.sendto(message, self.address)
            except OSError as error:
                raise AnchorFailed(
                    f"the system's log {self.address} cannot be reached: {error.strerror}", hint="is a syslog running?"
                ) from error


class CommandAnchor:
    """A command of one's own: the line comes as JSON on its standard input; it must end with 0, in time."""

    def __init__(self, command: str, *, seconds: float = COMMAND_SECONDS) -> None:
        self.command = shlex.split(command)
        if not self.command:
            raise Misuse("the command of an anchor is empty", hint="--anchor 'cmd:PROGRAM ARGUMENTS'")
        self.seconds = seconds
        self.name = f"cmd:{self.command[0]}"

    def put(self, line: str) -> None:
        try:
            ended = subprocess.run(
                self.command, input=line.encode(), capture_output=True, timeout=self.seconds, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise AnchorFailed(
                f"{self.command[0]} did not end within {self.seconds:g} s", hint="it was stopped; make it quicker"
            ) from error
        except OSError as error:
            raise AnchorFailed(
                f"{self.command[0]} cannot be started: {error.strerror}", hint="check the command"
            ) from error
        if ended.returncode != 0:
            said = ended.stderr.decode("utf-8", "replace").strip()[-200:]
            raise AnchorFailed(f"{self.command[0]} ended with {ended.returncode}: {said}", hint="it must end with 0")


def anchor_named(text: str) -> Anchor:
    """The anchor that an operator names: file:PATH, syslog or cmd:COMMAND."""
    kind, _, rest = text.partition(":")
    if kind == "file" and rest:
        return FileAnchor(rest)
    if text == "syslog":
        return SyslogAnchor()
    if kind == "cmd" and rest.strip():
        return CommandAnchor(rest)
    raise Misuse(f"there is no anchor {text!r}", hint="give file:PATH, syslog or cmd:COMMAND")


def anchor_line(n: int, at: float, hash_: str) -> str:
    """What an anchor keeps of a checkpoint."""
    return json.dumps({"n": n, "at": at, "hash": hash_}, separators=(",", ":"))


class Anchoring:
    """Tells one anchor of checkpoints, in order, in a thread of its own: one that hangs holds up nobody else."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self.name = anchor.name
        self.last = 0  # the newest checkpoint it holds
        self.trouble = ""
        self._waiting: deque[tuple[int, str]] = deque(maxlen=BACKLOG)
        self._changed = threading.Condition()
        self._ending = False
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        self._ending = False
        self._thread = threading.Thread(target=self._work, name=f"standfast-{self.name}", daemon=True)
        self._thread.start()

    def tell(self, n: int, at: float, hash_: str) -> None:
        """Have a checkpoint anchored soon."""
        with self._changed:
            self._waiting.append((n, anchor_line(n, at, hash_)))
            self._changed.notify_all()

    def close(self, seconds: float) -> None:
        """Give it so long for what waits, then leave it."""
        if self._thread is None:
            return
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(seconds)
        self._thread = None
        if self._waiting:
            log.error(
                "standfast: checkpoint %d was not anchored in %s: %s",
                *(self._waiting[-1][0], self.name, self.trouble or "it does not answer"),
            )

    def _work(self) -> None:
        pause = RETRY_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ending)
                if not self._waiting:
                    return
                n, line = self._waiting[0]
            try:
                self._anchor.put(line)
            except Exception as error:  # noqa: BLE001 - an anchor of somebody's own may raise anything
                self._say(f"{error}")
                if self._ending:
                    return
                self._rest(pause)
                pause = min(pause * 2, LONGEST_RETRY)
            else:
                self._say("")
                pause = RETRY_SECONDS
                with self._changed:
                    self.last = n
                    if self._waiting and self._waiting[0][0] == n:
                        self._waiting.popleft()

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with self._changed:
            self._changed.wait_for(lambda: self._ending, max(0.0, end - time.monotonic()))

    def _say(self, trouble: str) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            if trouble:
                log.error("standfast: anchor %s does not take checkpoints: %s", self.name, trouble)
