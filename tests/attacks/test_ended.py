"""Tokens end: expired or revoked, they open nothing, and what they had opened is shut (R13, R34)."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from tests.attacks.thieves import Thief, token, until_refused
from tests.server.serving import LONG, Server, eventually
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes


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


def test_no_token_made_while_its_parent_is_being_revoked_counts_afterwards(server: Server) -> None:
    """Eight clients make tokens with one that a ninth revokes meanwhile (R13, R34)."""
    run = server.start("counter", "raced")
    made: list[dict[str, Any]] = []
    refused: list[int] = []
    for _ in range(12):
        boss = token(server, "operator", "view", run=run)
        some_made, revoked = threading.Event(), threading.Event()

        def make(boss: Thief = boss, some: threading.Event = some_made, revoked: threading.Event = revoked) -> None:
            with httpx2.Client(base_url=server.url, headers=boss.headers, timeout=LONG) as client:
                while True:
                    last = revoked.is_set()
                    answer = client.post("/api/tokens", json={"rights": ["view"], "run": run})
                    if answer.status_code == 201:
                        made.append(answer.json())
                        some.set()
                    elif answer.status_code != 429:
                        refused.append(answer.status_code)
                    if last or answer.status_code == 401:
                        return

        with ThreadPoolExecutor(8) as makers:
            making = [makers.submit(make) for _ in range(8)]
            assert some_made.wait(LONG)
            revoke(server, boss)
            revoked.set()
            for each in making:
                each.result()
    counting = [one["token"]["id"] for one in made if Thief(server, one["secret"]).status("GET", "/api/me") < 400]
    assert counting == [], f"{len(counting)} of {len(made)} count though what they were made with was revoked"
    assert set(refused) <= {401}


def test_a_token_made_with_one_that_has_ended_opens_no_stream_and_ends_those_it_had(server: Server) -> None:
    run = server.start("counter", "grandchild", to=5000, seconds=0.2)
    boss = token(server, "operator", "view", run=run)
    lead = _made_with(boss, ["operator", "view"], run)
    guest = _made_with(lead, ["view"], run)
    with guest.socket() as page:
        page.say(op="watch", run=run)
        page.next("view")
        revoke(server, boss)
        with pytest.raises(ConnectionClosed):
            while True:
                page.read()
    assert guest.status("GET", f"/api/runs/{run}/events") == 401
    server.post(f"/api/runs/{run}/cancel")


def test_a_confined_operator_revokes_what_it_made_and_nothing_else(server: Server) -> None:
    """Neither somebody else's right to stop the run, nor what it was given its own right with (R13, R34)."""
    run = server.start("counter", "confined-revoking")
    boss = token(server, "operator", "view", "cancel", run=run, name="boss")
    guard = token(server, "cancel", run=run, name="guard")
    lead = _made_with(boss, ["operator", "view"], run)
    peer = _made_with(boss, ["operator", "view", "cancel"], run)
    guest = _made_with(lead, ["operator", "view"], run)
    theirs = _made_with(guest, ["view"], run)
    shown = {one["id"]: one["revocable"] for one in lead.ask("GET", "/api/tokens").json()["tokens"]}
    assert shown == {boss.id: False, guard.id: False, peer.id: False, lead.id: True, guest.id: True, theirs.id: True}
    for other in (boss, guard, peer):
        answer = lead.ask("DELETE", f"/api/tokens/{other.id}")
        assert (answer.status_code, other.status("GET", "/api/me")) == (403, 200), other.id
        assert "did not make" in answer.json()["detail"]
    assert until_refused(server, lead.id, "revoke_token")
    assert lead.ask("DELETE", f"/api/tokens/{theirs.id}").json() == {"revoked": [theirs.id]}
    assert lead.ask("DELETE", f"/api/tokens/{guest.id}").json() == {"revoked": [guest.id]}
    assert lead.ask("DELETE", f"/api/tokens/{lead.id}").json() == {"revoked": [lead.id]}
    assert boss.ask("DELETE", f"/api/tokens/{peer.id}").json() == {"revoked": [peer.id]}
    assert server.http.delete(f"/api/tokens/{guard.id}").json() == {"revoked": [guard.id]}


def _made_with(thief: Thief, rights: list[str], run: str) -> Thief:
    made = thief.ask("POST", "/api/tokens", {"rights": rights, "run": run}).json()
    return Thief(thief.server, made["secret"], made["token"]["id"])


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
