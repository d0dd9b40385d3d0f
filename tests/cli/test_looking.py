"""Looking at runs: list, page, events, transcript; ids may be abbreviated; nothing is changed by looking (R26, R28)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.places import Terminal, standfast_process, terminal
from tests.server.serving import Server

from standfast.cli.access import matching
from standfast.cli.app import SECTIONS, standfast

Ids = Callable[[str], str]


def finished(shell: Terminal, run: str) -> str:
    shell.type("start", "counter", "--state", '{"to": 2}', "--id", run)
    shell.until(run, "done")
    return run


def test_the_list_has_those_that_need_someone_on_top(shell: Terminal, new_id: Ids) -> None:
    needing = new_id("list-shop")
    shell.type("start", "shop", "--id", needing)
    shell.until(needing, "paused")
    done = finished(shell, new_id("list-done"))
    lines = shell.type("ps", "--text", "list-").stdout.splitlines()
    places = {run: next(n for n, line in enumerate(lines) if f" {run} " in line) for run in (needing, done)}
    assert places[needing] < places[done]
    assert "needs you: Which note?" in lines[places[needing]]
    assert [view["id"] for view in shell.json("ps", "--needs", "--text", needing)] == [needing]
    assert shell.json("ps", "--status", "done", "--text", needing) == []
    assert "no such runs" in shell.type("ps", "--agent", "nobody").stdout
    shell.type("cancel", needing, "--wait")


def test_the_same_words_whichever_way_the_run_is_reached(server: Server, new_id: Ids) -> None:
    """One interface, two ways: not a letter differs but the way itself."""
    here, there = terminal(server, "store"), terminal(server, "server")
    run = new_id("same")
    here.type("start", "shop", "--id", run)
    here.until(run, "paused")
    here.type("cancel", run, "--wait", "--reason", "to compare")
    for command in (("show", run), ("events", run), ("transcript", run), ("receipt", run), ("state", run)):
        for form in ((), ("--json",)):
            one, two = here.type(*command, *form).stdout, there.type(*command, *form).stdout
            assert one.replace(f" --store {server.store}", "") == two.replace(f" --url {server.url}", ""), command


def test_an_id_may_be_abbreviated_to_a_unique_beginning_or_ending(shell: Terminal, new_id: Ids) -> None:
    one, two = finished(shell, new_id(f"{shell.way}-a")), finished(shell, new_id(f"{shell.way}-b"))
    assert shell.json("show", f"{shell.way}-a")["id"] == one
    ambiguous = shell.type("show", f"{shell.way}-", code=1).stderr
    assert one in ambiguous
    assert two in ambiguous
    assert "there is no run 'nonsense'" in shell.type("show", "nonsense", code=1).stderr


def test_abbreviations() -> None:
    ids = ["run-abc1", "run-abd2", "mine-run-ab"]
    assert matching("run-ab", ids) == ["run-abc1", "run-abd2"]
    assert matching("abc", ids) == ["run-abc1"]
    assert matching("bd2", ids) == ["run-abd2"]
    assert matching("d2", ids) == []  # an ending needs three characters
    assert matching("", ids) == []


def test_every_event_once_and_in_order(shell: Terminal, new_id: Ids) -> None:
    """R28: with --follow until the end; --after goes on where one was."""
    run = new_id("events")
    shell.type("start", "counter", "--state", '{"to": 4, "seconds": 0.1}', "--id", run)
    events = [json.loads(line) for line in shell.type("events", run, "--follow", "--json").stdout.splitlines()]
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert events[0]["type"] == "run_started"
    assert events[-1]["type"] == "run_done"
    middle = events[len(events) // 2]["seq"]
    rest = [
        json.loads(line) for line in shell.type("events", run, "--after", str(middle), "--json").stdout.splitlines()
    ]
    assert rest == [event for event in events if event["seq"] > middle]
    assert "run done" in shell.type("events", run).stdout


def test_what_was_said_is_shown_with_its_call(shell: Terminal, new_id: Ids) -> None:
    run = finished(shell, new_id("said"))
    said = shell.type("transcript", run).stdout
    assert "── look" in said
    assert "looking at number 0" in said


def test_a_run_in_progress_has_no_receipt(shell: Terminal, new_id: Ids) -> None:
    run = new_id("going")
    shell.type("start", "counter", "--state", '{"to": 500, "seconds": 0.4}', "--id", run)
    shell.until(run, "running")
    assert "nothing has been stopped" in shell.type("receipt", run, code=3).stderr
    shell.type("cancel", run, "--wait")


def test_without_a_store_nothing_is_made_and_the_code_says_so(tmp_path: Path) -> None:
    store = tmp_path / "none.db"
    listed = CliRunner().invoke(standfast, ["ps", "--store", str(store)])
    assert listed.exit_code == 0
    assert "no runs" in listed.stdout
    paused = CliRunner().invoke(standfast, ["pause", "x", "--store", str(store)])
    assert paused.exit_code == 6
    assert "there is no store" in paused.stderr
    as_json = CliRunner().invoke(standfast, ["pause", "x", "--store", str(store), "--json"])
    assert json.loads(as_json.stdout)["error"] == "Unreachable"
    assert not store.exists()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("not a database, but long enough to be looked at as one " * 20)
    result = CliRunner().invoke(standfast, ["ps", "--store", str(tmp_path / "runs.db")])
    assert result.exit_code == 6
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("url", "token", "code", "said"),
    [
        ("http://127.0.0.1:9", "x" * 20, 6, "cannot be reached"),
        ("ftp://example.org", "x" * 20, 1, "no address of a server"),
        ("http://example.org", "x" * 20, 1, "in the clear"),
        ("http://me:secret@127.0.0.1", None, 1, "more than a place"),
    ],
)
def test_a_bad_address_is_told_before_a_token_is_sent(url: str, token: str | None, code: int, said: str) -> None:
    result = CliRunner().invoke(standfast, ["ps", "--url", url], env={"STANDFAST_TOKEN": token})
    assert result.exit_code == code
    assert said in result.stderr


def test_a_wrong_token_is_unreachable_and_says_where_to_get_one(shell: Terminal, tmp_path: Path) -> None:
    url = shell.server.url
    wrong = CliRunner().invoke(standfast, ["ps", "--url", url], env={"STANDFAST_TOKEN": "y" * 24})
    assert wrong.exit_code == 6
    assert "--token-file" in wrong.stderr
    (tmp_path / "token").write_text(f"{shell.server.token}\n")
    right = CliRunner().invoke(standfast, ["ps", "--url", url, "--token-file", str(tmp_path / "token")])
    assert right.exit_code == 0
    both = CliRunner().invoke(standfast, ["ps", "--url", url, "--store", "x.db"])
    assert both.exit_code == 2


def test_a_halt_of_nothing_is_told_in_the_words_of_the_command() -> None:
    nothing = CliRunner().invoke(standfast, ["halt", "--reason", "x"])
    assert nothing.exit_code == 2
    assert "--agent, --label, or --all; nothing was halted" in nothing.output


def test_no_command_takes_a_token_on_its_command_line() -> None:
    """Every process of the machine can read those."""
    for names in SECTIONS.values():
        for name in names:
            told = CliRunner().invoke(standfast, [name, "--help"])
            assert told.exit_code == 0, name
            assert "--token " not in told.stdout, name
            assert CliRunner().invoke(standfast, [name, "--token", "x" * 20]).exit_code == 2, "nor one that is hidden"


def test_run_ids_are_completed_from_the_store(shell: Terminal, new_id: Ids) -> None:
    run = finished(shell, new_id("completed"))
    done = standfast_process(
        env={
            "_STANDFAST_COMPLETE": "bash_complete",
            "COMP_WORDS": "standfast show completed",
            "COMP_CWORD": "2",
            "STANDFAST_STORE": str(shell.server.store),
        }
    )
    assert f"plain,{run}" in done.stdout.splitlines()
