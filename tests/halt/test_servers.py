"""Whatever happens to the server, the operator's halt gets through; and over HTTP it needs its own right (R13, R34)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from tests.halt.operating import ALL, asked, typed, typed_json
from tests.halt.world import AGENTS
from tests.server.serving import LONG, Server, eventually, leftovers

from standfast import Runtime
from standfast.operator.client import NoOperator, ask_socket, socket_of
from standfast.server.actors import Actor
from standfast.server.app import control_app

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes

Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    servers: list[Server] = []

    def make(*options: str) -> Server:
        one = Server(tmp_path, *options).ready()
        servers.append(one)
        eventually(socket_of(one.store).exists)
        return one

    try:
        yield make
    finally:
        for one in servers:
            if one.process.poll() is None:
                os.kill(one.process.pid, signal.SIGCONT)
            one.close()


def operators(server: Server) -> list[int]:
    return leftovers(server.store, "standfast.operator")


def halt(server: Server) -> Any:
    return typed_json("halt", "--all", "--reason", "leaking", "--by", "op", "--store", str(server.store))


def status(server: Server, run: str) -> Any:
    """Of a run, without the server."""
    return typed_json("show", run, "--store", str(server.store))


def until_held(server: Server, run: str) -> Any:
    def look() -> Any:
        view = status(server, run)
        return view if view["status"] == "paused" else None

    return eventually(look)


def test_the_halt_over_http(serve: Serve) -> None:
    """R13: set, shown, in the way of starts, lifted; a start says who and why."""
    server = serve()
    run = server.start("counter", "r1", to=10_000, seconds=0.05)
    halted = server.post("/api/halts", {"agent": "counter", "reason": "leaking"}, status=201)
    assert (halted["by"], halted["runs"]) != (None, 0)
    view = server.until(run, "paused")
    assert view["holds"] == ["halted"] and "leaking" in view["waiting_for"]
    assert [h["id"] for h in server.get("/api/halts")["halts"]] == [halted["id"]]
    refused = server.post("/api/runs", {"agent": "counter"}, status=409)
    assert refused["type"].endswith("Halted") and refused["halts"] == [halted["id"]] and "leaking" in refused["detail"]
    assert server.post(f"/api/runs/{run}/resume", status=409)["answer"]["why"].count("leaking") == 1
    assert server.post("/api/halts/none/lift", status=404)["type"].endswith("UnknownHalt")
    assert server.post("/api/halts", {"reason": "x"}, status=422)["detail"]
    same = server.post("/api/halts", {"agent": "shop", "reason": "x"}, status=201, headers={"Idempotency-Key": "h-2"})
    again = server.post("/api/halts", {"agent": "shop", "reason": "x"}, status=201, headers={"Idempotency-Key": "h-2"})
    assert (same["id"], again["note"]) == ("h-2", "it was set already")
    assert server.post(f"/api/halts/{halted['id']}/lift", {"reason": "over"})["lifted_at"] is not None
    server.until(run, "running")
    assert [h["id"] for h in server.get("/api/halts")["halts"]] == ["h-2"]
    assert len(server.get("/api/halts?lifted=true")["halts"]) == 2


async def test_halting_over_http_needs_the_operators_right(tmp_path: Path) -> None:
    """R13: its own right, which no other includes."""
    rights = frozenset({"view", "redirect", "pause", "cancel"})

    async def who(request: Any) -> Actor:
        return Actor("op", frozenset({"operator"})) if "op" in request.headers else Actor("ann", rights)

    async with Runtime(tmp_path / "runs.db", AGENTS) as runs:
        with TestClient(control_app(runs, who=who)) as client:
            body = {"all": True, "reason": "x"}
            assert client.post("/api/halts", json=body).status_code == 403
            assert client.get("/api/halts").json() == {"halts": []}
            halted = client.post("/api/halts", json=body, headers={"op": "1"})
            assert halted.status_code == 201
            id_ = halted.json()["id"]
            assert client.post(f"/api/halts/{id_}/lift", json={}).status_code == 403
            assert client.get("/api/halts").json()["halts"][0]["id"] == id_
            assert client.get("/api/halts", headers={"op": "1"}).status_code == 403, "it is no right to look"
            assert client.post(f"/api/halts/{id_}/lift", json={}, headers={"op": "1"}).status_code == 200


def test_a_flood_of_requests_and_sockets_does_not_keep_the_halt_out(serve: Serve) -> None:
    """R34: whoever holds the session may do what they like with the server."""
    server = serve("--workers", "1")
    run, state = "r1", {"to": 100_000, "seconds": 0.0}
    # a cap of its own: while the flood begins, it takes more steps than the usual one lets it
    server.post("/api/runs", {"agent": "counter", "state": state, "id": run, "budget": {"steps": 100_000}}, status=201)
    stop = threading.Event()
    sent = [0]

    def flood() -> None:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.url, headers=headers, timeout=LONG) as client:
            while not stop.is_set():
                try:
                    client.post(f"/api/runs/{run}/message", json={"text": "x" * 1000})
                    client.get("/api/runs")
                except httpx2.HTTPError:
                    continue
                sent[0] += 1

    def watch() -> None:
        with server.socket() as page:
            page.raw.send('{"op": "watch", "run": "r1"}')
            stop.wait(LONG)

    threads = [threading.Thread(target=what) for what in (*[flood] * 8, *[watch] * 10)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: sent[0] > 20)
        began = time.monotonic()
        said = halt(server)
        took = time.monotonic() - began
        assert "by the operator's socket" in said["way"] and said["runs"] == 1
        assert took < LONG
        view = until_held(server, run)
        assert view["holds"] == ["halted"]
    finally:
        stop.set()
        for thread in threads:
            thread.join(LONG)
    assert server.until(run, "paused")["step"] == view["step"], "nothing has moved since"


def test_a_worker_whose_loop_is_wedged_is_halted(serve: Serve, tmp_path: Path) -> None:
    """R34: accepted while the loop is blocked; then held, and no worker takes it up again before the lift."""
    server = serve("--stop-deadline", "1")
    run = server.start("wedger", "r1", how="loop", folder=str(tmp_path))
    eventually((tmp_path / f"stuck-{run}").exists)
    said = halt(server)
    assert said["runs"] == 1 and "by the operator's socket" in said["way"]
    assert [ref["tool"] for ref in said["in_flight"]] == ["block_loop"]
    view = until_held(server, run)
    assert view["holds"] == ["halted"]
    kinds = [event["type"] for event in server.events(run)]
    assert "run_claimed" not in kinds[kinds.index("run_paused") :]


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL], ids=["frozen", "killed"])
def test_a_server_that_is_dead_or_frozen_does_not_keep_the_halt_out(serve: Serve, how: int) -> None:
    """R34: its operator lives on; without that too, the store is enough."""
    server = serve()
    run = server.start("counter", "r1", to=100_000, seconds=0.2)
    server.until(run, "running")
    (first,) = operators(server)
    os.kill(server.process.pid, how)
    if how == signal.SIGKILL:
        server.process.wait(LONG)
    said = halt(server)
    assert "by the operator's socket" in said["way"] and said["runs"] == 1
    os.kill(first, signal.SIGKILL)
    again = halt(server)
    assert again["way"].startswith("straight on the store")
    if how == signal.SIGSTOP:  # its workers are there, and have heard it
        assert until_held(server, run)["holds"] == ["halted"]
        os.kill(server.process.pid, signal.SIGCONT)
        assert server.until(run, "paused")["holds"] == ["halted"]
    for one in (said, again):
        typed("lift", one["id"], "--store", str(server.store))
    if how == signal.SIGSTOP:
        server.until(run, "running")


def test_an_operator_whose_server_is_dead_leaves_when_there_is_nothing_left_to_halt(serve: Serve) -> None:
    server = serve()
    assert len(operators(server)) == 1
    server.kill()
    assert ask_socket(socket_of(server.store), {"do": "list"})["ok"]
    eventually(lambda: not operators(server))
    assert not socket_of(server.store).exists()


def test_a_server_keeps_its_operator_running_and_takes_it_along(serve: Serve) -> None:
    server = serve()
    (first,) = operators(server)
    os.kill(first, signal.SIGKILL)

    def another() -> Any:
        try:
            return asked(socket_of(server.store), {"do": "list"})["pid"]
        except (OSError, ValueError):
            return None

    assert eventually(another) != first
    server.terminate()
    assert operators(server) == []
    with pytest.raises(NoOperator):
        ask_socket(socket_of(server.store), ALL)
