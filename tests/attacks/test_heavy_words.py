"""Words that were made to be slow to search keep nobody from stopping anything (R32, R34)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.attacks.thieves import Thief, token
from tests.halt.operating import typed
from tests.server.serving import LONG, Server, eventually

SOON = 10.0  # seconds, on a busy machine; behind one such message a stop waited for half a minute
HEAVY = {
    "beginnings of a token": "-eyJ" * 50_000,
    "beginnings of addresses": "://a:" * 40_000,
    "secrets": "sk-aaaaaaaaaaaaaaaa " * 10_000,
    "keys without an end": "-----BEGIN PRIVATE KEY-----" * 7_000,
}


class Guest:
    """Sends the same words again and again, with a right to nothing else."""

    def __init__(self, thief: Thief, run: str, text: str) -> None:
        self._thief, self._run, self._text = thief, run, text
        self._stop = threading.Event()
        self.sent = 0

    @contextmanager
    def talking(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._talk) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: self.sent)
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(LONG)

    def _talk(self) -> None:
        while not self._stop.is_set():
            answer = self._thief.ask("POST", f"/api/runs/{self._run}/message", {"text": self._text})
            assert answer.status_code in (200, 202, 409, 429), answer.text
            self.sent += 1


FIRST, *OTHERS = HEAVY


@pytest.mark.parametrize("words", [FIRST, *(pytest.param(one, marks=pytest.mark.more) for one in OTHERS)])
def test_a_guest_who_may_only_send_messages_delays_no_stop(serve: Callable[..., Server], words: str) -> None:
    """A cancel of another run, and a halt of everything by the operator, while heavy messages come without a pause."""
    server = serve("--workers", "1").ready()
    told = server.start("counter", "told", to=100_000, seconds=0.05)
    other = server.start("counter", "other", to=100_000, seconds=0.05)
    guest = Guest(token(server, "redirect", run=told), told, HEAVY[words])
    with guest.talking():
        asked = time.monotonic()
        server.post(f"/api/runs/{other}/cancel", {"reason": "enough"})
        cancelled = time.monotonic() - asked
        asked = time.monotonic()
        typed("halt", "--all", "--reason", "enough", "--store", str(server.store))
        halted = time.monotonic() - asked
    assert cancelled < SOON
    assert halted < 2 * SOON  # a process that is started first
    eventually(lambda: server.get(f"/api/runs/{other}")["status"] == "cancelled")
    assert guest.sent
