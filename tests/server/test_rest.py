"""REST: every verb, its answers, and what is told when it makes no sense (R1, R11)."""

from __future__ import annotations

import concurrent.futures
import uuid
from typing import Any

import pytest
from tests.programs.served import AGENTS
from tests.server.serving import Server, eventually


def new_id() -> str:
    return f"r-{uuid.uuid4().hex[:12]}"


def test_a_run_is_started_watched_and_finished_over_rest(server: Server) -> None:
    """R1."""
    run = new_id()
    answer = server.http.post(
        "/api/runs", json={"agent": "counter", "state": {"to": 2}, "id": run, "labels": {"of": run}}
    )
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/api/runs/{run}"
    assert answer.json()["status"] in ("queued", "running")  # a worker may have been quicker than the answer
    assert server.until(run, "done")["step"] == 2
    assert server.get(f"/api/runs/{run}/result") == {"run": run, "status": "done", "result": 2, "error": ""}
    assert server.get(f"/api/runs/{run}/state", params={"step": 1}) == {"to": 2, "seconds": 0.0, "at": 1}
    assert [said["text"].split()[0] for said in server.get(f"/api/runs/{run}/transcript")["transcript"]] == [
        "looking"
    ] * 2
    assert [view["id"] for view in server.get("/api/runs", params={"label": f"of:{run}"})["runs"]] == [run]
    events = server.events(run)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[0]["by"] == "operator"


def test_agents_are_told_with_their_schemas(server: Server) -> None:
    agents = {agent["name"]: agent for agent in server.get("/api/agents")["agents"]}
    assert agents.keys() == {agent.name for agent in AGENTS}
    assert agents["counter"]["description"] == "Counts, one number a step."
    assert agents["counter"]["schema"]["properties"]["to"]["default"] == 3
    tools = {tool["name"]: tool for tool in agents["shop"]["tools"]}
    assert tools.keys() == {"pack", "send"}, "what only a step can ask for is no tool of a person (R24)"
    assert tools["send"]["effect"] == "irreversible"
    assert tools["send"]["schema"]["required"] == ["item"]
    assert agents["writer"]["text_field"] == "task"
    assert agents["shop"]["plan"] == [["ask-for-a-note", "Ask for a note"], ["send-the-parcel", "Send the parcel"]]


def test_pause_redirect_message_edit_resume_and_cancel_over_rest(server: Server) -> None:
    """R1: each is recorded as what it is, with who and why."""
    run = server.start("counter", new_id(), to=50, seconds=0.2)
    assert server.post(f"/api/runs/{run}/pause", {"reason": "lunch"})["answer"] == "accepted"
    server.until(run, "paused")
    assert server.post(f"/api/runs/{run}/edit", {"patch": {"to": 40}})["note"] == "to: 50 -> 40"
    assert server.post(f"/api/runs/{run}/message", {"text": "hello", "when": "later"})["mail"]
    assert server.post(f"/api/runs/{run}/redirect", {"text": "count slower", "when": "next"})["mail"]
    assert server.post(f"/api/runs/{run}/step_once")["answer"] == "accepted"
    eventually(lambda: server.view(run)["status"] == "paused" and server.view(run)["step"] >= 1)
    assert server.post(f"/api/runs/{run}/rewind", {"to": 0})["answer"] == "accepted"
    server.until(run, "paused")
    assert server.post(f"/api/runs/{run}/resume", {"note": "go on"})["answer"] == "accepted"
    assert server.post(f"/api/runs/{run}/cancel", {"undo": "all", "reason": "enough"})["answer"] == "accepted"
    server.until(run, "cancelled")
    receipt = server.get(f"/api/runs/{run}/receipt")
    assert (receipt["status"], receipt["by"], receipt["reason"]) == ("cancelled", "operator", "enough")
    paused = next(event for event in server.events(run) if event["type"] == "pause_asked")
    assert (paused["by"], paused["reason"]) == ("operator", "lunch")


def test_questions_and_approvals_are_answered_over_rest(server: Server) -> None:
    """R14."""
    run = server.start("shop", new_id(), item="cup")
    need = eventually(lambda: server.view(run)["needs"])[0]
    assert (need["kind"], need["choices"]) == ("question", ["gift", "none"])
    assert run in [view["id"] for view in server.get("/api/runs", params={"needs": "true"})["runs"]]
    server.post(f"/api/runs/{run}/answer", {"call_id": need["call"], "value": "gift"})
    need = eventually(lambda: [one for one in server.view(run)["needs"] if one["kind"] == "approval"])[0]
    choice = need["choices"][1]
    server.post(f"/api/runs/{run}/{choice['verb']}", {**choice["args"], "args": {"item": "plate"}})
    server.until(run, "done")
    finished = [event for event in server.events(run) if event["type"] == "call_finished"]
    assert finished[-1]["result"] == "sent plate"


def test_a_redirect_of_a_stage_that_reads_none_is_refused_with_the_reason(server: Server) -> None:
    """R40: the view says so beforehand."""
    run = server.start("shop", new_id())
    view = eventually(lambda: (found := server.view(run))["needs"] and found)
    assert view["consequences"]["no_redirect"] == "“Ask for a note” takes no redirects"
    assert [item["redirects"] for item in view["plan"]] == [False, True]
    body = server.post(f"/api/runs/{run}/redirect", {"text": "Ask for two"}, status=409)
    assert body["answer"]["why"] == "“Ask for a note” takes no redirects"
    assert [choice["verb"] for choice in body["answer"]["choices"]] == ["redirect", "cancel"]
    assert server.view(run)["mail"] == []


def test_a_redirect_that_was_not_read_is_a_need_that_is_settled_over_rest(server: Server) -> None:
    """R40: sent again, missed again, dropped."""
    run = server.start("counter", new_id(), to=100_000)
    server.post(f"/api/runs/{run}/pause")
    server.until(run, "paused")
    mail = server.post(f"/api/runs/{run}/redirect", {"text": "count backwards"})["mail"]

    def not_read() -> list[str]:
        server.post(f"/api/runs/{run}/step_once")
        server.until(run, "paused")
        need = eventually(lambda: [one for one in server.view(run)["needs"] if one["kind"] == "unread"])[0]
        assert need["id"] == mail and "ended without reading it" in need["text"]
        assert [letter["fate"] for letter in server.view(run)["mail"]] == ["not_read"]
        return [choice["verb"] for choice in need["choices"]]

    assert not_read() == ["resend", "drop"]
    assert run in [view["id"] for view in server.get("/api/runs", params={"needs": "true"})["runs"]]
    assert server.post(f"/api/runs/{run}/resend", {"mail": mail})["answer"] == "accepted"
    assert [letter["fate"] for letter in server.view(run)["mail"]] == ["sent"]
    assert not_read() == ["resend", "drop"]
    server.post(f"/api/runs/{run}/drop", {"mail": mail, "reason": "never mind"})
    view = server.view(run)
    assert (view["needs"], [letter["reason"] for letter in view["mail"]]) == ([], ["dropped by operator: never mind"])
    server.post(f"/api/runs/{run}/drop", {"mail": mail}, status=409)
    server.post(f"/api/runs/{run}/cancel")
    server.until(run, "cancelled")
    assert server.get(f"/api/runs/{run}/receipt")["not_read"] == []


def test_denied_is_not_executed(server: Server) -> None:
    run = server.start("shop", new_id())
    need = eventually(lambda: server.view(run)["needs"])[0]
    server.post(f"/api/runs/{run}/answer", {"call_id": need["call"], "value": "none"})
    need = eventually(lambda: [one for one in server.view(run)["needs"] if one["kind"] == "approval"])[0]
    server.post(f"/api/runs/{run}/deny", {"call_id": need["call"], "reason": "no stamps"})
    server.until(run, "paused")
    assert "CallDenied" in server.view(run)["error"]


def test_too_late_is_409_with_the_truth(server: Server) -> None:
    """R11."""
    run = server.start("counter", new_id(), to=1)
    server.until(run, "done")
    answer = server.http.post(f"/api/runs/{run}/cancel", json={})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["answer"] == {"answer": "too_late", "status": "done"}
    assert body["run"] == run
    assert "too late" in body["detail"]
    assert body["hint"]


def test_refused_is_409_with_choices(server: Server) -> None:
    run = server.start("counter", new_id(), to=100, seconds=0.2)
    server.until(run, "running")
    body = server.post(f"/api/runs/{run}/edit", {"patch": {"to": 1}}, status=409)
    assert body["answer"]["answer"] == "refused"
    assert body["answer"]["choices"][0]["verb"] == "pause"
    server.post(f"/api/runs/{run}/cancel")


def test_an_idempotency_key_gets_the_same_answer_again(server: Server) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"agent": "counter", "state": {"to": 90, "seconds": 0.1}}
    first = server.post("/api/runs", body, status=201, headers=key)
    assert server.post("/api/runs", body, status=201, headers=key)["id"] == first["id"]
    run, again = first["id"], {"Idempotency-Key": uuid.uuid4().hex}
    accepted = server.post(f"/api/runs/{run}/redirect", {"text": "once"}, headers=again)
    assert server.post(f"/api/runs/{run}/redirect", {"text": "once"}, headers=again) == accepted
    assert len([event for event in server.events(run) if event["type"] == "mail_received"]) == 1
    used = server.post(f"/api/runs/{run}/pause", headers=again, status=422)
    assert "was used for another request" in used["detail"]
    server.post(f"/api/runs/{run}/cancel")


def test_a_request_id_is_carried_out_once_however_many_ask(server: Server) -> None:
    run = server.start("counter", new_id(), to=100, seconds=0.2)
    body = {"text": "left", "request_id": uuid.uuid4().hex}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: server.post(f"/api/runs/{run}/redirect", body)["mail"], range(8)))
    assert len(set(answers)) == 1
    server.post(f"/api/runs/{run}/cancel")


def test_if_seq_guards_two_editors(server: Server) -> None:
    run = server.start("counter", new_id(), to=100, seconds=0.2)
    server.post(f"/api/runs/{run}/pause")
    seq = server.until(run, "paused")["seq"]
    server.post(f"/api/runs/{run}/edit", {"patch": {"to": 5}, "if_seq": seq})
    body = server.post(f"/api/runs/{run}/edit", {"patch": {"to": 6}, "if_seq": seq}, status=409)
    assert "moved on" in body["detail"]
    assert server.get(f"/api/runs/{run}/state")["to"] == 5
    server.post(f"/api/runs/{run}/cancel")


@pytest.mark.parametrize(
    "mark", [{"call": "x", "offset": -1}, {"call": "x", "offset": 1.5}, {"call": 7}, "here", 9**40]
)
def test_no_mark_is_so_odd_that_a_cancel_is_refused_for_it(server: Server, mark: Any) -> None:
    """R30: what cannot be read marks where the text ends."""
    run = server.start("counter", f"marked-{uuid.uuid4().hex}", to=10_000, seconds=0.1)
    assert server.post(f"/api/runs/{run}/cancel", {"suspicious": mark})["answer"] == "accepted"
    server.until(run, "cancelled")
    assert [event["type"] for event in server.events(run)].count("output_suspected") == 1


def test_a_cancelled_run_is_forked(server: Server) -> None:
    """R10."""
    run = server.start("counter", new_id(), to=30, seconds=0.05)
    eventually(lambda: server.view(run)["step"] >= 2)
    server.post(f"/api/runs/{run}/cancel")
    server.until(run, "cancelled")
    answer = server.http.post(f"/api/runs/{run}/fork", json={"at": 1, "state": {"to": 3, "at": 1, "seconds": 0}})
    assert answer.status_code == 201, answer.text
    fork = answer.json()["id"]
    assert answer.headers["location"] == f"/api/runs/{fork}"
    assert server.until(fork, "done", "paused")["status"] == "done"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/runs/nobody", None, 404),
        ("POST", "/api/runs/nobody/pause", {}, 404),
        ("POST", "/api/runs", {"agent": "nobody", "state": {}}, 422),
        ("POST", "/api/runs", {"agent": "counter", "state": {"to": "many"}}, 422),
        ("POST", "/api/runs", {"agent": "counter", "state": {}, "colour": "red"}, 422),
        ("POST", "/api/runs", {"agent": "counter", "state": {}, "budget": {"steps": "x"}}, 422),
        ("POST", "/api/runs", [], 422),
        ("POST", "/api/runs/nobody/explode", {}, 404),
        ("GET", "/api/runs?limit=0", None, 422),
        ("GET", "/api/runs?status=sleeping", None, 422),
        ("GET", "/api/runs?label=x", None, 422),
        ("GET", "/api/runs?limit=1&limit=2", None, 422),
        ("GET", "/api/runs/nobody/events?after=soon", None, 422),
        ("GET", "/api/runs/nobody/record?after=99999999999999999999", None, 422),
        ("PUT", "/api/runs", {}, 405),
        ("GET", "/nowhere", None, 404),
    ],
)
def test_bad_input_is_a_problem_with_a_hint_never_a_500(
    server: Server, method: str, path: str, body: Any, status: int
) -> None:
    answer = server.http.request(method, path, json=body) if body is not None else server.http.request(method, path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["hint"]


@pytest.mark.parametrize("body", [b"{", b'{"text": "\\ud800"}', b'{"text": NaN}', b"\xff\xfe", b"[" * 500 + b"]" * 500])
def test_what_is_not_json_is_said_to_be_none(server: Server, body: bytes) -> None:
    answer = server.http.post("/api/runs/x/message", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text


def test_a_state_nested_too_deep_harms_no_run(server: Server) -> None:
    run = server.start("counter", new_id(), to=100, seconds=0.2)
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    server.post(f"/api/runs/{run}/message", {"text": "x", "data": deep}, status=422)
    server.post(f"/api/runs/{run}/message", {"text": "x", "data": [[1]]})
    server.post(f"/api/runs/{run}/cancel")
    assert server.until(run, "cancelled")["error"] == ""


def test_the_list_is_searched_by_text(server: Server) -> None:
    run = server.start("shop", new_id())
    assert run in [view["id"] for view in server.get("/api/runs", params={"text": run[2:]})["runs"]]
    assert server.get("/api/runs", params={"text": "no run says this"})["runs"] == []
    server.post(f"/api/runs/{run}/cancel")


def test_calls_are_shown_with_what_went_in_and_came_out(server: Server) -> None:
    """R29."""
    run = server.start("shop", new_id(), item="cup")
    need = eventually(lambda: server.view(run)["needs"])[0]
    call = server.get(f"/api/runs/{run}/calls/{need['call']}")
    assert (call["status"], call["question"]) == ("asking", "Which note?")
    assert call["id"] in [each["id"] for each in server.get(f"/api/runs/{run}/calls")["calls"]]
    server.get(f"/api/runs/{run}/calls/none", status=404)
    server.get(f"/api/runs/{run}/result", status=409)
    server.post(f"/api/runs/{run}/cancel")


def test_a_person_takes_a_run_over_acts_in_it_and_hands_it_back(server: Server) -> None:
    """R24."""
    run = server.start("shop", new_id(), item="cup")
    eventually(lambda: server.view(run)["needs"])
    assert server.post(f"/api/runs/{run}/perform", {"tool": "send", "args": {"item": "x"}}, status=409)
    assert server.post(f"/api/runs/{run}/take_over", {"reason": "I know them"})["answer"] == "accepted"
    assert server.until(run, "paused")["taken_by"] == "operator"
    answer = server.post(f"/api/runs/{run}/perform", {"tool": "pack", "args": {"item": "gift paper"}})
    assert answer["mail"]
    acted = eventually(lambda: [event for event in server.events(run) if event["type"] == "person_acted"])[0]
    assert (acted["by"], acted["result"]) == ("operator", "packed gift paper")
    assert server.post(f"/api/runs/{run}/hand_back", {"note": "it is packed"})["answer"] == "accepted"
    server.post(f"/api/runs/{run}/cancel")


@pytest.mark.parametrize("odd", ["a b", "läuft-✓", "100%", "?x=1"])
def test_an_odd_id_is_no_trouble(server: Server, odd: str) -> None:
    answer = server.http.post("/api/runs", json={"agent": "counter", "state": {"to": 1}, "id": odd})
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"].isascii()
    assert server.http.get(answer.headers["location"]).json()["id"] == odd


@pytest.mark.parametrize("odd", ["run/with/slashes", ".", ".."])
def test_an_id_that_no_address_can_name_is_refused(server: Server, odd: str) -> None:
    """R6: what cannot be named could not be stopped."""
    told = server.post("/api/runs", {"agent": "counter", "state": {"to": 1}, "id": odd}, status=422)
    assert "cannot be the id of a run" in told["detail"]
