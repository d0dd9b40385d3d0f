"""Real clients of a server that keep what they were given."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from tests.server.serving import LONG, Server
from websockets.sync.client import ClientConnection, connect


class Heard:
    """What a client was given of the text of a run's calls, by call."""

    def __init__(self) -> None:
        self.texts: dict[str, dict[int, str]] = {}
        self.types: list[str] = []

    def take(self, said: dict[str, Any]) -> None:
        """An event or live text."""
        self.types.append(str(said.get("type", "text_delta")))
        if self.types[-1] in ("text_delta", "text_flushed") and said["channel"] == "text":
            kept = self.texts.setdefault(str(said.get("call_id") or said["call"]), {})
            kept.update(enumerate(said["text"], said["offset"]))

    @property
    def text(self) -> str:
        """Of the one call that spoke; there must be no gap in it."""
        if not self.texts:
            return ""
        (kept,) = self.texts.values()
        assert sorted(kept) == list(range(len(kept)))
        return "".join(kept[at] for at in sorted(kept))


class Page(Heard):
    """A page's socket; `next` is what it reads, one message after the other."""

    def __init__(self, raw: ClientConnection, run: str) -> None:
        super().__init__()
        self.raw = raw
        self.raw.send(json.dumps({"op": "watch", "run": run, "after": 0}))

    def next(self) -> None:
        said = json.loads(self.raw.recv(timeout=LONG))
        if said["op"] in ("event", "delta"):
            self.take(said[said["op"]])

    def until_text(self, text: str) -> None:
        while text not in self.text:
            self.next()

    def until(self, kind: str) -> None:
        while kind not in self.types:
            self.next()


@contextmanager
def page(server: Server, run: str, program: str) -> Iterator[Page]:
    """A page until the end of the block."""
    headers = {"Authorization": f"Bearer {server.token}"}
    url = server.url.replace("http", "ws", 1) + "/ws"
    # a page that does not read is not waited for when it goes
    with connect(url, additional_headers=headers, user_agent_header=program, close_timeout=0.5) as raw:
        yield Page(raw, run)


class Agui(threading.Thread):
    """An AG-UI client that starts a run, and keeps the text of its messages."""

    def __init__(self, server: Server, agent: str, run: str, text: str, program: str) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._agent = agent
        message = {"id": f"m-{run}", "role": "user", "content": text}
        self._body = {"threadId": f"t-{run}", "runId": run, "state": None, "messages": [message], "tools": []}
        self._body |= {"context": [], "forwardedProps": {}}
        self._headers = {"Authorization": f"Bearer {server.token}", "User-Agent": program}
        self.text = ""
        self.start()

    def run(self) -> None:
        with (
            httpx2.Client(base_url=self._server.url, headers=self._headers, timeout=LONG) as http,
            http.stream("POST", f"/agui/{self._agent}", json=self._body) as answer,
        ):
            for line in answer.iter_lines():
                said = json.loads(line[6:]) if line.startswith("data: ") else {}
                if said.get("type") == "TEXT_MESSAGE_CONTENT":
                    self.text += said["delta"]


class Listening(Heard, threading.Thread):
    """Reads a stream of server-sent events to its end, or until `last` was heard."""

    def __init__(self, server: Server, path: str, program: str, last: str = "") -> None:
        Heard.__init__(self)
        threading.Thread.__init__(self, daemon=True)
        self._server = server
        self._path = path
        self._headers = {"Authorization": f"Bearer {server.token}", "User-Agent": program}
        self._last = last
        self.start()

    def run(self) -> None:
        with (
            httpx2.Client(base_url=self._server.url, headers=self._headers, timeout=LONG) as http,
            http.stream("GET", self._path) as answer,
        ):
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    self.take(json.loads(line[6:]))
                if self._last and self._last in self.types:
                    return
