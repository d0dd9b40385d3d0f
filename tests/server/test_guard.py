"""The guard: nobody gets in without credentials, and no other site's page acts here."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route, WebSocketRoute
from tests.server.serving import LONG, ROOT, Server
from websockets.exceptions import InvalidStatus

from standfast import Runtime
from standfast.errors import Misuse
from standfast.rates import GUESSES
from standfast.server import Actor, Rules, control_app
from standfast.server.guard import PROBES, STALE, network_of
from standfast.server.serving import Settings, check
from standfast.server.sessions import Sessions

LOGIN = {"/login", "/login.js", "/login.css"}


@pytest.fixture
def stranger(server: Server) -> Any:
    with httpx2.Client(base_url=server.url, timeout=LONG) as client:
        yield client


def every_route(app: Starlette) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for route in app.routes:
        if isinstance(route, WebSocketRoute):
            found.append(("WS", route.path))
        else:
            assert isinstance(route, Route), route
            found += [(method, route.path) for method in route.methods or ()]
    return found


async def nobody(_: Any) -> Actor | None:
    return None


async def all_routes(tmp_path: Path) -> list[tuple[str, str]]:
    async with Runtime(tmp_path / "x.db", drive=False) as runs:
        app = control_app(runs, who=nobody)
        routes = every_route(app)
        await app.state.surface.close()
        return routes


async def test_every_route_refuses_whoever_has_no_credentials(
    server: Server, stranger: httpx2.Client, tmp_path: Path
) -> None:
    routes = await all_routes(tmp_path)
    assert len(routes) > 40
    routes += [("POST", "/api/session"), ("GET", "/anything/else"), ("GET", "/docs"), ("OPTIONS", "/api/runs")]
    for method, path in routes:
        path = path.replace("{id}", "r").replace("{call_id}", "c").replace("{agent}", "counter")
        path = path.replace("{rest:path}", "x").replace("{path:path}", "x.js")
        if method == "WS":
            with pytest.raises(InvalidStatus) as refused, server.socket(headers={}):
                pass
            assert refused.value.response.status_code == 401
            continue
        answer = stranger.request(method, path, json={"token": "wrong"} if method == "POST" else None)
        if path in PROBES:
            assert answer.status_code in (200, 503)
            continue
        assert answer.status_code == 401, (method, path, answer.status_code)
        page = stranger.request(method, path, headers={"Accept": "text/html", "Content-Type": "application/json"})
        assert page.status_code in (401, 303, 422), (method, path, page.status_code)
        assert page.status_code != 303 or page.headers["location"] == "/login"


def test_the_login_page_is_all_a_stranger_sees(stranger: httpx2.Client) -> None:
    for path in LOGIN:
        answer = stranger.get(path)
        assert answer.status_code == 200
        assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "<script>" not in stranger.get("/login").text


@pytest.mark.parametrize("given", ["Bearer wrong", "Bearer", "Basic x", "Bearer \xe9"])
def test_a_wrong_token_is_none(stranger: httpx2.Client, given: str) -> None:
    assert stranger.get("/api/runs", headers={"Authorization": given.encode("latin-1")}).status_code == 401


def test_a_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use(
    server: Server, stranger: httpx2.Client
) -> None:
    answer = stranger.post("/api/session", json={"token": server.token})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "domain" not in cookie.lower()
    assert server.token not in cookie
    me = stranger.get("/api/me").json()
    assert (me["name"], me["rights"], me["runs"]) == ("operator", ["*"], None)
    kept = server.store.with_name("runs.db-sessions")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stranger.cookies[next(iter(stranger.cookies))] not in kept.read_text()
    with server.socket(headers={"Cookie": cookie.partition(";")[0]}) as page:
        assert page.hello["me"]["name"] == "operator"
    assert stranger.delete("/api/session").status_code == 204
    with httpx2.Client(base_url=server.url, headers={"Cookie": cookie.partition(";")[0]}) as old:
        assert old.get("/api/me").status_code == 401, "a cookie is worth nothing after logging out"


@pytest.mark.more
def test_another_token_of_the_server_ends_what_was_logged_in_with_the_old_one(serve: Any) -> None:
    first = serve("--token", "the-first-token-of-this-server").ready()
    cookie = first.http.post("/api/session", json={"token": first.token}).headers["set-cookie"].partition(";")[0]
    port = first.url.rpartition(":")[2]  # a cookie is a port's own
    seen = []
    for token in (first.token, "another-token-of-this-server"):
        first.close()
        first = serve("--port", port, "--token", token)
        with httpx2.Client(base_url=first.url, headers={"Cookie": cookie}) as returning:
            seen.append(returning.get("/api/me").status_code)
    assert seen == [200, 401]


@pytest.mark.more
def test_a_token_file_that_others_can_read_is_taken_with_a_warning(serve: Any, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("the-token-of-this-server")
    for mode, warned in ((0o644, True), (0o600, False)):
        file.chmod(mode)
        one = serve("--token-file", str(file))
        one.terminate()
        assert ("can read the token" in one.log.read_text()) is warned
        one.log.write_text("")


def test_a_token_in_a_link_does_not_stay_there(server: Server, stranger: httpx2.Client) -> None:
    answer = stranger.get("/runs/x", params={"token": server.token, "tab": "plan"}, headers={"Accept": "text/html"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/runs/x?tab=plan"
    assert stranger.get("/api/me").status_code == 200
    assert stranger.get("/?token=wrong", headers={"Accept": "text/html", "Cookie": ""}).status_code in (303, 200)


def test_an_address_of_a_run_leads_to_its_page(server: Server) -> None:
    """R26: what people write, /runs/ID, is where the page has that run."""
    with httpx2.Client(base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}) as http:
        found = [http.get(path).headers["location"] for path in ("/runs", "/runs/a%20b?tab=plan", "/runs//x.example/")]
    assert found == ["/#/", "/?tab=plan#/runs/a%20b", "/#/runs//x.example/"]


def test_a_wrong_token_in_a_link_leads_to_the_login_page(stranger: httpx2.Client) -> None:
    answer = stranger.get("/?token=wrong", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_another_name_that_was_bound_to_this_address_gets_nothing(server: Server, host: str) -> None:
    """DNS rebinding."""
    assert server.http.get("/api/runs", headers={"Host": host}).status_code in (400, 421)
    if host:
        with pytest.raises(InvalidStatus) as refused:
            refuse(server, {"Host": host, "Authorization": f"Bearer {server.token}"})
        assert refused.value.response.status_code in (400, 421)


def refuse(server: Server, headers: dict[str, str], **options: Any) -> None:
    """Try to open a socket; a Host header of one's own needs a raw client."""
    host = headers.pop("Host", None)
    if host is not None:
        uri = f"ws://{host.partition(':')[0]}:{server.url.rpartition(':')[2]}"
        import socket  # noqa: PLC0415

        from websockets.sync.client import connect  # noqa: PLC0415

        raw = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=LONG)
        with connect(f"{uri}/ws", sock=raw, additional_headers=headers):
            return
    with server.socket(headers=headers, **options):
        return


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1:1"])
def test_a_page_of_another_site_cannot_act(server: Server, origin: str) -> None:
    cookie = server.http.post("/api/session", json={"token": server.token}).headers["set-cookie"].partition(";")[0]
    headers = {"Origin": origin, "Cookie": cookie}
    assert server.http.post("/api/runs", json={"agent": "counter", "state": {}}, headers=headers).status_code == 403
    assert server.http.post("/api/session", json={"token": server.token}, headers=headers).status_code == 403
    with pytest.raises(InvalidStatus) as refused:
        refuse(server, headers)
    assert refused.value.response.status_code == 403


def test_the_servers_own_page_can_act(server: Server) -> None:
    assert (
        server.http.post("/api/session", json={"token": server.token}, headers={"Origin": server.url}).status_code
        == 204
    )
    with server.socket(headers={"Origin": server.url, "Authorization": f"Bearer {server.token}"}) as page:
        assert page.hello


def test_a_form_of_another_site_is_no_json(server: Server) -> None:
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"):
        answer = server.http.post("/api/runs", content=b'{"agent":"counter"}', headers={"Content-Type": kind})
        assert answer.status_code == 415
    assert server.http.post("/api/runs", content=b"{}").status_code == 415
    said = {"Sec-Fetch-Site": "cross-site"}
    assert server.http.post("/api/runs/x/pause", headers=said).status_code == 403
    assert server.http.post("/api/runs/x/pause").status_code == 404, "no body at all is no form"


def test_a_huge_body_is_refused_before_it_is_read(server: Server) -> None:
    headers = {"Content-Type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=LONG)
    with closing(connection):
        connection.putrequest("POST", "/api/runs")
        for name, value in (headers | {"Authorization": f"Bearer {server.token}", "Content-Length": "2000000"}).items():
            connection.putheader(name, value)
        connection.endheaders()  # and nothing of the body
        assert connection.getresponse().status == 413

    def chunks() -> Any:
        for _ in range(300):
            yield b" " * 10_000

    try:
        answer = server.http.post("/api/runs", content=chunks(), headers=headers)
    except httpx2.TransportError:
        pass  # it hung up while we were still sending
    else:
        assert answer.status_code == 413


def test_security_headers_are_on_everything(server: Server, stranger: httpx2.Client) -> None:
    for answer in (
        server.http.get("/"),
        server.http.get("/api/runs"),
        stranger.get("/x"),
        server.http.get("/client.js"),
    ):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


async def test_a_flood_is_slowed_down_and_stops_are_not(tmp_path: Path) -> None:
    """R34."""

    async def ann(_: Any) -> Actor:
        return Actor("ann")

    async with Runtime(tmp_path / "x.db", drive=False) as runs:
        app = control_app(runs, who=ann, rules=Rules(a_second=0.001, burst=5))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://here") as client:
            seen = [(await client.get("/api/me")).status_code for _ in range(8)]
            assert seen == [200] * 5 + [429] * 3
            for verb in ("pause", "cancel", "force"):
                assert (await client.post(f"/api/runs/nobody/{verb}")).status_code == 404
            assert (await client.post("/api/runs/nobody/resume")).status_code == 429
            assert (await client.post("/api/pause")).status_code == 429, "only a verb of a run is a stop"
        await app.state.surface.close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "--insecure-bind"),
        (["--host", "::"], "--insecure-bind"),
        (["--host", "192.0.2.1"], "--insecure-bind"),
    ],
)
def test_it_refuses_to_be_reached_from_elsewhere_in_the_clear(tmp_path: Path, options: list[str], says: str) -> None:
    argv = [sys.executable, "-m", "standfast.cli", "serve", "--store", str(tmp_path / "x.db"), "--port", "0", *options]
    ended = subprocess.run(argv, check=False, cwd=ROOT, capture_output=True, text=True, timeout=LONG)
    assert ended.returncode == 1
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("name", ["STANDFAST_TOKEN", "STANDFAST_HALT_TOKEN"])
def test_a_token_that_is_no_secret_is_refused(tmp_path: Path, name: str) -> None:
    argv = [sys.executable, "-m", "standfast.cli", "serve", "--store", str(tmp_path / "x.db"), "--port", "0"]
    short = {**os.environ, name: "short"}
    ended = subprocess.run(argv, check=False, cwd=ROOT, env=short, capture_output=True, text=True, timeout=LONG)
    assert (ended.returncode, "16 characters" in ended.stderr) == (1, True)


@pytest.mark.more
def test_an_explicit_flag_lets_it(serve: Any) -> None:
    server = serve("--host", "0.0.0.0", "--insecure-bind", agents=())
    port = server.url.rpartition(":")[2]
    headers = {"Authorization": f"Bearer {server.token}"}
    assert httpx2.get(f"http://127.0.0.1:{port}/healthz", headers=headers, timeout=LONG).status_code == 200
    assert httpx2.get(f"http://127.0.0.1:{port}/api/me", timeout=LONG).status_code == 401


def test_an_actor_can_do_only_what_it_has_the_right_to() -> None:
    from standfast.server import may  # noqa: PLC0415

    looker = Actor("ann", frozenset({"view", "pause"}))
    assert may(looker, "view", "r1")
    assert may(looker, "transcript", "r1")
    assert may(looker, "resume", "r1")
    assert may(looker, "pause", "r1")
    assert not may(looker, "cancel", "r1")
    assert not may(Actor("bob", frozenset({"*"}), frozenset({"r2"})), "pause", "r1")
    assert may(Actor("bob", frozenset({"*"}), frozenset({"r2"})), "pause", "r2")


@pytest.mark.more
def test_pages_of_an_origin_that_was_allowed_can_ask_with_a_token(serve: Any) -> None:
    theirs = "https://app.example"
    server = serve("--allow-origin", theirs, agents=())
    asks = {"Origin": theirs, "Access-Control-Request-Method": "POST"}
    with httpx2.Client(base_url=server.url, timeout=LONG) as page:
        answer = page.options("/api/runs", headers=asks)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == theirs
        assert "authorization" in answer.headers["access-control-allow-headers"]
        assert page.get("/api/runs", headers={"Origin": theirs}).status_code == 401, "still only with a token"
        token = {"Authorization": f"Bearer {server.token}"}
        answer = page.get("/api/runs", headers={"Origin": theirs, **token})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, theirs)
        other = {"Origin": "https://evil.example"}
        assert page.options("/api/runs", headers={**asks, **other}).status_code == 401
        assert "access-control-allow-origin" not in page.get("/api/runs", headers={**other, **token}).headers


@pytest.mark.more
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_beyond_this_machine_it_speaks_tls(serve: Any, tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(cert)]
    subprocess.run([*made, "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True, timeout=LONG)
    server = serve("--host", "0.0.0.0", "--certfile", str(cert), "--keyfile", str(key), agents=())
    assert server.url.startswith("https://")
    assert server.http.get("/healthz").status_code == 200
    cookie = server.http.post("/api/session", json={"token": server.token}, headers={"Origin": server.url})
    assert "Secure" in cookie.headers["set-cookie"]
    plain = {"Origin": server.url.replace("https", "http")}
    assert server.http.post("/api/session", json={"token": server.token}, headers=plain).status_code == 403
    assert server.http.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
    assert server.http.get("/healthz", headers={"Host": "192.0.2.7"}).status_code == 200, (
        "an address is no rebound name"
    )


@pytest.mark.parametrize("field", ["token", "halt_token"])
@pytest.mark.parametrize(
    "odd", ["two words of a token", "a token\nin lines and lines", "t\u00f6ken" * 5, "x" * 4097, "x" * 15]
)
def test_a_token_that_no_header_can_carry_is_refused(field: str, odd: str) -> None:
    """R33: a server that nobody could get into is not started."""
    settings = Settings(store=Path("runs.db"))
    check(replace(settings, **{field: "x" * 4096}))
    with pytest.raises(Misuse, match=r"TOKEN|token"):
        check(replace(settings, **{field: odd}))


def test_a_probe_without_a_token_is_told_yes_or_no_and_nothing_else(server: Server, stranger: httpx2.Client) -> None:
    """R34: what an orchestrator asks with; who works on what is for those who may know."""
    server.ready()
    assert stranger.get("/healthz").json() == {"ok": True}
    assert stranger.get("/readyz").json() == {"ready": True}
    assert stranger.head("/readyz").status_code == 200
    assert "workers" in server.get("/readyz")
    assert stranger.get("/readyz", headers={"Authorization": "Bearer wrong"}).status_code == 401
    for path in ("/healthz/", "/readyz/x", "//readyz", "/api/readyz"):
        assert stranger.get(path).status_code == 401, path
    assert stranger.post("/readyz", json={}).status_code == 401


async def test_a_probe_is_answered_where_the_app_is_mounted_and_a_flood_of_them_is_slowed_down(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "x.db", drive=False) as runs:
        inner = control_app(runs, who=nobody, rules=Rules(a_second=0.001, burst=5))
        app = Starlette(routes=[Mount("/agents", inner)])
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://here") as client:
            seen = [(await client.get("/agents/readyz")).status_code for _ in range(8)]
        assert seen == [200] * 5 + [429] * 3
        await inner.state.surface.close()


async def test_wrong_tokens_from_one_address_are_slowed_down_and_a_right_one_is_let_in_all_the_same(
    tmp_path: Path,
) -> None:
    """R34: also the stop of whoever shares the address with somebody who guesses."""

    async def ann(request: Any) -> Actor | None:
        return Actor("ann") if request.headers.get("authorization") == "Bearer right" else None

    async with Runtime(tmp_path / "x.db", drive=False) as runs:
        app = control_app(runs, who=ann)
        transports = {host: httpx2.ASGITransport(app=app, client=(host, 1)) for host in ("10.0.0.1", "10.0.0.2")}
        bad, good = {"authorization": "Bearer wrong"}, {"authorization": "Bearer right"}
        async with httpx2.AsyncClient(transport=transports["10.0.0.1"], base_url="http://here") as client:
            seen = [(await client.get("/api/me", headers=bad)).status_code for _ in range(GUESSES * 3)]
            assert seen[:GUESSES] == [401] * GUESSES
            assert seen.count(429) >= GUESSES
            last = await client.get("/api/me", headers=bad)
            assert (last.status_code, last.headers["retry-after"]) == (429, "60")
            assert (await client.get("/api/me?token=wrong")).status_code == 429, "shown in another way"
            assert (await client.get("/api/me", headers=good)).status_code == 200
            for verb in ("pause", "cancel", "force"):
                assert (await client.post(f"/api/runs/nobody/{verb}", headers=good)).status_code == 404
            assert (await client.get("/api/me")).status_code == 401, "who shows nothing guesses nothing"
        async with httpx2.AsyncClient(transport=transports["10.0.0.2"], base_url="http://here") as other:
            assert (await other.get("/api/me", headers=bad)).status_code == 401
        await app.state.surface.close()


def test_a_browser_whose_session_has_ended_comes_to_the_login_page_however_often_it_asks(
    server: Server, stranger: httpx2.Client
) -> None:
    """R34: a tab left open guesses nothing, and others behind the same address are not made to wait for it."""
    stale = {"Cookie": "standfast_session=expired-long-ago"}
    browser = {"Accept": "text/html", **stale}
    seen = {stranger.get("/", headers=browser).headers.get("location") for _ in range(GUESSES + 20)}
    assert seen == {"/login"}
    asked = [stranger.get("/api/runs", headers=stale).status_code for _ in range(STALE * 2)]
    assert asked[0] == 401
    assert 429 in asked, "that one is slowed down by itself"
    other = {"Cookie": "standfast_session=another-one"}
    assert stranger.get("/api/runs", headers=other).status_code == 401
    assert stranger.get("/", headers=browser).status_code == 303
    assert stranger.get("/api/me", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_an_address_of_ipv6_is_counted_with_its_network() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("10.0.0.1") == network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("") == ""


def test_a_link_in_the_place_of_a_file_beside_the_store_is_not_followed(
    server: Server, stranger: httpx2.Client
) -> None:
    """Whoever may write into the folder cannot have the server overwrite a file that is not theirs."""
    treasure = server.folder / "treasure"
    treasure.write_text("mine")
    for name in ("runs.db-sessions.new", "runs.db-sessions"):
        (server.folder / name).unlink(missing_ok=True)
        (server.folder / name).symlink_to(treasure)
    assert stranger.post("/api/session", json={"token": server.token}).status_code == 204
    assert treasure.read_text() == "mine"
    sessions = server.folder / "runs.db-sessions"
    assert not sessions.is_symlink()
    assert sessions.stat().st_mode & 0o777 == 0o600
    assert not list(server.folder.glob(".runs.db-sessions.*"))


@pytest.mark.more
@pytest.mark.parametrize("how", ["link", "writable"])
def test_sessions_that_somebody_else_can_have_written_log_nobody_in(tmp_path: Path, how: str) -> None:
    """A file with a session of their own would be a way in without a token."""
    file, elsewhere = tmp_path / "runs.db-sessions", tmp_path / "elsewhere"
    (elsewhere if how == "link" else file).write_text(json.dumps({"0" * 64: [9e12, "server:made up"]}))
    if how == "link":
        file.symlink_to(elsewhere)
    else:
        file.chmod(0o666)
    loaded = Sessions("x" * 20, file, cast("Any", None), secure=False, cookie="c", made_up=True)
    assert loaded._kept == {}  # pyright: ignore[reportPrivateUsage]
    if how == "writable":
        file.chmod(0o600)
        again = Sessions("x" * 20, file, cast("Any", None), secure=False, cookie="c", made_up=True)
        assert again._kept, "or this test shows nothing"  # pyright: ignore[reportPrivateUsage]
