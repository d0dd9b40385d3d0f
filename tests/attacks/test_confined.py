"""A token of one run, or of a label: other runs do not exist for it (R13, R34)."""

from __future__ import annotations

import json
from typing import Any

from tests.attacks.thieves import Thief, every_operation, token, until_refused
from tests.server.serving import Server, eventually

from standfast.server.forcing import Named
from standfast.server.rights import ROUTES


def test_a_token_of_another_run_gets_what_a_run_that_is_not_there_would_give(server: Server) -> None:
    mine, other = server.start("counter", "own"), server.start("counter", "hidden", to=5000, seconds=0.4)
    thief = token(server, "view", "pause", "redirect", "cancel", "resolve", "forensics", "operator", run=mine)
    for name, method, path, body in every_operation(other):
        if other not in path:
            continue
        answer = thief.ask(method, path, body)
        absent = thief.ask(method, path.replace(other, "absent"), body)
        assert answer.status_code == absent.status_code == 404, (name, answer.status_code)
        assert answer.text.replace(other, "absent") == absent.text
    assert server.view(other)["status"] in ("queued", "running")
    assert until_refused(server, thief.id, "cancel")["run"] == other
    server.post(f"/api/runs/{other}/cancel")


def test_lists_streams_agents_and_pages_tell_of_no_other_run(server: Server) -> None:
    other = server.start("wedger", "unlisted", how="sleep")
    server.until(other, "running")
    mine = server.start("counter", "listed")  # what it says stands behind what the other has said
    thief = token(server, "view", "forensics", "operator", run=mine)
    assert [run["id"] for run in thief.ask("GET", "/api/runs").json()["runs"]] == [mine]
    assert thief.status("GET", f"/api/runs?before={other}") == 404
    assert thief.status("GET", "/api/runs?before=absent") == 404
    assert [each["name"] for each in thief.ask("GET", "/api/agents").json()["agents"]] == ["counter"]
    assert "workers" not in thief.ask("GET", "/readyz").json()
    server.http.post(f"/api/runs/{other}/resume", json={"if_seq": 10**6})  # refused: an event of the house
    eventually(lambda: other in server.http.get("/api/house").text)
    assert other not in thief.ask("GET", "/api/house").text
    with thief.socket() as page:
        page.say(op="list", filter={})
        assert [run["id"] for run in page.next("runs")["runs"]] == [mine]
        page.say(op="list", n=7, filter={"before": other})
        assert page.next("answer")["problem"]["status"] == 404
        page.say(op="watch", run=other)
        gone = page.next("gone")
        page.say(op="watch", run="absent")
        assert gone["why"].replace(other, "absent") == page.next("gone")["why"]
    assert other in streamed(Thief(server, server.token), mine)
    assert other not in streamed(thief, mine)
    server.post(f"/api/runs/{other}/cancel", status=None)


def streamed(thief: Thief, last: str) -> str:
    """What /api/events tells of all runs from the beginning on."""
    import httpx2  # noqa: PLC0415

    said = ""
    with (
        httpx2.Client(base_url=thief.server.url, headers=thief.headers, timeout=30) as client,
        client.stream("GET", "/api/events", params={"after": 0}) as stream,
    ):
        for part in stream.iter_text():
            said += part
            if f'"run":"{last}"' in said and "run_done" in said.partition(f'"run":"{last}"')[2]:
                return said
    return said


def test_what_a_force_would_kill_is_told_without_a_count_of_other_runs() -> None:
    alone, among_others = (Named("pausing", 3, 17, "worker 1", (), others) for others in ((), ("a", "b")))
    assert alone.text == among_others.text


def test_a_token_of_one_run_makes_no_others(server: Server) -> None:
    mine = server.start("counter", "single")
    server.until(mine, "done")
    thief = token(server, "view", "redirect", run=mine)
    assert thief.status("POST", "/api/runs", {"agent": "counter", "state": {}}) == 403
    assert thief.status("POST", f"/api/runs/{mine}/fork", {}) == 403
    assert thief.status("POST", "/agui/counter", {"threadId": "t", "runId": "new", "messages": []}) == 403
    assert server.http.get("/api/runs/new").status_code == 404


def test_a_token_of_a_label_reaches_these_runs_and_starts_no_others(server: Server) -> None:
    for run, team in (("lab-a", "a"), ("lab-b", "b")):
        server.post("/api/runs", {"agent": "counter", "state": {}, "id": run, "labels": {"team": team}}, status=201)
    thief = token(server, "view", "redirect", labels={"team": "a"})
    assert [run["id"] for run in thief.ask("GET", "/api/runs").json()["runs"]] == ["lab-a"]
    assert thief.status("GET", "/api/runs/lab-b") == 404
    start = {"agent": "counter", "state": {}}
    assert thief.status("POST", "/api/runs", start) == 403
    assert thief.status("POST", "/api/runs", {**start, "labels": {"team": "b"}}) == 403
    assert thief.status("POST", "/api/runs", {**start, "labels": {"team": "a"}, "id": "lab-b"}) == 403
    made = thief.ask("POST", "/api/runs", {**start, "labels": {"team": "a"}}).json()["id"]
    assert thief.status("GET", f"/api/runs/{made}") == 200
    forked = thief.ask("POST", f"/api/runs/{made}/fork", {"at": 0}).json()["id"]
    assert thief.status("GET", f"/api/runs/{forked}") == 200


def test_cancel_without_view_stops_and_shows_nothing(server: Server) -> None:
    run = server.start("counter", "unseen", to=5000, seconds=2.0)
    server.until(run, "running")
    stopper = token(server, "cancel", run=run)
    for name, method, path, body in every_operation(run):
        if ROUTES.get(name) == "view":
            assert stopper.status(method, path, body) == 403, name
    with stopper.socket() as page:
        assert page.hello["agents"] == []
        page.say(op="watch", run=run)
        assert "may not watch" in page.next("gone")["why"]
        page.say(op="list", n=1, filter={})
        assert page.next("answer")["problem"]["status"] == 403
    answer = stopper.ask("POST", f"/api/runs/{run}/cancel", {"reason": "enough"})
    assert answer.status_code == 200
    told: dict[str, Any] = answer.json()
    assert told["answer"] == "accepted"
    assert not told["in_flight"]
    assert not told["note"]
    server.until(run, "cancelled")
    late = stopper.ask("POST", f"/api/runs/{run}/cancel", {})
    assert (late.status_code, late.json()["answer"]) == (409, {"answer": "too_late", "status": "cancelled"})


def test_a_replayed_request_of_another_actor_gets_an_answer_of_its_own(server: Server) -> None:
    """The same idempotency key is another request in another's hand: no answer, no run id, is given away."""
    run = server.start("counter", "replayed", to=5000, seconds=0.4)
    other = server.start("counter", "replayed-too", to=5000, seconds=0.4)
    first = server.post(f"/api/runs/{run}/pause", {}, headers={"Idempotency-Key": "k1"})
    assert server.post(f"/api/runs/{run}/pause", {}, headers={"Idempotency-Key": "k1"}) == first
    thief = token(server, "view", "pause", run=run)
    again = thief.ask("POST", f"/api/runs/{run}/pause", {}, headers={"Idempotency-Key": "k1"})
    assert again.status_code == 200
    assert again.json()["at"] > first["at"]
    server.post(f"/api/runs/{other}/pause", {}, headers={"Idempotency-Key": "k2"})
    fresh = thief.ask("POST", f"/api/runs/{run}/resume", {}, headers={"Idempotency-Key": "k2"})
    assert other not in fresh.text
    assert fresh.status_code == 200
    for one in (run, other):
        server.post(f"/api/runs/{one}/cancel")


def test_a_run_reads_as_json_whatever_names_it_has(server: Server) -> None:
    """A refused attempt keeps what was asked for, at a bounded length, and nothing of it breaks the record."""
    thief = token(server, "view", run=server.start("counter", "plain"))
    odd = "x" * 2000
    assert thief.status("POST", f"/api/runs/{odd}/cancel", {}) == 404
    found = until_refused(server, thief.id, "cancel")
    assert len(found["run"]) == 300
    assert len(json.dumps(found)) < 2000
