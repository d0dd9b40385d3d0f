"""Answers that were made to be slow to check keep nobody from stopping anything (R34)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.attacks.thieves import token
from tests.halt.operating import typed
from tests.server.serving import LONG, Server, eventually


def _tree(depth: int) -> Any:
    return {"kind": "*", "left": _tree(depth - 1)} if depth else 1


HEAVY: dict[str, Any] = {"word": "a" * 5_000 + "!", "tree": _tree(90)}


@pytest.mark.more  # starts servers; questions/test_checked_outside has the same promise without
@pytest.mark.parametrize("what", HEAVY)
def test_a_guest_who_may_only_answer_delays_no_stop(serve: Callable[..., Server], what: str) -> None:
    """A cancel of another run, and a halt of everything, while answers come that have no end of checks."""
    server = serve("--workers", "1", agents=("tests.programs.heavy:AGENTS",)).ready()
    asked = server.start("asker", "asked", what=what)
    other = server.start("counter", "other", to=100_000, seconds=0.05)
    need = eventually(lambda: server.view(asked)["needs"])[0]
    guest = token(server, "resolve", run=asked)
    ending, answers = threading.Event(), list[int]()

    def answer() -> None:
        while not ending.is_set():
            body = {"call_id": need["call"], "value": HEAVY[what]}
            answers.append(guest.status("POST", f"/api/runs/{asked}/answer", body))

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        eventually(lambda: server.post(f"/api/runs/{other}/cancel", {"reason": "enough"}))
        server.until(other, "cancelled")
        typed("halt", "--all", "--reason", "enough", "--store", str(server.store))
    finally:
        ending.set()
        thread.join(LONG)
    assert answers
    assert {*answers} <= {400, 409, 422, 429}
