"""What worker and control process say to each other: JSON lines over a socket of their own.

The worker never waits for the control process: what does not fit is dropped, because everything
that counts is in the store.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from standfast.events import TextDelta
from standfast.records import Channel

NO_AGENTS = 78  # how a worker ends that cannot load its agents
NO_STORE = 74  # and one that cannot use the store: another may, once the disk has room
BEAT_SECONDS = 0.25
BATCH_SECONDS = 0.02
MOST_WAITING = 5_000  # deltas
LONGEST_LINE = 4_000_000


class Speaker:
    """The worker's end: a thread that sends beats and live text, and hears when the control process is gone."""

    def __init__(self, fd: int, *, alive: Callable[[], Any], gone: Callable[[], None]) -> None:
        os.set_inheritable(fd, False)  # what tools start must not keep the line open
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self._alive = alive
        self._gone = gone
        self._deltas: deque[tuple[str, TextDelta]] = deque(maxlen=MOST_WAITING)
        self._urgent: deque[dict[str, Any]] = deque()
        self._pending = b""
        self._news = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._speak, name="standfast-speaker", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def say(self, message: dict[str, Any]) -> None:
        """Something that must arrive."""
        self._urgent.append(message)
        self._news.set()

    def delta(self, run: str, delta: TextDelta) -> None:
        """Live text: sent soon, or dropped."""
        self._deltas.append((run, delta))
        self._news.set()

    def close(self) -> None:
        """Nothing more is said than what was said before this."""
        self._closed = True
        self._news.set()
        self._thread.join(2)
        self._socket.close()

    def _speak(self) -> None:
        beat_at = 0.0
        closing = False
        while not closing:
            closing = self._closed
            self._news.wait(BEAT_SECONDS)
            self._news.clear()
            lines: list[dict[str, Any]] = []
            while self._urgent:
                lines.append(self._urgent.popleft())
            if not self._pending:
                lines += batched(self._deltas)
            now = time.monotonic()
            if now - beat_at >= BEAT_SECONDS:
                beat_at = now
                lines.append({"beat": self._alive()})
            self._pending += b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
            if not self._send():
                self._gone()
                return
            time.sleep(BATCH_SECONDS)

    def _send(self) -> bool:
        """As much as fits just now; False if there is nobody at the other end."""
        try:
            readable, _, _ = select.select([self._socket], [], [], 0)
            if readable and not self._socket.recv(4096):
                return False
            if self._pending:
                sent = self._socket.send(self._pending)
                self._pending = self._pending[sent:]
        except BlockingIOError:
            if len(self._pending) > LONGEST_LINE:
                self._pending = self._pending[: self._pending.find(b"\n") + 1]  # only the line that was begun
        except OSError:
            return False
        return True


def batched(deltas: deque[tuple[str, TextDelta]]) -> list[dict[str, Any]]:
    """Text of one call that was said in a row becomes one piece."""
    found: list[tuple[tuple[str, str, str, int, int], int, list[str]]] = []
    while deltas:
        run, delta = deltas.popleft()
        said_by = (run, delta.call_id, delta.channel, delta.attempt, delta.take)
        last = found[-1] if found else None
        if last is not None and last[0] == said_by and last[1] + sum(map(len, last[2])) == delta.offset:
            last[2].append(delta.text)
        else:
            found.append((said_by, delta.offset, [delta.text]))
    return [{"delta": [*said_by, offset, "".join(text)]} for said_by, offset, text in found]


def delta_of(said: list[Any]) -> tuple[str, TextDelta]:
    """A delta as it came over the line."""
    run, call, channel, attempt, take, offset, text = said
    delta = TextDelta(str(call), int(offset), str(text), cast("Channel", channel), attempt=int(attempt), take=int(take))
    return str(run), delta
