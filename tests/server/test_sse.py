"""Server-sent events: every event once, in order, from wherever a reader was (R28)."""

from __future__ import annotations

import json
import socket
import uuid
from typing import Any
from urllib.parse import urlsplit

from tests.server.serving import LONG, Server, eventually


def read(server: Server, path: str, most: int | None = None, **options: Any) -> list[tuple[str | None, str, Any]]:
    """The events of a stream as (id, event, data): all, or the first so many that have an id."""
    found: list[tuple[str | None, str, Any]] = []
    with server.http.stream("GET", path, **options) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                found.append((fields.get("id"), fields["event"], json.loads(fields["data"])))
                fields = {}
                if most is not None and len([one for one in found if one[0]]) >= most:
                    break
    return found


def test_a_stream_has_every_event_once_and_ends_after_the_ending(server: Server) -> None:
    run = server.start("counter", f"r-{uuid.uuid4().hex[:8]}", to=4, seconds=0.1)
    told = [(int(id_), data) for id_, _, data in read(server, f"/api/runs/{run}/events") if id_]
    assert [data for _, data in told] == server.events(run)
    assert [id_ for id_, _ in told] == [data["seq"] for _, data in told]
    assert told[-1][1]["type"] == "run_done"


def test_live_text_comes_without_an_id_before_it_is_in_the_record(server: Server) -> None:
    """R26."""
    run = server.start("counter", f"r-{uuid.uuid4().hex[:8]}", to=3, seconds=1.0)
    told = read(server, f"/api/runs/{run}/events")
    deltas = [data for id_, kind, data in told if kind == "text_delta" and id_ is None]
    flushed = [data for _, kind, data in told if kind == "text_flushed"]
    assert deltas
    whole = {one["call"]: "" for one in flushed}
    for one in flushed:
        whole[one["call"]] += one["text"]
    for delta in deltas:  # placed by call and offset, each says what the record says there
        assert whole[delta["call_id"]][delta["offset"] :].startswith(delta["text"])


def test_a_reader_that_comes_back_gets_the_rest_exactly(server: Server) -> None:
    run = server.start("counter", f"r-{uuid.uuid4().hex[:8]}", to=12, seconds=0.05)
    seen: list[int] = []
    by_header = True
    while True:
        place = str(seen[-1]) if seen else "0"
        options = {"headers": {"Last-Event-ID": place}} if by_header else {"params": {"after": place}}
        told = [int(id_) for id_, _, _ in read(server, f"/api/runs/{run}/events", most=3, **options) if id_]
        if not told:
            break
        seen += told
        by_header = not by_header
    assert seen == [event["seq"] for event in server.events(run)]


def test_the_events_of_all_runs_are_resumed_by_commit(server: Server) -> None:
    with server.http.stream("GET", "/api/events") as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": here"
        first = server.start("counter", f"r-{uuid.uuid4().hex[:8]}", to=1)
        place = ""
        for line in lines:
            if line.startswith("id: "):
                place = line.removeprefix("id: ")
            if line.startswith("data: ") and json.loads(line.removeprefix("data: ")).get("run") == first:
                break
    server.until(first, "done")
    second = server.start("counter", f"r-{uuid.uuid4().hex[:8]}", to=1)
    server.until(second, "done")
    count = len(server.events(second))
    assert place
    told = read(server, "/api/events", most=len(server.events(first)), params={"after": place})
    assert count
    assert {data["run"] for _, _, data in told} >= {first, second}


def test_a_reader_that_does_not_read_slows_nobody(server: Server) -> None:
    """R18: its buffer is the socket's; the run goes on and others are told at once."""
    run = server.start("counter", f"r-{uuid.uuid4().hex[:8]}", to=300, seconds=0.0)
    parts = urlsplit(server.url)
    stuck: list[socket.socket] = []
    for _ in range(20):
        one = socket.create_connection((parts.hostname, parts.port), timeout=LONG)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        head = [
            f"GET /api/runs/{run}/events HTTP/1.1",
            f"Host: {parts.netloc}",
            f"Authorization: Bearer {server.token}",
        ]
        one.sendall("\r\n".join([*head, "", ""]).encode())
        stuck.append(one)
    try:
        server.until(run, "done")
        told = [one for one in read(server, f"/api/runs/{run}/events") if one[0]]
        assert len(told) == server.view(run)["seq"]
        eventually(lambda: server.http.get("/healthz").status_code == 200)
    finally:
        for one in stuck:
            one.close()
