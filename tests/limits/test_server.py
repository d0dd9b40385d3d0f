"""What one request, one actor and one stranger may take of a server: at each limit, below it and beyond it (R34)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from tests.limits.test_runs import Nothing, waits

from standfast import Runtime
from standfast.arguments import LONGEST_REASON, MOST_LABELS, shortened
from standfast.server import Actor, Rules, control_app, feeds, guard, handlers, readers, sessions
from standfast.server.feeds import Tail, Told
from standfast.server.keys import Keys
from standfast.server.problems import Problem
from standfast.server.readers import Readers
from standfast.server.sessions import Sessions
from standfast.server.socket import Op
from standfast.server.sse import LONGEST_PLACE
from standfast.server.verbs import BIGGEST, LONGEST_ID, LONGEST_KEY, LONGEST_TEXT, VERBS
from standfast.server.wire import DEEPEST, parse

TOKEN = "the-token-of-this-server"


async def ann(_: Any) -> Actor:
    return Actor("ann")


@asynccontextmanager
async def asked(folder: Path, *, rules: Rules | None = None) -> AsyncIterator[tuple[Runtime, httpx2.AsyncClient]]:
    """The control surface without a network."""
    async with Runtime(folder / "runs.db", [waits], drive=False) as runs:
        app = control_app(runs, who=ann, rules=rules)
        async with _client(app) as client:
            yield runs, client
        await app.state.surface.close()


def _client(app: Starlette) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://here")


def _nested(levels: int) -> bytes:
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


@pytest.mark.parametrize("levels", [DEEPEST - 1, DEEPEST, DEEPEST + 1])
def test_a_body_is_so_deep_and_no_deeper(levels: int) -> None:
    if levels <= DEEPEST:
        assert parse(_nested(levels)) is not None
    else:
        with pytest.raises(Problem, match="levels deep"):
            parse(_nested(levels))


@pytest.mark.parametrize("size", [999, 1000, 1001])
async def test_a_body_is_so_large_and_no_larger(tmp_path: Path, size: int) -> None:
    async with asked(tmp_path, rules=Rules(max_body=1000)) as (_, client):
        body = b'{"text":"%s"}' % (b"x" * (size - 11))
        headers = {"content-type": "application/json"}
        answer = await client.post("/api/runs/nobody/message", content=body, headers=headers)
        assert (len(body), answer.status_code) == (size, 404 if size <= 1000 else 413)


@pytest.mark.parametrize(
    ("verb", "field", "most"),
    [
        ("message", "text", LONGEST_TEXT),
        ("redirect", "text", LONGEST_TEXT),
        ("hand_back", "note", LONGEST_TEXT),
        ("resume", "note", LONGEST_TEXT),
        ("approve", "call_id", LONGEST_ID),
        ("return_to", "frame", LONGEST_ID),
        ("resend", "mail", LONGEST_ID),
        ("drop", "mail", LONGEST_ID),
        ("perform", "tool", LONGEST_ID),
        ("pause", "request_id", LONGEST_KEY),
    ],
)
def test_what_a_verb_is_told_is_so_long_and_no_longer(verb: str, field: str, most: int) -> None:
    asks = VERBS[verb].asks
    assert getattr(asks.model_validate({field: "x" * most}), field) == "x" * most
    with pytest.raises(ValidationError, match=f"at most {most} characters"):
        asks.model_validate({field: "x" * (most + 1)})


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_no_reason_is_too_long_for_a_stop_and_what_is_left_out_is_seen(verb: str) -> None:
    """A cancel is not refused because somebody had much to say."""
    asks = VERBS[verb].asks
    for length in (LONGEST_REASON - 1, LONGEST_REASON):
        assert asks.model_construct().reason == ""
        assert _reason(asks, "x" * length) == "x" * length
    much = _reason(asks, "x" * (LONGEST_REASON + 1))
    assert len(much) <= LONGEST_REASON and much.endswith("x… [51 characters left out]")


def _reason(asks: Any, given: str) -> str:
    needed = {name: "x" for name, field in asks.model_fields.items() if field.is_required()}
    needed |= {"patch": {}} if "patch" in needed else {}
    needed |= {"decision": "happened"} if "decision" in needed else {}
    return str(asks.model_validate({**needed, "reason": given}).reason)


async def test_a_halt_with_too_long_a_reason_is_set(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client):
        given = {"all": True, "reason": "x" * (LONGEST_REASON + 1)}
        halted = await client.post("/api/halts", json=given)
        assert (halted.status_code, halted.json()["reason"]) == (201, shortened(given["reason"]))


async def test_names_in_a_path_are_so_long_and_no_longer(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client):
        for length in (LONGEST_ID, LONGEST_ID + 1, 5 * LONGEST_ID):
            answer = await client.get(f"/api/runs/{'x' * length}")
            assert answer.status_code == 404
            assert len(answer.content) < 4 * LONGEST_ID
            assert ("nothing called" in answer.json()["detail"]) == (length > LONGEST_ID)


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        *[("0", True), (str(BIGGEST), True), (str(BIGGEST + 1), False), ("9" * (LONGEST_PLACE + 1), False)],
        *[("9" * 5000, False), ("-1", False), ("²", False), ("٣", False)],
    ],
)
async def test_a_place_in_a_record_is_a_number_that_can_be_one(tmp_path: Path, place: str, fits: bool) -> None:
    """A number of 5000 digits is none that Python reads."""
    async with asked(tmp_path) as (runs, client):
        await (await runs.start(waits, Nothing(), id="r")).cancel()
        for given in ({"params": {"after": place}}, {"headers": [(b"last-event-id", place.encode())]}):
            answer = await client.get("/api/runs/r/events", **given)
            assert answer.status_code == (200 if fits else 422), answer.text


@pytest.mark.parametrize("origin", ["http://[::1", "http://]", "://", "null", "http://here.evil", "ftp://here"])
async def test_an_origin_that_is_none_is_refused(tmp_path: Path, origin: str) -> None:
    """Also by a stranger, before anything else is looked at."""
    async with asked(tmp_path) as (_, client):
        answer = await client.post("/api/runs/r/pause", headers={"origin": origin})
        assert answer.status_code == 403, answer.text
        assert (await client.post("/api/runs/r/pause", headers={"origin": "http://here"})).status_code == 404


async def test_a_list_is_filtered_by_so_many_labels_and_no_more(tmp_path: Path) -> None:
    """More of them would be more than SQLite takes, and one socket's list would end all lists."""

    def labels(count: int) -> dict[str, str]:
        return {str(n): "x" for n in range(count)}

    async with asked(tmp_path) as (_, client):
        for count, status in ((MOST_LABELS, 200), (MOST_LABELS + 1, 422), (2000, 422)):
            label = ",".join(f"{name}:{value}" for name, value in labels(count).items())
            assert (await client.get("/api/runs", params={"label": label})).status_code == status
    assert Op.model_validate({"op": "list", "filter": {"labels": labels(MOST_LABELS)}})
    with pytest.raises(ValidationError):
        Op.model_validate({"op": "list", "filter": {"labels": labels(MOST_LABELS + 1)}})
    with pytest.raises(ValidationError):
        Op.model_validate({"op": "list", "filter": {"status": ["done"] * 40_000}})


async def test_a_page_of_the_record_is_cut_by_its_bytes_and_the_rest_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handlers, "PAGE_BYTES", 2_000)
    async with asked(tmp_path) as (runs, client):
        run = await runs.start(waits, Nothing(), id="r")
        for n in range(12):
            await run.message(f"{n} " + "x" * 500)
        await run.message("x" * 5_000)
        pages, after = [], 0
        while page := (await client.get("/api/runs/r/record", params={"after": after})).json()["events"]:
            pages.append(page)
            after = page[-1]["seq"]
        assert [event["seq"] for page in pages for event in page] == [*range(1, after + 1)]
        assert len(pages) > 4
        assert all(len(page) == 1 or len(json.dumps(page)) < 3_000 for page in pages)
        two = (await client.get("/api/runs/r/record", params={"limit": 2})).json()["events"]
        assert len(two) == 2


def test_events_kept_for_watchers_are_limited_in_number_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "RECENT", 5)
    monkeypatch.setattr(feeds, "RECENT_BYTES", 100)
    tail = Tail("r", 1, 0, ended=False)
    tail.keep([Told(n, "x", b"1") for n in range(1, 8)])
    assert [one.seq for one in tail.recent] == [3, 4, 5, 6, 7]
    tail.keep([Told(8, "x", b"1" * 98)])
    assert ([one.seq for one in tail.recent], tail.recent_bytes) == ([6, 7, 8], 100)
    tail.keep([Told(9, "x", b"1" * 101)])
    assert (list(tail.recent), tail.recent_bytes) == ([], 0)


def test_sockets_and_streams_are_limited_for_one_actor_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MOST_OF_ONE", 2)
    monkeypatch.setattr(readers, "MOST", 3)
    some, people = Readers(), [Actor("ann"), Actor("bob"), Actor("eve")]
    with some.one_more(people[0]):
        some.check(people[0])
        with some.one_more(people[0]):
            with pytest.raises(Problem, match="ann has 2"):
                some.check(people[0])
            some.check(people[1])
            with some.one_more(people[1]), pytest.raises(Problem, match="3 sockets"):
                some.check(people[2])
        some.check(people[0])
    some.check(people[0])


async def test_one_stream_too_many_is_refused_and_a_stop_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "MOST_OF_ONE", 0)
    async with asked(tmp_path) as (runs, client):
        await runs.start(waits, Nothing(), id="r")
        for path in ("/api/events", "/api/runs/r/events"):
            refused = await client.get(path)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
        assert (await client.post("/api/runs/r/cancel")).json()["answer"] == "accepted"


@asynccontextmanager
async def with_login(folder: Path) -> AsyncIterator[tuple[Sessions, httpx2.AsyncClient]]:
    async with Runtime(folder / "runs.db", drive=False) as runs:
        entry = Sessions(TOKEN, folder / "kept", Keys(runs), secure=False, cookie="c")
        rules = Rules(public=entry.public, exchange=entry.exchange, has_login=True)
        app = control_app(runs, who=entry.who, rules=rules, routes=entry.routes())
        async with _client(app) as client:
            yield entry, client
        await app.state.surface.close()


async def test_whoever_logs_in_once_too_often_logs_out_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 2)
    async with with_login(tmp_path) as (_, client):
        cookies = []
        for _ in range(3):
            answer = await client.post("/api/session", json={"token": TOKEN})
            cookies.append(answer.headers["set-cookie"].partition(";")[0])
        client.cookies.clear()
        seen = [(await client.get("/api/me", headers={"cookie": one})).status_code for one in cookies]
        assert seen == [401, 200, 200]
        assert len(json.loads((tmp_path / "kept").read_text())) == 2


async def test_strangers_send_little_and_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with with_login(tmp_path) as (_, client):
        for size, status in ((guard.STRANGERS_BODY, 401), (guard.STRANGERS_BODY + 1, 413)):
            body = b'{"token":"%s"}' % (b"x" * (size - 12))
            headers = {"content-type": "application/json"}
            assert (await client.post("/api/session", content=body, headers=headers)).status_code == status
        monkeypatch.setattr(guard, "MOST_STRANGERS", 0)
        assert (await client.post("/api/session", json={"token": TOKEN})).status_code == 429
        known = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.post("/api/runs/nobody/cancel", headers=known)).status_code == 404, "a stop passes"


@pytest.mark.parametrize(
    "kept", [b"{", b"[]", b"1", b'{"a": "x"}', b'{"a": []}', b'{"a": [1]}', b"[" * 100_000, b"\xff"]
)
async def test_a_file_of_sessions_that_is_broken_logs_everybody_out(tmp_path: Path, kept: bytes) -> None:
    (tmp_path / "kept").write_bytes(kept)
    async with with_login(tmp_path) as (_, client):
        assert (await client.get("/api/me", headers={"cookie": "c=x"})).status_code == 401
        assert (await client.post("/api/session", json={"token": TOKEN})).status_code == 204


async def test_a_link_with_the_token_leads_to_no_other_server(tmp_path: Path) -> None:
    async with with_login(tmp_path) as (_, client):
        answer = await client.get("http://here//evil.example/x", params={"token": TOKEN})
        assert (answer.status_code, answer.headers["location"]) == (303, "/evil.example/x")
    await asyncio.sleep(0)
