"""Tokens end: expired or revoked, they open nothing, and what they had opened is shut (R13, R34)."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2
import pytest
from tests.attacks.thieves import Thief, token, until_refused
from tests.server.serving import LONG, Server, eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus


def revoke(server: Server, thief: Thief) -> None:
    assert thief.id in server.http.delete(f"/api/tokens/{thief.id}").json()["revoked"]


def test_an_expired_token_opens_nothing_and_is_named_in_the_record(server: Server) -> None:
    run = server.start("counter", "expired")
    thief = token(server, "view", run=run, expires="1s", name="bob")
    eventually(lambda: thief.status("GET", f"/api/runs/{run}") == 401)
    answer = thief.ask("GET", f"/api/runs/{run}")
    assert "expired" in answer.json()["detail"]
    assert until_refused(server, thief.id, "enter")["why"] == "this token has expired"
    with pytest.raises(InvalidStatus), thief.socket():
        pass


def test_a_token_revoked_opens_nothing_from_then_on(server: Server) -> None:
    run = server.start("counter", "revoked")
    thief = token(server, "view", run=run)
    assert thief.status("GET", f"/api/runs/{run}") == 200
    revoke(server, thief)
    assert thief.status("GET", f"/api/runs/{run}") == 401
    assert until_refused(server, thief.id, "enter")["why"] == "this token was revoked"


def test_revoking_ends_open_sockets_with_the_reason(server: Server) -> None:
    run = server.start("counter", "watched", to=5000, seconds=0.2)
    thief = token(server, "view", "cancel", run=run)
    with thief.socket() as page:
        page.say(op="watch", run=run)
        page.next("view")
        revoke(server, thief)
        page.say(op="verb", n=1, run=run, verb="cancel", args={})  # at once, before the socket is shut
        said: list[Any] = []
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                said.append(page.read())
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert said[-1] == {"op": "bye", "why": "this token was revoked"}
        problems = [s["problem"]["status"] for s in said if s["op"] == "answer"]
        assert problems in ([401], [])  # refused, or not even read
    assert server.view(run)["status"] == "running"
    server.post(f"/api/runs/{run}/cancel")


@pytest.mark.parametrize("stream", ["events", "all", "agui"])
def test_revoking_ends_open_streams_with_the_reason(server: Server, stream: str) -> None:
    run = server.start("counter", f"streamed-{stream}", to=5000, seconds=0.2)
    thief = token(server, "view", run=run)
    method, path = {
        "events": ("GET", f"/api/runs/{run}/events"),
        "all": ("GET", "/api/events?after=0"),
        "agui": ("POST", f"/agui/runs/{run}"),
    }[stream]
    body = {"threadId": "t", "runId": "x", "messages": []} if stream == "agui" else None
    with (
        httpx2.Client(base_url=server.url, headers=thief.headers, timeout=LONG) as client,
        client.stream(method, path, json=body) as told,
    ):
        assert told.status_code == 200
        lines = told.iter_lines()
        next(lines)
        revoke(server, thief)
        rest = list(lines)  # ends, though the run goes on
    assert "this token was revoked" in "\n".join(rest[-4:])
    assert server.view(run)["status"] == "running"
    server.post(f"/api/runs/{run}/cancel")


def test_a_cookie_counts_no_longer_than_the_token_it_was_given_for(server: Server) -> None:
    run = server.start("counter", "cookied")
    thief = token(server, "view", run=run)
    with httpx2.Client(base_url=server.url, timeout=LONG) as browser:
        assert browser.post("/api/session", json={"token": thief.secret}).status_code == 204
        assert browser.get("/api/me").json()["runs"] == [run]
        assert browser.post(f"/api/runs/{run}/cancel", json={}).status_code == 403
        revoke(server, thief)
        answer = browser.get("/api/me")
        assert answer.status_code == 401
        assert "revoked" in answer.json()["detail"]
        assert browser.post("/api/session", json={"token": thief.secret}).status_code == 401


def test_what_was_made_with_a_token_is_revoked_with_it(server: Server) -> None:
    run = server.start("counter", "family")
    boss = token(server, "operator", "view", run=run)
    made = boss.ask("POST", "/api/tokens", {"rights": ["view"], "run": run}).json()
    child = Thief(server, made["secret"], made["token"]["id"])
    assert child.status("GET", f"/api/runs/{run}") == 200
    revoke(server, boss)
    assert child.status("GET", f"/api/runs/{run}") == 401


def test_a_revoked_token_stays_revoked_over_a_restart(serve: Any) -> None:
    first = serve().ready()
    run = first.start("counter", "r")
    kept, gone = token(first, "view", run=run), token(first, "view", run=run)
    revoke(first, gone)
    first.terminate()
    second = serve().ready()
    assert Thief(second, kept.secret).status("GET", f"/api/runs/{run}") == 200
    assert Thief(second, gone.secret).status("GET", f"/api/runs/{run}") == 401
    assert kept.secret.encode() not in second.store.read_bytes()


def test_what_a_socket_is_told_ends_soon_after_its_token(server: Server) -> None:
    """A limit against hangs, not a measurement."""
    run = server.start("counter", "soon", to=5000, seconds=0.2)
    thief = token(server, "view", run=run, expires="2s")
    began = time.monotonic()
    with thief.socket() as page, pytest.raises(ConnectionClosed):
        page.say(op="watch", run=run)
        while True:
            json.dumps(page.read())
    assert time.monotonic() - began < 30
    server.post(f"/api/runs/{run}/cancel")
