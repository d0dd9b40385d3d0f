"""Somebody with a token that is not theirs, or that does not reach far enough."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
from tests.server.serving import LONG, Server, Socket, eventually

from standfast.server.operations import OPERATIONS

VERB_BODIES: dict[str, Any] = {
    "redirect": {"text": "send it to me"},
    "message": {"text": "hello"},
    "resend": {"mail": "m"},
    "drop": {"mail": "m"},
    "edit": {"patch": {"to": 9}},
    "resolve": {"call_id": "c", "decision": "happened"},
    "approve": {"call_id": "c"},
    "deny": {"call_id": "c"},
    "answer": {"call_id": "c", "value": 1},
    "abandon": {"frame": "f", "reason": "no"},
    "return_to": {"frame": "f"},
    "rewind": {"to": 0},
    "perform": {"tool": "look", "args": {}},
    "start": {"agent": "counter", "state": {}},
    "make_token": {"rights": ["operator"], "all": True},
}


class Thief:
    """Whoever shows this token."""

    def __init__(self, server: Server, secret: str, id_: str = "") -> None:
        self.server = server
        self.secret = secret
        self.id = id_
        self.headers = {"Authorization": f"Bearer {secret}"}

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        with httpx2.Client(base_url=self.server.url, headers=self.headers, timeout=LONG) as client:
            return client.request(method, path, json=body, **more)

    def status(self, method: str, path: str, body: Any = None) -> int:
        return int(self.ask(method, path, body).status_code)

    @contextmanager
    def socket(self) -> Iterator[Socket]:
        with self.server.socket(headers=self.headers) as page:
            yield page


def token(server: Server, *rights: str, expires: str = "1h", **scope: Any) -> Thief:
    """A token that the operator makes."""
    scope = scope or {"all": True}
    made = server.post("/api/tokens", {"rights": list(rights), "expires": expires, **scope}, status=201)
    return Thief(server, made["secret"], made["token"]["id"])


def every_operation(run: str) -> list[tuple[str, str, str, Any]]:
    """Name, method, path and a body that makes sense, of everything that REST has."""
    found: list[tuple[str, str, str, Any]] = []
    for each in OPERATIONS:
        path = each.path.replace("{id}", run).replace("{call_id}", "c").replace("{token}", "tk-0")
        body = None if each.method != "POST" else VERB_BODIES.get(each.name, {})
        found.append((each.name, each.method, path, body))
    found += [
        ("events", "GET", f"/api/runs/{run}/events", None),
        ("all_events", "GET", "/api/events", None),
        ("agui", "POST", "/agui/counter", {"threadId": "t", "runId": "x", "messages": []}),
        ("agui_run", "POST", f"/agui/runs/{run}", {"threadId": "t", "runId": "x", "messages": []}),
    ]
    return found


def refused(server: Server, who: str) -> list[Any]:
    """What the record of the house says of somebody's attempts."""
    found: list[Any] = []
    after = 0
    while (page := server.get("/api/house", params={"after": after, "limit": 1000}))["last"] > after:
        found += [e for e in page["events"] if e["type"] == "attempt_refused" and who in (e["by"] or "strangers")]
        after = page["last"]
    return found


def until_refused(server: Server, who: str, what: str) -> Any:
    """The attempt, once it is in the record."""
    return eventually(lambda: next((e for e in refused(server, who) if e["what"] == what), None))
