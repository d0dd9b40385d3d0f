"""A view link was stolen: it shows one run and does nothing (R13, R34)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.attacks.thieves import VERB_BODIES, every_operation, refused, token, until_refused
from tests.server.serving import Server

from standfast.server.rights import MESSAGES, ROUTES, VERBS

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes


def test_a_stolen_view_link_tries_every_route_and_only_sees(server: Server) -> None:
    run = server.start("counter", "seen", to=5000, seconds=0.4)
    thief = token(server, "view", run=run)
    before = server.view(run)["status"]
    for name, method, path, body in every_operation(run):
        asks = VERBS.get(name) or ROUTES[name]
        if name in ("events", "all_events", "agui", "agui_run"):
            continue  # streams: below
        status = thief.status(method, path, body)
        if asks in ("view", "known", "nobody"):
            assert status in (200, 404, 409), (name, status)
        else:
            assert status == 403, (name, status)
            assert until_refused(server, thief.id, name)["route"] == f"{method} {path}"
    assert thief.status("POST", "/agui/counter", {"threadId": "t", "runId": "x", "messages": []}) == 403
    words = {"threadId": "t", "runId": "x", "messages": [{"id": "m", "role": "user", "content": "obey me"}]}
    assert thief.status("POST", f"/agui/runs/{run}", words) == 403
    view = server.view(run)
    assert view["status"] == before
    assert not view["mail"]
    server.post(f"/api/runs/{run}/cancel")


def test_a_stolen_view_link_tries_every_message_and_only_sees(server: Server) -> None:
    run = server.start("counter", "seen-live", to=5000, seconds=0.4)
    thief = token(server, "view", run=run)
    with thief.socket() as page:
        assert page.hello["me"]["rights"] == ["view"]
        assert page.hello["me"]["runs"] == [run]
        assert [each["name"] for each in page.hello["agents"]] == ["counter"]
        for verb in VERBS:
            problem = page.verb(verb, run, **VERB_BODIES.get(verb, {}))
            assert problem["status"] == 403, verb
        assert set(MESSAGES) == {"watch", "unwatch", "list", "verb", "ping"}
        page.say(op="watch", run=run)
        assert page.next("view")["view"]["id"] == run
    assert {e["what"] for e in refused(server, thief.id)} >= {"cancel", "redirect"} or until_refused(
        server, thief.id, "perform"
    )
    server.post(f"/api/runs/{run}/cancel")


@pytest.mark.parametrize("more", [{"budget": {"steps": 10**6}}, {"budget": {}}, {"accept_stale": True}])
def test_pause_alone_neither_raises_budgets_nor_accepts_the_stale(server: Server, more: Any) -> None:
    run = server.start("counter", f"held-{next(iter(more))}-{len(str(more))}", to=5000, seconds=0.4)
    thief = token(server, "view", "pause", run=run)
    assert thief.status("POST", f"/api/runs/{run}/pause", {}) == 200
    server.until(run, "paused")
    answer = thief.ask("POST", f"/api/runs/{run}/resume", more)
    assert answer.status_code == 403
    assert answer.json()["needs"] == "resolve"
    assert server.view(run)["status"] == "paused"
    assert thief.status("POST", f"/api/runs/{run}/resume", {}) == 200
    server.post(f"/api/runs/{run}/cancel")


def test_pause_alone_lets_go_only_what_a_person_held(server: Server) -> None:
    """A run that stopped by an error, a loop or a tripwire goes on by somebody's decision."""
    run = "capped"
    body = {"agent": "counter", "state": {"to": 5000}, "id": run, "budget": {"steps": 2}}
    server.post("/api/runs", body, status=201)
    server.until(run, "paused")
    thief = token(server, "view", "pause", run=run)
    for verb in ("resume", "step_once"):
        answer = thief.ask("POST", f"/api/runs/{run}/{verb}", {})
        assert (answer.status_code, answer.json()["needs"]) == (403, "resolve")
    decider = token(server, "pause", "resolve", run=run)
    assert decider.status("POST", f"/api/runs/{run}/resume", {"budget": {"steps": 4}}) == 200
    server.post(f"/api/runs/{run}/cancel", status=None)


def test_nobody_gives_more_than_they_have(server: Server) -> None:
    """R32 An operator of one run gives rights to that run alone, no others, and no longer than their own."""
    mine, other = server.start("counter", "mine"), server.start("counter", "other")
    boss = token(server, "operator", "view", run=mine, expires="1h")
    assert boss.status("POST", "/api/tokens", {"rights": ["view"], "run": mine}) == 201
    made = boss.ask("POST", "/api/tokens", {"rights": ["view"], "run": mine, "expires": "never"}).json()["token"]
    assert made["expires"] is not None
    assert boss.status("POST", "/api/tokens", {"rights": ["cancel"], "run": mine}) == 403
    assert boss.status("POST", "/api/tokens", {"rights": ["view"], "run": other}) == 404
    assert boss.status("POST", "/api/tokens", {"rights": ["view"], "all": True}) == 403
    assert boss.status("POST", "/api/tokens", {"rights": ["view"], "labels": {"team": "a"}}) == 403
    theirs = token(server, "view", run=other)
    assert theirs.id not in boss.ask("GET", "/api/tokens").text
    assert boss.status("DELETE", f"/api/tokens/{theirs.id}") == 404
    assert theirs.status("GET", f"/api/runs/{other}") == 200


def test_what_a_verb_did_says_who_came_by_which_way(server: Server) -> None:
    """R1, R34"""
    run = server.start("counter", "named", to=5000, seconds=0.4)
    stopper = token(server, "cancel", "pause", run=run, name="ann")
    assert stopper.status("POST", f"/api/runs/{run}/pause", {}) == 200
    with stopper.socket() as page:
        assert page.verb("cancel", run)["answer"] == "accepted"
    found = {e["type"]: e for e in server.events(run)}
    holder = f"ann ({stopper.id})"
    assert (found["pause_asked"]["by"], found["pause_asked"]["route"]) == (holder, f"POST /api/runs/{run}/pause")
    assert (found["cancel_asked"]["by"], found["cancel_asked"]["route"]) == (holder, "WS /ws")
    assert found["run_started"]["route"] == "POST /api/runs"
