"""No stop is refused for its reason: what cannot be kept of it is replaced or left out, and that is said (R34)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.server.serving import Server

from standfast.server.verbs import NO_TEXT

ODD = [
    (b'"\\ud800 enough"', "\ufffd enough"),
    (b'"caf\xe9"', "caf\ufffd"),
    (b"null", ""),
    (b"5", NO_TEXT),
    (b'["enough"]', NO_TEXT),
]


@pytest.mark.parametrize(("sent", "kept"), ODD)
@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_stop_takes_place_whatever_its_reason_is(server: Server, verb: str, sent: bytes, kept: str) -> None:
    run = server.start("counter", f"odd-{verb}-{sent.hex()}", to=10_000, seconds=0.02)
    answer = server.http.post(
        f"/api/runs/{run}/{verb}", content=b'{"reason": %s}' % sent, headers={"content-type": "application/json"}
    )
    assert (answer.status_code, answer.json()["answer"]) == (200, "accepted")
    assert _asked(server, run, verb)["reason"] == kept


def test_a_stop_over_a_socket_takes_place_whatever_its_reason_is(server: Server) -> None:
    run = server.start("counter", "odd-socket", to=10_000, seconds=0.02)
    with server.socket() as page:
        page.raw.send(json.dumps({"op": "verb", "verb": "pause", "run": run, "n": 1, "args": {"reason": "\ud800 no"}}))
        assert page.next("answer")["answer"]["answer"] == "accepted"
        page.raw.send(json.dumps({"op": "verb", "verb": "message", "run": run, "n": 2, "args": {"text": "\ud800"}}))
        assert page.next("answer")["problem"]["status"] == 400  # what an agent is told is not altered
    assert _asked(server, run, "pause")["reason"] == "\ufffd no"


@pytest.mark.parametrize(("sent", "kept"), [*ODD[:2], (b"null", NO_TEXT), *ODD[3:]])
def test_a_halt_takes_place_whatever_its_reason_is(server: Server, sent: bytes, kept: str) -> None:
    answer = server.http.post(
        "/api/halts",
        content=b'{"agent": "nobody", "reason": %s}' % sent,
        headers={"content-type": "application/json"},
    )
    assert (answer.status_code, answer.json()["reason"]) == (201, kept)


def _asked(server: Server, run: str, verb: str) -> Any:
    return next(event for event in server.events(run) if event["type"] == f"{verb}_asked")
