"""SIGTERM with pages open, and what a restart finds (R2, R18)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.server.serving import LONG, Server, eventually, leftovers
from websockets.sync.client import connect

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

Serve = Callable[..., Server]


def test_sigterm_with_pages_open_ends_the_server_soon_and_loses_nothing(serve: Serve) -> None:
    server = serve("--workers", "2").ready()
    runs = [server.start("counter", f"run-{n}", to=100_000, seconds=0.05) for n in range(6)]
    for run in runs:
        eventually(lambda run=run: server.view(run)["step"] >= 1)
    sockets = [server.socket() for _ in range(5)]
    pages = [each.__enter__() for each in sockets]
    streams: list[Any] = [server.http.stream("GET", path) for path in (f"/api/runs/{runs[0]}/events", "/api/events")]
    answers = [each.__enter__() for each in streams]
    try:
        for page in pages:
            for run in runs:
                page.say(op="watch", run=run, after=0)
            page.say(op="list", filter={})
            page.until_event("step_finished")
        seconds = server.terminate()
        assert seconds < 30, server.log.read_text()
        for page in pages:
            assert page.next("bye")["why"] == "the server is going down"
        assert any(line.startswith("data: ") for line in answers[0].iter_lines()), "the stream has ended"
    finally:
        for stream in streams:
            stream.__exit__(None, None, None)
        for each in sockets:
            each.__exit__(None, None, None)
    assert leftovers(server.store) == []
    assert "Traceback" not in server.log.read_text()

    control = serve(agents=())
    for run in runs:
        assert control.view(run)["status"] == "queued", "released, not left to be taken over"
        events = control.events(run)
        assert events[-1]["type"] == "run_released"
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


def test_a_worker_that_does_not_go_is_killed_in_time_and_its_run_goes_on_later(serve: Serve) -> None:
    server = serve().ready()
    server.start("wedger", "stuck", how="loop", folder=str(server.folder))
    eventually((server.folder / "stuck-stuck").exists)
    assert server.terminate() < 8
    assert leftovers(server.store) == []
    server = serve().ready()
    assert server.post("/api/runs/stuck/cancel")["answer"] == "accepted"


def test_a_page_that_reconnects_after_a_restart_misses_nothing_and_stays_logged_in(serve: Serve) -> None:
    """R28."""
    server = serve().ready()
    cookie = server.http.post("/api/session", json={"token": server.token}).headers["set-cookie"].partition(";")[0]
    port = server.url.rpartition(":")[2]
    run = server.start("counter", "on", to=60, seconds=0.1)
    with server.socket(headers={"Cookie": cookie}) as page:
        page.say(op="watch", run=run, after=0)
        page.until_event("step_finished")
        seen = page.events
        server.terminate()
    again = serve("--port", port).ready()
    assert again.token != server.token
    with connect(f"ws://127.0.0.1:{port}/ws", additional_headers={"Cookie": cookie}) as raw:
        raw.send(json.dumps({"op": "watch", "run": run, "after": seen[-1]["seq"]}))
        end = time.monotonic() + LONG
        while time.monotonic() < end and seen[-1]["type"] != "run_done":
            said = json.loads(raw.recv(timeout=LONG))
            if said["op"] == "event":
                seen.append(said["event"])
    assert seen == again.events(run)
