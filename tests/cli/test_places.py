"""Where the runs are is said before or behind the command's name; a stop from here is a typed one (R1, R30, R31)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner
from tests.cli.places import Terminal, eventually

from standfast.cli.app import standfast

Ids = Callable[[str], str]


def test_the_place_may_stand_before_the_command(shell: Terminal, new_id: Ids) -> None:
    """R1: `standfast --store F ps` is `standfast ps --store F`, and so with a server, with --json and with --by."""
    run = new_id("before")
    shell.type("start", "counter", "--state", '{"to": 2}', "--id", run)
    shell.until(run, "done")
    typed = CliRunner().invoke(standfast, [*shell.options, "--json", "show", run], env=shell.environment)
    assert typed.exit_code == 0, typed.output
    assert json.loads(typed.stdout) == shell.json("show", run)


def test_behind_the_command_counts_more_than_before_it(shell: Terminal, tmp_path: Path) -> None:
    words = ["--store", str(tmp_path / "one.db"), "ps", "--store", str(tmp_path / "two.db")]
    typed = CliRunner().invoke(standfast, words, env=shell.environment)
    assert "two.db" in typed.output
    assert "one.db" not in typed.output


def test_two_places_are_refused_wherever_they_stand(shell: Terminal, tmp_path: Path) -> None:
    words = ["--store", str(tmp_path / "one.db"), "ps", "--url", "http://127.0.0.1:9"]
    typed = CliRunner().invoke(standfast, words, env=shell.environment)
    assert typed.exit_code == 2
    assert "two places" in typed.output


def test_a_place_before_a_command_that_has_none_is_refused(shell: Terminal) -> None:
    typed = CliRunner().invoke(standfast, ["--store", "x.db", "model", "--help"], env=shell.environment)
    assert typed.exit_code == 2
    assert "--store" in typed.output


def test_a_stop_from_the_terminal_says_so_and_marks_what_was_said(shell: Terminal, new_id: Ids) -> None:
    """R30, R31: `cancel --suspicious`: the trigger in event and receipt, the mark in the transcript."""
    run = new_id("suspicious")
    shell.type("start", "counter", "--state", '{"to": 1, "seconds": 60}', "--id", run)
    shell.server.until(run, "running")

    def said() -> str:
        return "".join(one["text"] for one in shell.json("transcript", run))

    eventually(said)
    told = shell.json("cancel", run, "--suspicious", "--reason", "it leaks", "--wait")
    assert (told["receipt"]["trigger"], len(told["receipt"]["marks"])) == ("terminal", 1)
    [mark] = told["receipt"]["marks"]
    assert [one["marks"] for one in shell.json("transcript", run) if one["call"] == mark["call"]] == [[mark["offset"]]]
    assert "⚑ stopped here as suspicious" in shell.type("transcript", run).stdout
    assert "[by a typed command]" in shell.type("receipt", run).stdout
