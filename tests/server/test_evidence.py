"""Evidence over HTTP: for those with the right, and on record; others are refused, which is on record too (R32)."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.attacks.thieves import token, until_refused
from tests.cli.places import standfast_process, terminal
from tests.evidence.bundling import parts_of, words
from tests.programs.evidenced import INSTRUCTIONS
from tests.server.serving import Server, eventually

from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.keys import load_public

pyrage = pytest.importorskip("pyrage")
AGENTS = ("tests.programs.evidenced:AGENTS",)


@pytest.fixture(scope="module")
def identity() -> Any:
    return pyrage.x25519.Identity.generate()


@pytest.fixture(scope="module")
def seller(tmp_path_factory: pytest.TempPathFactory, identity: Any) -> Any:
    folder = tmp_path_factory.mktemp("evidence")
    key = str(identity.to_public())
    one = Server(folder, "--anchor", f"file:{folder / 'anchor'}", "--evidence-for", key, agents=AGENTS)
    try:
        yield one.ready()
    finally:
        one.close()


def stopped(server: Server, name: str) -> str:
    """A run that was cancelled in the middle of a sentence."""
    run = str(server.post("/api/runs", {"agent": "seller", "state": {"task": "sell"}, "id": name}, status=201)["id"])
    eventually(lambda: any(one["text"] for one in server.get(f"/api/runs/{run}/transcript")["transcript"]))
    server.post(f"/api/runs/{run}/cancel", {"reason": "enough", "trigger": "button"})
    server.until(run, "cancelled")
    return run


def custody(server: Server, run: str) -> list[tuple[str, str | None, str]]:
    events = server.get("/api/house", params={"limit": 1000})["events"]
    return [(one["type"], one["by"], one["route"]) for one in events if one.get("run") == run]


def test_a_bundle_comes_over_http_and_proves_itself_elsewhere(seller: Server, identity: Any, tmp_path: Path) -> None:
    run = stopped(seller, "sold")
    about = seller.get(f"/api/runs/{run}/evidence")
    assert about["instructions"] is True
    assert about["sealed_for"] == [str(identity.to_public())]
    assert about["verify"].startswith("standfast verify evidence-sold.zip --key")
    answer = seller.http.post(f"/api/runs/{run}/evidence", json={})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    assert 'filename="evidence-sold.zip"' in answer.headers["content-disposition"]
    file = tmp_path / "b.zip"
    file.write_bytes(answer.content)
    public = [load_public(f"{seller.store}.pub")]
    report = verify_bundle(file, public)
    assert [one.what for one in report.of("unproved")] == ["anchor"], words(report)
    assert not report.of("broken"), words(report)
    anchor = seller.folder / "anchor"
    upto = json.loads(parts_of(file)["manifest.json"])["about"]["checkpoint"]

    def as_of_then() -> list[str]:
        lines = anchor.read_text().splitlines() if anchor.exists() else []  # it is made with its first line
        return [line for line in lines if json.loads(line)["n"] <= upto]

    eventually(lambda: verify_bundle(file, public, as_of_then()).verdict == "proved")
    parts = parts_of(file)
    opened = json.loads(pyrage.decrypt(parts["sealed/directive.age"], [identity]))  # what only the workers have
    assert opened["text"] == INSTRUCTIONS
    assert b"HERON-NINE" not in b"".join(parts.values())
    (stop,) = json.loads(parts["run/stops.json"])
    assert (stop["trigger"], stop["reason"]) == ("button", "enough")
    taken = custody(seller, run)
    assert [kind for kind, _, _ in taken] == ["evidence_viewed", "evidence_taken"]
    assert all(by and f"/api/runs/{run}/evidence" in route for _, by, route in taken)


def test_without_the_right_it_is_refused_and_that_is_on_record(seller: Server) -> None:
    run = stopped(seller, "refused")
    before = custody(seller, run)
    guest = token(seller, "view", "pause", "redirect", "cancel", "resolve", run=run)
    for method, path in (("GET", "evidence"), ("POST", "evidence"), ("GET", "stops")):
        assert guest.status(method, f"/api/runs/{run}/{path}", {} if method == "POST" else None) == 403, path
    refused = until_refused(seller, guest.id, "take_evidence")
    assert (refused["run"], refused["what"]) == (run, "take_evidence")
    since = [kind for kind, _, _ in custody(seller, run)[len(before) :]]
    assert set(since) == {"token_made", "attempt_refused"}
    examiner = token(seller, "forensics", run=run)
    assert examiner.status("POST", f"/api/runs/{run}/evidence", {}) == 200
    other = stopped(seller, "not-theirs")
    for method in ("GET", "POST"):
        assert examiner.status(method, f"/api/runs/{other}/evidence", {} if method == "POST" else None) == 404


def test_whoever_takes_it_does_not_say_who_reads_the_instructions(
    seller: Server, identity: Any, tmp_path: Path
) -> None:
    run = stopped(seller, "whose")
    examiner = token(seller, "forensics", run=run)
    mine = pyrage.x25519.Identity.generate()
    path = f"/api/runs/{run}/evidence"
    for named in ([str(mine.to_public())], [str(identity.to_public()), str(mine.to_public())], ["age1x"], [str(mine)]):
        assert examiner.status("POST", path, {"recipients": named}) == 403
    assert until_refused(seller, examiner.id, "take_evidence")["run"] == run
    assert not [kind for kind, _, _ in custody(seller, run) if kind == "evidence_taken"]
    for named in ([], [str(identity.to_public())]):
        assert examiner.status("POST", path, {"recipients": named}) == 200
    answer = seller.http.post(path, json={"recipients": [str(mine.to_public())]})  # an operator
    (tmp_path / "b.zip").write_bytes(answer.content)
    sealed = parts_of(tmp_path / "b.zip")["sealed/directive.age"]
    assert json.loads(pyrage.decrypt(sealed, [mine]))["text"] == INSTRUCTIONS
    secret = seller.http.post(path, json={"recipients": [str(mine)]})
    assert secret.status_code == 422
    assert str(mine) not in secret.text
    assert "secret key" in secret.text


def test_who_was_shown_the_record_of_stops_is_on_record(seller: Server) -> None:
    run = stopped(seller, "shown")
    examiner = token(seller, "forensics", run=run)
    assert examiner.status("GET", f"/api/runs/{run}/stops") == 200
    viewed = [one for one in custody(seller, run) if one[0] == "evidence_viewed"]
    assert len(viewed) == 1
    assert examiner.id in str(viewed[0][1])


def test_a_request_that_makes_no_sense_leaves_nothing_behind(seller: Server) -> None:
    run = stopped(seller, "odd")
    for body in ({"recipients": ["age1nonsense"]}, {"recipients": "age1"}, {"what": 1}, {"recipients": ["x"] * 200}):
        answer = seller.http.post(f"/api/runs/{run}/evidence", json=body)
        assert answer.status_code == 422, answer.text
        assert answer.json()["hint"]
    assert seller.http.post("/api/runs/absent/evidence", json={}).status_code == 404
    assert not [kind for kind, _, _ in custody(seller, run) if kind == "evidence_taken"]
    assert not [one.name for one in seller.folder.iterdir() if "zip" in one.name or one.name.startswith("tmp")]


def test_the_terminal_takes_it_from_the_server(seller: Server, tmp_path: Path) -> None:
    run = stopped(seller, "typed")
    typing = terminal(seller, "url")
    file = tmp_path / "b.zip"
    told = typing.json("evidence", run, "-o", str(file))
    assert told["about"]["directive"]["state"] == "sealed"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not verify_bundle(file, [load_public(f"{seller.store}.pub")]).of("broken")
    typing.type("evidence", run, "-o", str(file), code=1)
    typing.type("evidence", "absent", "-o", str(tmp_path / "c.zip"), code=1)
    typing.environment["STANDFAST_TOKEN"] = token(seller, "view").secret
    refused = typing.type("evidence", run, "-o", str(tmp_path / "c.zip"), code=6)
    assert "needs the right 'forensics'" in refused.output
    assert [one.name for one in tmp_path.iterdir()] == ["b.zip"]


def test_a_file_that_is_no_store_gets_no_key_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("no store at all, just words")
    done = standfast_process("serve", "tests.programs.served:AGENTS", "--port", "0", "--store", str(file))
    assert (done.returncode, "not a database" in done.stderr) == (6, True)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.db"]


def test_a_server_is_not_started_for_a_recipient_that_is_none(tmp_path: Path) -> None:
    ended = standfast_process("serve", "--evidence-for", "age1nonsense", "--port", "0", cwd=tmp_path)
    assert ended.returncode == 1
    assert "is no recipient" in ended.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.more
def test_what_had_been_handed_to_a_client_is_in_the_bundle_and_its_report(seller: Server, tmp_path: Path) -> None:
    run = str(seller.post("/api/runs", {"agent": "seller", "state": {"task": "sell"}, "id": "seen"}, status=201)["id"])
    with seller.socket() as page:
        page.say(op="watch", run=run)
        eventually(lambda: any(one["text"] for one in seller.get(f"/api/runs/{run}/transcript")["transcript"]))
        seller.post(f"/api/runs/{run}/cancel")
        seller.until(run, "cancelled")
        eventually(lambda: seller.get(f"/api/runs/{run}/stops")["stops"][0]["told"])
    file = tmp_path / "b.zip"
    file.write_bytes(seller.http.post(f"/api/runs/{run}/evidence", json={}).content)
    report = verify_bundle(file, [load_public(f"{seller.store}.pub")])
    assert not report.of("broken"), words(report)
    parts = parts_of(file)
    (client,) = json.loads(parts["run/stops.json"])[0]["clients"]
    assert client["way"] == "page"
    assert b"What had been handed to whom" in parts["report.html"]
    assert b"last byte to" in parts["report.html"]
    assert b"last byte from the provider" in parts["report.html"]


def test_who_acted_with_a_token_is_on_record_and_shown_as_known_by_it(seller: Server, tmp_path: Path) -> None:
    """R31: the server's own token and a token of the store; the record has which, the report says that it was one."""
    run = str(seller.post("/api/runs", {"agent": "seller", "state": {"task": "sell"}, "id": "known"}, status=201)["id"])
    eventually(lambda: any(one["text"] for one in seller.get(f"/api/runs/{run}/transcript")["transcript"]))
    guest = token(seller, "view", "cancel", run=run)
    assert guest.status("POST", f"/api/runs/{run}/cancel", {"reason": "enough"}) == 200
    seller.until(run, "cancelled")
    (stop,) = seller.get(f"/api/runs/{run}/stops")["stops"]
    assert stop["by_token"] == guest.id
    made = [one for one in seller.get("/api/house", params={"limit": 1000})["events"] if one["type"] == "token_made"]
    assert made[-1]["by_token"] == "server"
    halt = seller.post("/api/halts", {"agent": "nobody", "reason": "x"}, status=201)
    seller.post(f"/api/halts/{halt['id']}/lift", {})
    house = seller.get("/api/house", params={"limit": 1000})["events"]
    assert {one["by_token"] for one in house if one["type"] in ("halt_set", "halt_lifted")} == {"server"}
    (tmp_path / "b.zip").write_bytes(seller.http.post(f"/api/runs/{run}/evidence", json={}).content)
    page = parts_of(tmp_path / "b.zip")["report.html"].decode()
    assert f"Asked: <b>{stop['by']} (by their token)</b>" in page


def test_a_halt_asked_for_with_a_token_is_known_by_it_everywhere(seller: Server, tmp_path: Path) -> None:
    """R13, R31: in the run's own record, in what it waits for, in its stops, its receipt and the report."""
    run = str(seller.post("/api/runs", {"agent": "seller", "state": {"task": "sell"}, "id": "held"}, status=201)["id"])
    eventually(lambda: any(one["text"] for one in seller.get(f"/api/runs/{run}/transcript")["transcript"]))
    halt = seller.post("/api/halts", {"agent": "seller", "reason": "leak"}, status=201)
    try:
        view = seller.until(run, "paused")
        assert halt["by_token"] == "server"
        assert view["waiting_for"] == f"halted: leak (by {halt['by']})"
        (stop,) = seller.get(f"/api/runs/{run}/stops")["stops"]
        assert (stop["verb"], stop["by_token"]) == ("halt", "server")
        assert seller.get(f"/api/runs/{run}/receipt")["by_token"] == "server"
        (tmp_path / "b.zip").write_bytes(seller.http.post(f"/api/runs/{run}/evidence", json={}).content)
        page = parts_of(tmp_path / "b.zip")["report.html"].decode()
        assert f"Asked: <b>{stop['by']} (by their token)</b>" in page
        assert f"claimed by {stop['by']}" not in page
    finally:
        seller.post(f"/api/halts/{halt['id']}/lift", {})
        seller.post(f"/api/runs/{run}/cancel")
