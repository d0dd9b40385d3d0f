"""`standfast token` and `standfast house`, on the store file and on a server (R13, R34)."""

from __future__ import annotations

import json
from dataclasses import replace

import httpx2
from tests.cli.places import Terminal
from tests.server.serving import LONG

from standfast.stores.sqlite import SqliteStore


def shown(shell: Terminal, secret: str, path: str) -> int:
    headers = {"Authorization": f"Bearer {secret}"}
    return httpx2.get(shell.server.url + path, headers=headers, timeout=LONG).status_code


def test_a_token_is_made_told_once_listed_and_revoked(shell: Terminal) -> None:
    run = shell.server.start("counter", f"tok-{shell.way}")
    said = shell.type(*("token", "create", "--right", "view", "--right", "cancel"), "--run", run, "--name", "ann")
    secret, line = said.stdout.splitlines()
    assert secret.startswith("sf_")
    id_ = line.split()[0]
    assert f"ann: view, cancel on {run}; until " in line
    assert shown(shell, secret, f"/api/runs/{run}") == 200
    assert shown(shell, secret, "/api/house") == 403
    listed = shell.type("token", "list").stdout
    assert id_ in listed
    assert secret not in listed
    assert shell.json("token", "revoke", id_) == {"revoked": [id_]}
    assert shown(shell, secret, f"/api/runs/{run}") == 401
    assert "was revoked before" in shell.type("token", "revoke", id_).stdout
    assert next(one for one in shell.json("token", "list") if one["id"] == id_)["revoked"] is not None


def test_whatever_end_the_store_holds_can_be_shown(shell: Terminal) -> None:
    said = shell.type("token", "create", "--right", "view", "--all", "--expires", "999999w", code=None)
    assert said.exit_code != 0
    assert "ten years" in said.output
    id_ = shell.json("token", "create", "--right", "view", "--all", "--name", "far")["token"]["id"]
    store = SqliteStore(shell.server.store)
    try:
        made = next(one for one in store.read(lambda tx: tx.tokens()) if one.id == id_)
        far = replace(made, id=f"tk-far-{shell.way}", expires=1e300)
        store.write(lambda tx: tx.put_token(far, shell.way.encode()))
        assert f"tk-far-{shell.way} far: view on all runs; until second 1e+300" in shell.type("token", "list").stdout
    finally:
        store.close()


def test_options_before_the_command_count_for_tokens_too(shell: Terminal) -> None:
    made = shell.json("token", "create", "--right", "view", "--all", "--name", "before")
    listed = shell.type("--json", "token", "list").stdout
    assert made["token"]["id"] in {one["id"] for one in json.loads(listed)}


def test_tokens_are_for_one_run_for_labels_or_for_all(shell: Terminal) -> None:
    create = ("token", "create", "--right", "view")
    assert "one of --run, --label, --all" in shell.type(*create, code=2).output
    assert "one of --run, --label, --all" in shell.type(*create, "--all", "--label", "a=b", code=2).output
    labelled = shell.json(*create, "--label", "team=a", "--expires", "never")["token"]
    assert (labelled["labels"], labelled["expires"], labelled["run"]) == ({"team": "a"}, None, None)
    assert shell.json(*create, "--all", "--expires", "2h")["token"]["labels"] == {}
    shell.type(*create, "--all", "--expires", "soon", code=1)
    shell.type(*create, "--run", "no-such-run", code=1)
    shell.type("token", "create", "--right", "everything", "--all", code=2)
    shell.type("token", "revoke", "tk-absent", code=1)


def test_the_record_of_the_house_says_who_did_what_by_which_way(shell: Terminal) -> None:
    made = shell.json("token", "create", "--right", "view", "--all", "--name", f"eve {shell.way}")["token"]
    event = next(e for e in shell.json("house") if e["type"] == "token_made" and e["token"] == made["id"])
    assert event["route"] == ("command line" if shell.way == "store" else "POST /api/tokens")
    assert event["by"]
    line = next(line for line in shell.type("house").stdout.splitlines() if made["id"] in line)
    assert f"token made {'claimed ' if shell.way == 'store' else ''}by" in line
    later = shell.json("house", "--after", str(event["seq"]))
    assert all(e["seq"] > event["seq"] for e in later)


def test_a_verb_from_a_terminal_says_so_in_the_record(shell: Terminal) -> None:
    run = shell.server.start("counter", f"route-{shell.way}", to=5000, seconds=0.4)
    shell.type("cancel", run)
    asked = next(e for e in shell.server.events(run) if e["type"] == "cancel_asked")
    assert asked["route"] == ("command line" if shell.way == "store" else f"POST /api/runs/{run}/cancel")


def test_whoever_may_only_cancel_cancels_from_a_terminal(shell: Terminal) -> None:
    if shell.way == "store":
        return  # whoever has the file may look
    run = shell.server.start("counter", "blind", to=5000, seconds=0.4)
    secret = shell.json("token", "create", "--right", "cancel", "--run", run)["secret"]
    blind = Terminal(shell.server, "server", shell.options, {**shell.environment, "STANDFAST_TOKEN": secret})
    assert "needs the right 'view'" in blind.type("show", run, code=6).output
    assert "cancel accepted" in blind.type("cancel", run).stdout
    shell.until(run, "cancelled")
    assert "too late" in blind.type("cancel", run, code=4).output
