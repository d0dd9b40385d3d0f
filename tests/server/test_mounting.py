"""control_app inside somebody's own app, behind their own sessions, with their own driver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from tests.helpers import eventually
from tests.programs.served import AGENTS
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from standfast import Done, Run, Runtime, agent
from standfast.evidence.bundle_claims import who as who_acted
from standfast.server import Actor, control_app, sse
from standfast.server.surface import Surface


async def who(request: Request) -> Actor | None:
    """People of their own sessions; Bob may only look and pause."""
    name = request.session.get("user")
    if name is None:
        return None
    return Actor(name) if name == "ann" else Actor(name, frozenset({"view", "pause"}))


async def log_in(request: Request) -> Response:
    request.session["user"] = request.path_params["name"]
    return PlainTextResponse("hello")


surfaces: dict[int, Surface] = {}


def runs_feeds(runs: Runtime) -> Any:
    return surfaces[id(runs)].feeds


@contextlib.asynccontextmanager
async def their_app(folder: Path) -> AsyncIterator[tuple[str, Runtime]]:
    async with Runtime(folder / "runs.db", agents=[*AGENTS, loud]) as runs:
        control = control_app(runs, who=who)
        surfaces[id(runs)] = control.state.surface
        app = Starlette(
            routes=[Route("/login/{name}", log_in), Mount("/agents", control)],
            middleware=[Middleware(SessionMiddleware, secret_key="theirs")],
        )
        listening = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, log_level="warning", lifespan="off", ws="websockets-sansio", timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        await eventually(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", runs
        finally:
            await control.state.surface.close()
            server.should_exit = True
            await asyncio.wait_for(serving, 30)
            listening.close()


async def logged_in(client: httpx2.AsyncClient, name: str) -> str:
    answer = await client.get(f"/login/{name}")
    return answer.headers["set-cookie"].partition(";")[0]


async def test_it_works_below_a_path_behind_their_sessions(tmp_path: Path) -> None:
    async with their_app(tmp_path) as (url, runs), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        assert (await client.get("/agents/api/runs")).status_code == 401
        cookie = await logged_in(client, "ann")
        answer = await client.post("/agents/api/runs", json={"agent": "counter", "state": {"to": 1000, "seconds": 0.1}})
        assert answer.status_code == 201, answer.text
        run = answer.json()["id"]
        assert answer.headers["location"] == f"/agents/api/runs/{run}"
        assert (await client.get(answer.headers["location"])).json()["id"] == run
        assert (await client.get("/agents/openapi.json")).json()["servers"] == [{"url": "/agents"}]
        ws = url.replace("http", "ws") + "/agents/ws"
        async with connect(ws, additional_headers={"Cookie": cookie}) as page:
            assert json.loads(await page.recv())["me"]["name"] == "ann"
            await page.send(json.dumps({"op": "watch", "run": run, "after": 0}))
            kinds = set[str]()
            async with asyncio.timeout(120):
                while not {"event", "view", "delta"} <= kinds:
                    kinds.add(json.loads(await page.recv())["op"])
        await client.post(f"/agents/api/runs/{run}/cancel", json={"reason": "done with it"})
        receipt = await runs.handle(run).settled(30)
        assert (receipt.by, receipt.reason) == ("ann", "done with it")


async def test_rights_are_asked_at_every_door(tmp_path: Path) -> None:
    async with their_app(tmp_path) as (url, runs), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        cookie = await logged_in(client, "bob")
        run = await runs.start("counter", {"to": 1000, "seconds": 0.1})
        assert (await client.get(f"/agents/api/runs/{run.id}")).status_code == 200
        assert (await client.post(f"/agents/api/runs/{run.id}/pause")).status_code == 200
        for path in ("redirect", "cancel", "fork", "force"):
            answer = await client.post(f"/agents/api/runs/{run.id}/{path}", json={})
            assert answer.status_code == 403, path
        body: Any = {"agent": "counter", "state": {}}
        assert (await client.post("/agents/api/runs", json=body)).status_code == 403
        agui = {"threadId": "t", "runId": "r", "messages": []}
        assert (await client.post("/agents/agui/counter", json=agui)).status_code == 403
        async with connect(url.replace("http", "ws") + "/agents/ws", additional_headers={"Cookie": cookie}) as page:
            await page.recv()
            for verb, args in {"cancel": {}, "start": body, "fork": {}}.items():
                await page.send(json.dumps({"op": "verb", "n": 1, "run": run.id, "verb": verb, "args": args}))
                assert json.loads(await page.recv())["problem"]["status"] == 403
        assert (await run.view()).status == "paused"
        await run.cancel()


async def test_their_cookie_from_another_sites_page_does_nothing(tmp_path: Path) -> None:
    async with their_app(tmp_path) as (url, _), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        cookie = await logged_in(client, "ann")
        evil = {"Origin": "https://evil.example"}
        answer = await client.post("/agents/api/runs", json={"agent": "counter", "state": {}}, headers=evil)
        assert answer.status_code == 403
        try:
            async with connect(url.replace("http", "ws") + "/agents/ws", additional_headers={"Cookie": cookie, **evil}):
                raise AssertionError("a page of another site got in")
        except InvalidStatus as refused:
            assert refused.response.status_code == 403


async def test_streams_end_when_the_surface_is_closed_without_a_lifespan(tmp_path: Path) -> None:
    """A socket and a stream that are open do not keep their server from going down."""
    async with their_app(tmp_path) as (url, runs), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        cookie = await logged_in(client, "ann")
        run = await runs.start("counter", {"to": 1000, "seconds": 0.1})
        page = await connect(url.replace("http", "ws") + "/agents/ws", additional_headers={"Cookie": cookie})
        stream = client.stream("GET", f"/agents/api/runs/{run.id}/events")
        answer = await stream.__aenter__()
        assert answer.status_code == 200
    said = [json.loads(each) async for each in page_messages(page)]
    assert said[-1]["op"] == "bye"
    await page.close()
    with contextlib.suppress(httpx2.TransportError, RuntimeError):
        await stream.__aexit__(None, None, None)


async def page_messages(page: Any) -> AsyncIterator[Any]:
    with contextlib.suppress(Exception):  # the socket is closed: that is the end of it
        while True:
            yield await asyncio.wait_for(page.recv(), 30)


class Loud(BaseModel):
    left: int = 150


@agent("loud")
async def loud(run: Run[Loud]) -> Done[int] | None:
    """Says more than any socket's buffer holds."""
    run.emit("noise", "x" * 100_000)
    run.state.left -= 1
    return Done(0) if run.state.left == 0 else None


async def test_a_stream_that_nobody_reads_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was not told is in the record; what it holds here is let go."""
    monkeypatch.setattr(sse, "SEND_SECONDS", 0.5)
    async with their_app(tmp_path) as (url, runs), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        cookie = await logged_in(client, "ann")
        feeds = runs_feeds(runs)
        run = await runs.start("loud", {})
        reader, writer = await asyncio.open_connection(*url.removeprefix("http://").split(":"))
        head = [f"GET /agents/api/runs/{run.id}/events HTTP/1.1", "Host: x", f"Cookie: {cookie}"]
        writer.write("\r\n".join([*head, "", ""]).encode())
        await eventually(lambda: feeds.watched)
        await run.result(timeout=120)
        await eventually(lambda: not feeds.watched)
        answer = await client.get(f"/agents/api/runs/{run.id}/record", params={"limit": 1})
        assert answer.status_code == 200
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        del reader


async def test_readers_that_go_leave_nothing_behind(tmp_path: Path) -> None:
    async with their_app(tmp_path) as (url, runs), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        cookie = await logged_in(client, "ann")
        feeds = runs_feeds(runs)
        run = await runs.start("counter", {"to": 10_000, "seconds": 0.05})
        agui = {"threadId": "t", "runId": "x", "messages": []}
        async with (
            client.stream("GET", f"/agents/api/runs/{run.id}/events") as events,
            client.stream("POST", f"/agents/agui/runs/{run.id}", json=agui) as front_end,
            connect(url.replace("http", "ws") + "/agents/ws", additional_headers={"Cookie": cookie}) as page,
        ):
            await page.send(json.dumps({"op": "watch", "run": run.id, "after": 0}))
            await page.send(json.dumps({"op": "list"}))
            readers = [events.aiter_lines(), front_end.aiter_lines()]  # one that is dropped closes its stream
            for reader in readers:
                await anext(reader)
            await eventually(lambda: feeds.watched == 4)
        await eventually(lambda: feeds.watched == 0)
        assert (await run.view()).status == "running"
        await run.cancel()


async def test_a_run_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    async with their_app(tmp_path) as (url, runs), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        cookie = await logged_in(client, "ann")
        bad = await runs.start("counter", {"to": 1})
        await bad.result()
        with contextlib.closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as store:
            store.execute("UPDATE record SET body = ? WHERE seq > 1", (b"not what was written",))
        good = await runs.start("counter", {"to": 2})
        async with connect(url.replace("http", "ws") + "/agents/ws", additional_headers={"Cookie": cookie}) as page:
            for run in (bad, good):
                await page.send(json.dumps({"op": "watch", "run": run.id, "after": 0}))
            gone, done = False, False
            async with asyncio.timeout(120):
                while not (gone and done):
                    said = json.loads(await page.recv())
                    gone = gone or (said["op"] == "gone" and said["run"] == bad.id)
                    done = done or (said["op"] == "event" and said["event"]["type"] == "run_done")
        told = [line async for line in lines(client, f"/agents/api/runs/{bad.id}/events")]
        assert not told or "StoreDamaged" in "".join(told)
        assert (await client.get("/agents/api/runs")).status_code == 200


async def lines(client: httpx2.AsyncClient, path: str) -> AsyncIterator[str]:
    async with client.stream("GET", path) as answer:
        async for line in answer.aiter_lines():
            yield line


async def test_whoever_an_app_knows_by_its_own_means_is_not_shown_as_known_by_a_token(tmp_path: Path) -> None:
    """R31, R32: nobody has shown one here."""
    async with their_app(tmp_path) as (url, runs), httpx2.AsyncClient(base_url=url, timeout=30) as client:
        await logged_in(client, "ann")
        run = await runs.start("counter", {"to": 1000, "seconds": 0.1})
        assert (await client.post(f"/agents/api/runs/{run.id}/cancel", json={})).status_code == 200
        await run.settled(30)
        (stop,) = await run.stops()
    assert (stop.by, stop.route, stop.by_token) == ("ann", f"POST /agents/api/runs/{run.id}/cancel", "")
    assert who_acted(stop.by, stop.by_token) == "claimed by ann"
