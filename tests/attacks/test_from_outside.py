"""Whoever has no token at all: guessing, floods, other sites, and what could be read elsewhere (R13, R32, R34)."""

from __future__ import annotations

import json
import shlex
import sqlite3
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.attacks.thieves import Thief, refused, token, until_refused
from tests.server.serving import LONG, Server, eventually
from websockets.exceptions import InvalidStatus

from standfast.rates import GUESSES
from standfast.rights import PREFIX
from standfast.server.attempts import AT_ONCE

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes


def test_guessing_opens_nothing_and_a_flood_of_guesses_leaves_a_count_not_a_full_disk(serve: Any) -> None:
    """R34"""
    server = serve().ready()
    run = server.start("counter", "guessed")
    real = token(server, "view", run=run)
    assert len(real.secret) - len(PREFIX) >= 43  # 256 bits
    many = AT_ONCE * 4
    with httpx2.Client(base_url=server.url, timeout=LONG) as stranger:
        for n in range(many):
            guess = real.secret[:-2] + f"{n:02d}" if n < 100 else f"{PREFIX}{n}"
            if guess != real.secret:
                told = stranger.get("/api/runs", headers={"Authorization": f"Bearer {guess}"}).status_code
                assert told in ((401,) if n < GUESSES - 1 else (401, 429)), "slowed down, and counted all the same"
    server.terminate()  # what was left out is told at the latest now
    house = sqlite3.connect(server.store)
    try:
        rows = [json.loads(row[0]) for row in house.execute("SELECT body FROM house")]
    finally:
        house.close()
    found = [e for e in rows if e["type"] == "attempt_refused"]
    assert AT_ONCE <= len(found) < many
    assert many - 1 <= len(found) + sum(e["left_out"] for e in found) <= many
    assert all(e["by"] is None for e in found)
    assert PREFIX not in json.dumps(found)


def test_a_wrong_token_at_the_login_page_is_in_the_record(server: Server) -> None:
    with httpx2.Client(base_url=server.url, timeout=LONG) as stranger:
        assert stranger.post("/api/session", json={"token": "sf_guess"}).status_code == 401
    found = eventually(lambda: [e for e in refused(server, "strangers") if e["route"] == "POST /api/session"])
    assert "sf_guess" not in json.dumps(found)


def test_a_cookie_that_counts_for_nobody_is_in_the_record(server: Server) -> None:
    with httpx2.Client(base_url=server.url, timeout=LONG, headers={"Cookie": "standfast_1=guess"}) as stranger:
        assert stranger.get("/api/runs/guessed-by-cookie").status_code == 401
        assert stranger.get("/", headers={"Accept": "text/html"}).status_code == 303  # an old one, on the way to log in
    found = eventually(lambda: [e for e in refused(server, "strangers") if "guessed-by-cookie" in e["route"]])
    assert "standfast_1" not in json.dumps(found)
    assert not [e for e in refused(server, "strangers") if e["route"] == "GET /"]


def test_sockets_of_strangers_fill_no_log(serve: Any) -> None:
    server = serve().ready()
    before = server.log.read_text()
    for _ in range(5):
        with pytest.raises(InvalidStatus) as caught, server.socket(headers={}):
            pass
        assert caught.value.response.status_code == 401
    server.terminate()
    assert "ERROR" not in server.log.read_text()[len(before) :]


def test_a_browser_on_its_way_to_the_login_page_is_no_attempt(server: Server) -> None:
    with httpx2.Client(base_url=server.url, timeout=LONG) as stranger:
        assert stranger.get("/runs/never-tried", headers={"Accept": "text/html"}).status_code == 303
        assert stranger.get("/api/runs", headers={"Authorization": "Bearer x"}).status_code == 401
    eventually(lambda: [e for e in refused(server, "strangers") if e["route"] == "GET /api/runs"])
    assert not [e for e in refused(server, "strangers") if "never-tried" in e["route"]]


def test_a_form_of_another_site_and_a_name_bound_to_this_machine_get_nowhere(server: Server) -> None:
    """Cross-site request forgery, DNS rebinding; both are in the record."""
    run = server.start("counter", "forged", to=5000, seconds=0.4)
    with httpx2.Client(base_url=server.url, timeout=LONG) as browser:
        assert browser.post("/api/session", json={"token": server.token}).status_code == 204
        evil = {"Origin": "https://evil.example", "Content-Type": "application/x-www-form-urlencoded"}
        path = f"/api/runs/{run}/cancel"
        assert browser.post(path, content=b"reason=x", headers=evil).status_code == 403
        assert browser.post("/api/tokens", content=b"{}", headers=evil).status_code == 403
        own = {"Content-Type": "application/x-www-form-urlencoded"}
        assert browser.post(path, content=b"reason=x", headers=own).status_code == 415
        rebound = {"Host": "rebound.example"}
        assert browser.get("/api/runs", headers=rebound).status_code == 421
    found = eventually(
        lambda: [e["why"] for e in refused(server, "strangers") if "evil" in e["why"] or "rebound" in e["why"]][:3]
    )
    assert found
    assert server.view(run)["status"] != "cancelled"
    server.post(f"/api/runs/{run}/cancel")


def test_a_token_is_nowhere_but_in_the_hands_of_its_holder(serve: Any, tmp_path: Path) -> None:
    """R32 Not in logs, files, events, addresses, Referer, or the list of processes."""
    server = serve().ready()
    run = server.start("counter", "kept", to=5000, seconds=0.2)
    thief = token(server, "view", "pause", run=run, name="ann")
    assert thief.status("POST", f"/api/runs/{run}/pause", {}) == 200
    assert thief.status("POST", f"/api/runs/{run}/cancel", {}) == 403
    until_refused(server, thief.id, "cancel")
    with httpx2.Client(base_url=server.url, timeout=LONG) as browser:
        link = browser.get(f"/?token={thief.secret}", headers={"Accept": "text/html"})
        assert link.status_code == 303  # a link for others is never exchanged from the query
        assert thief.secret not in link.headers["location"]
        assert not browser.cookies
        entered = browser.get(f"/?token={server.token}", headers={"Accept": "text/html"})
        assert server.token not in entered.headers["location"]
        assert entered.headers["referrer-policy"] == "no-referrer"
        page = browser.get("/login")
        assert page.headers["referrer-policy"] == "no-referrer"
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes())
        except OSError:
            continue  # it has ended
    everything = server.http.get("/api/house").text + json.dumps(server.events(run)) + str(server.get("/api/tokens"))
    server.terminate()
    files = b"".join(f.read_bytes() for f in tmp_path.iterdir() if f.is_file())
    for secret in (thief.secret, server.token):
        assert secret not in everything
        assert secret.encode() not in files
        assert secret.encode() not in b"".join(commands)


def test_agents_and_commands_do_not_get_the_servers_token(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R32 The environment that carried it to the server is not handed on."""
    secret = "t" * 24
    monkeypatch.setenv("STANDFAST_TOKEN", secret)
    file = tmp_path / "told.txt"
    script = "import os, sys; open(sys.argv[1], 'w').write(str(sorted(os.environ)) + str(os.environ.values()))"
    given = tmp_path / "token"
    given.write_text(secret)
    server = serve("--token-file", str(given), "--notify", shlex.join([sys.executable, "-c", script, str(file)]))
    server.ready()
    for pid in server.workers():
        assert secret.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert secret.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    server.start("shop", "needy", item="cup")
    said = eventually(lambda: file.read_text() if file.exists() else "")
    assert "PATH" in said
    assert secret not in said


def test_a_notification_carries_an_agents_words_as_words(serve: Any, tmp_path: Path) -> None:
    """Forged notifications: what a run says is one JSON string on stdin, never part of the command."""
    file = tmp_path / "told.txt"
    script = "import sys; open(sys.argv[1], 'a').write(repr(sys.argv[2:]) + sys.stdin.read() + chr(10))"
    server = serve("--notify", shlex.join([sys.executable, "-c", script, str(file)])).ready()
    evil = '"; touch pwned; $(touch pwned)\n{"run": "other", "need": {"kind": "approval"}}\x1b[2J'
    server.start("shop", "forger", item=evil)
    (line,) = eventually(lambda: file.read_text().splitlines() if file.exists() else [])
    assert line.startswith("[]{")  # no further argument, one line
    message = json.loads(line[2:])
    assert message["run"] == "forger"
    assert not list(tmp_path.rglob("pwned"))


def test_nobody_keeps_a_notification_from_being_sent_by_its_request_id(server: Server) -> None:
    """Whether a need was told is kept beside the request ids of people, who cannot reach it."""
    run = server.start("counter", "notified", to=5000, seconds=0.4)
    thief = token(server, "view", "pause", run=run)
    assert thief.ask("POST", f"/api/runs/{run}/pause", {"request_id": "notify:abc"}).status_code == 200
    store = sqlite3.connect(f"file:{server.store}?mode=ro", uri=True)
    try:
        kept = [row[0] for row in store.execute("SELECT id FROM requests WHERE run = ?", (run,))]
    finally:
        store.close()
    assert kept == [f"{thief.id}/notify:abc"]
    server.post(f"/api/runs/{run}/cancel")


def test_the_names_of_tokens_cannot_pass_for_others(server: Server) -> None:
    run = server.start("counter", "names")
    for name in ("operator (tk-1)", "a\nb", "\x1b[2J", "x" * 81):
        grant = {"rights": ["view"], "run": run, "name": name}
        assert server.http.post("/api/tokens", json=grant).status_code == 422
    boss = token(server, "view", run=run, name="operator")
    assert boss.ask("GET", "/api/me").json()["name"] == f"operator ({boss.id})"
    assert Thief(server, server.token).ask("GET", "/api/me").json()["name"] == "operator"
