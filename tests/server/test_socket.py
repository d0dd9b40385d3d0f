"""The WebSocket of pages: one socket, many runs (R1, R18, R28)."""

from __future__ import annotations

import json
import threading
import uuid

import pytest
from tests.programs.served import AGENTS
from tests.server.serving import LONG, Server, Socket, eventually
from websockets.exceptions import ConnectionClosed


def new_id() -> str:
    return f"w-{uuid.uuid4().hex[:12]}"


def test_hello_says_who_one_is_and_what_there_is(server: Server) -> None:
    with server.socket() as page:
        assert (page.hello["me"]["name"], page.hello["me"]["rights"]) == ("operator", ["*"])
        assert {agent["name"] for agent in page.hello["agents"]} == {agent.name for agent in AGENTS}
        assert {"start", "fork", "cancel", "perform", "force"} <= set(page.hello["verbs"])
        page.say(op="ping", n=7)
        assert page.next("pong")["n"] == 7


def test_one_socket_watches_many_runs_each_in_order(server: Server) -> None:
    with server.socket() as page:
        runs = [page.verb("start", agent="counter", state={"to": 5}, id=new_id())["run"]["id"] for _ in range(6)]
        for run in runs:
            page.say(op="watch", run=run, after=0)
        done = set[str]()
        while done != set(runs):
            event = page.next("event")["event"]
            if event["type"] == "run_done":
                done.add(event["run"])
        for run in runs:
            assert [event for event in page.events if event["run"] == run] == server.events(run)


def test_watching_again_from_a_place_gives_the_rest(server: Server) -> None:
    """R28: a page that lost its socket goes on where it was."""
    run = server.start("counter", new_id(), to=20, seconds=0.05)
    with server.socket() as page:
        page.say(op="watch", run=run, after=0)
        page.until_event("step_finished")
        before = page.events
    with server.socket() as page:
        page.say(op="watch", run=run, after=before[-1]["seq"])
        page.until_event("run_done")
        assert before + page.events == server.events(run)


def test_verbs_are_answered_and_seen_by_everybody(server: Server) -> None:
    """Two people act at once."""
    run = server.start("counter", new_id(), to=500, seconds=0.05)
    with server.socket() as one, server.socket() as other:
        other.say(op="watch", run=run, after=0)
        assert one.verb("pause", run, reason="wait")["answer"] == "accepted"
        assert other.until_event("pause_asked")["reason"] == "wait"
        other.until_event("run_paused")
        while True:
            view = other.next("view")["view"]
            if view["status"] == "paused":
                break
        assert one.verb("edit", run, patch={"to": "many"})["status"] == 422
        assert one.verb("edit", run, patch={"to": 6})["answer"] == "accepted"
        assert other.verb("cancel", run)["answer"] == "accepted"
        assert one.verb("resume", run) == {"answer": "too_late", "status": "cancelled"}
        told = [event for event in other.events if event["type"] == "run_cancelled"]  # it may come before the answer
        assert (told[0] if told else other.until_event("run_cancelled"))["receipt"]["by"] == "operator"


def test_every_verb_can_be_asked_and_says_no_by_a_value(server: Server) -> None:
    run = server.start("counter", new_id(), to=1)
    server.until(run, "done")
    asked = {
        "pause": {},
        "resume": {},
        "step_once": {},
        "redirect": {"text": "x"},
        "message": {"text": "x"},
        "resend": {"mail": "m"},
        "drop": {"mail": "m"},
        "cancel": {},
        "edit": {"patch": {}},
        "rewind": {"to": 0},
        "abandon": {"frame": "f", "reason": "r"},
        "return_to": {"frame": "f"},
        "force": {},
    }
    with server.socket() as page:
        for verb, args in asked.items():
            answer = page.verb(verb, run, **args)
            assert answer.get("answer") == "too_late", (verb, answer)
        for verb, args in {
            "approve": {},
            "deny": {},
            "answer": {"value": 1},
            "resolve": {"decision": "happened"},
        }.items():
            answer = page.verb(verb, run, call_id="none", **args)
            assert answer.get("status") in (409, 422, "done") or answer["answer"] in ("refused", "too_late"), (
                verb,
                answer,
            )
        assert page.verb("explode", run)["status"] == 404
        assert page.verb("pause", "nobody")["status"] == 404
        assert page.verb("fork", run, at=0)["run"]["status"] in ("queued", "paused", "running")


def test_nonsense_is_answered_and_the_socket_stays(server: Server) -> None:
    with server.socket() as page:
        for nonsense in (
            "{",
            "[]",
            "1",
            '{"op": 1}',
            '{"op": "dance"}',
            '{"op": "watch"}',
            '{"op":"verb","verb":"pause","n":1}',
        ):
            page.raw.send(nonsense)
            assert page.next("answer")["problem"]["status"] in (400, 422)
        page.raw.send(b"\xff\xfe")
        assert page.next("answer")["problem"]["status"] == 400
        page.say(op="watch", run="nobody")
        assert page.next("gone")["run"] == "nobody"
        page.say(op="ping", n=1)
        assert page.next("pong")


def test_the_list_is_told_again_when_it_has_changed(server: Server) -> None:
    label = new_id()
    with server.socket() as page:
        page.say(op="list", filter={"labels": {"of": label}})
        assert page.next("runs")["runs"] == []
        run = page.verb("start", agent="shop", state={}, labels={"of": label})["run"]["id"]
        while True:
            runs = page.next("runs")["runs"]
            if runs and runs[0]["needs"]:
                break
        assert runs[0]["id"] == run
        page.say(op="list", filter={"labels": {"of": label}, "needs": False})
        assert page.next("runs")["runs"] == []
        page.verb("cancel", run)
        assert page.next("runs")["runs"][0]["status"] in ("cancelling", "cancelled")


def test_a_page_that_asks_without_reading_is_let_go_and_others_are_served(server: Server) -> None:
    """R34: a flood on one socket does not keep a stop of another from working."""
    run = server.start("counter", new_id(), to=10_000, seconds=0.02)
    stop = threading.Event()

    def flood() -> None:
        try:
            with server.socket() as page:
                page.raw.protocol.max_size = None
                while not stop.is_set():
                    for _ in range(200):
                        page.raw.send(json.dumps({"op": "ping", "n": "x" * 1000}))
        except (ConnectionClosed, TimeoutError, OSError):
            return

    floods = [threading.Thread(target=flood) for _ in range(3)]
    for one in floods:
        one.start()
    try:
        with server.socket() as page:
            page.say(op="watch", run=run, after=0)
            assert page.verb("cancel", run)["answer"] == "accepted"
            page.until_event("run_cancelled")
    finally:
        stop.set()
        for one in floods:
            one.join(LONG)


def test_losing_every_client_changes_nothing_about_a_run(server: Server) -> None:
    """R18."""
    with server.socket() as page:
        run = page.verb("start", agent="counter", state={"to": 10, "seconds": 0.1}, id=new_id())["run"]["id"]
        page.say(op="watch", run=run, after=0)
        page.until_event("call_started")
    assert server.until(run, "done")["step"] == 10


def test_a_verb_is_carried_out_although_its_page_has_gone(server: Server) -> None:
    """R18: pressing Cancel and closing the tab cancels."""
    for _ in range(10):
        run = server.start("counter", new_id(), to=10_000, seconds=0.05)
        with server.socket() as page:
            page.say(op="verb", n=1, run=run, verb="cancel", args={})
        assert server.until(run, "cancelled")


def test_live_text_of_a_worker_reaches_the_page(server: Server) -> None:
    """R26."""
    run = server.start("counter", new_id(), to=3, seconds=1.0)
    with server.socket() as page:
        page.say(op="watch", run=run, after=0)
        page.until_event("run_done")
        assert "".join(delta["text"] for delta in page.deltas)
        assert {delta["channel"] for delta in page.deltas} == {"text"}


def test_too_large_a_message_closes_the_socket_only(server: Server) -> None:
    with server.socket() as page, pytest.raises(ConnectionClosed):
        page.raw.send("x" * 1_500_000)
        while True:
            page.raw.recv(timeout=LONG)
    assert eventually(lambda: server.http.get("/healthz").status_code == 200)


def test_many_pages_see_the_same_run_and_cancel_is_accepted_at_once(server: Server) -> None:
    run = server.start("counter", new_id(), to=10_000, seconds=0.01)
    pages: list[Socket] = []
    sockets = [server.socket() for _ in range(20)]
    try:
        pages = [each.__enter__() for each in sockets]
        for page in pages:
            page.say(op="watch", run=run, after=0)
            page.say(op="list", filter={})
        assert pages[0].verb("cancel", run)["answer"] == "accepted"
        for page in pages:
            assert page.until_event("run_cancelled")
    finally:
        for each in sockets[: len(pages)]:
            each.__exit__(None, None, None)
