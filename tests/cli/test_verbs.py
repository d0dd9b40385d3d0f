"""Every verb from the command line, on a store file and on a server, with the same words and exit codes (R1)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.places import Terminal, eventually

from standfast.cli import starting

Ids = Callable[[str], str]


def start_slow(shell: Terminal, run: str) -> str:
    """A run that counts slowly, once it is running."""
    shell.type("start", "counter", "--state", '{"to": 500, "seconds": 0.4}', "--id", run)
    shell.until(run, "running")
    return run


def test_pause_and_resume_say_what_is_held_and_how_to_go_on(shell: Terminal, new_id: Ids) -> None:
    """R3, R4."""
    run = start_slow(shell, new_id("slow"))
    said = shell.type("pause", run, "--reason", "lunch", "--wait").stdout
    assert f"pause accepted: {run} is paused (user)" in said
    assert "receipt of" in said
    assert "lunch" in said
    assert f"standfast resume {run}" in shell.type("show", run).stdout
    assert "resume accepted" in shell.type("resume", run).stdout
    shell.until(run, "running")
    shell.type("cancel", run, "--wait")


def test_a_stop_whose_reason_is_no_text_takes_place(shell: Terminal, new_id: Ids) -> None:
    """R34: a shell hands over bytes, whatever they are."""
    run = start_slow(shell, new_id("slow"))
    assert "pause accepted" in shell.type("pause", run, "--reason", "caf\udce9").stdout
    assert next(e for e in shell.server.events(run) if e["type"] == "pause_asked")["reason"] == "caf\ufffd"
    shell.type("cancel", run, "--reason", "\udcff", "--wait")


def test_cancel_shows_the_receipt_and_a_second_one_is_too_late(shell: Terminal, new_id: Ids) -> None:
    """R9, R11: exit code 4 tells a script."""
    run = start_slow(shell, new_id("slow"))
    said = shell.type("cancel", run, "--reason", "enough", "--wait").stdout
    assert "cancel accepted" in said
    assert "calls begun after it was accepted: 0" in said
    late = shell.type("cancel", run, code=4)
    assert "too late: the run is already cancelled" in late.stderr
    assert shell.json("cancel", run, code=4)["answer"] == "too_late"
    assert "no open question" in shell.type("answer", run, "blue", code=4).stderr
    assert shell.json("receipt", run)["reason"] == "enough"


def test_who_did_it_is_the_user_unless_the_token_says_so(shell: Terminal, new_id: Ids) -> None:
    """R31."""
    run = start_slow(shell, new_id("slow"))
    if shell.way == "store":
        shell.type("cancel", run, "--wait", "--by", "ada")
        assert shell.json("receipt", run)["by"] == "ada"
    else:
        assert "by the token" in shell.type("cancel", run, "--by", "ada", code=1).stderr
        shell.type("cancel", run, "--wait")
        assert shell.json("receipt", run)["by"]


def test_a_redirect_is_pending_until_it_is_read(shell: Terminal, new_id: Ids) -> None:
    """R5."""
    run = new_id("shop")
    shell.type("start", "shop", "--id", run)
    shell.until(run, "paused")
    said = shell.type("redirect", run, "Ask nicely", "--next").stdout
    assert "redirect accepted" in said
    assert "redirect: " in said
    assert "Ask nicely" in shell.type("show", run).stdout
    shell.type("cancel", run, "--wait")


def test_a_message_is_told_what_will_become_of_it(shell: Terminal, new_id: Ids) -> None:
    """R19; its text comes from standard input here."""
    run = start_slow(shell, new_id("slow"))
    said = shell.type("message", run, "-", stdin="how far are you?\n").stdout
    assert "message: after this step" in said
    assert shell.json("show", run)["mail"][0]["text"] == "how far are you?"
    shell.type("cancel", run, "--wait")


def test_a_question_and_an_approval_are_answered_without_naming_the_call(shell: Terminal, new_id: Ids) -> None:
    """R14: approve with changed arguments; what stands in the way of resume is listed as commands."""
    run = new_id("shop")
    shell.type("start", "shop", "--id", run)
    shell.until(run, "paused")
    refused = shell.type("resume", run, code=3).stderr
    assert "refused:" in refused
    shown = shell.type("show", run).stdout
    assert "question: Which note?" in shown
    assert f"standfast answer {run} gift --call" in shown
    assert "not one of the options" in shell.type("answer", run, "sand", code=1).stderr
    assert "answer accepted" in shell.type("answer", run, "gift").stdout
    eventually(lambda: [need for need in shell.json("show", run)["needs"] if need["kind"] == "approval"])
    assert "no open question" in shell.type("answer", run, "gift", code=1).stderr
    assert "approve accepted" in shell.type("approve", run, "--args", '{"item": "coffee"}').stdout
    shell.until(run, "done")
    finished = [e for e in shell.server.events(run) if e["type"] == "call_finished"]
    assert finished[-1]["result"] == "sent coffee"


def test_deny_keeps_the_call_from_being_made(shell: Terminal, new_id: Ids) -> None:
    run = new_id("shop")
    shell.type("start", "shop", "--id", run)
    shell.until(run, "paused")
    shell.type("answer", run, "none")
    eventually(lambda: [need for need in shell.json("show", run)["needs"] if need["kind"] == "approval"])
    shell.type("deny", run, "--reason", "not today")
    eventually(lambda: "error" in shell.json("show", run)["holds"])
    assert "CallDenied" in shell.type("show", run).stdout
    shell.type("cancel", run, "--wait")


def test_a_paused_run_is_looked_into_edited_stepped_and_rewound(shell: Terminal, new_id: Ids) -> None:
    """R29."""
    run = start_slow(shell, new_id("slow"))
    eventually(lambda: shell.json("show", run)["step"] >= 1)
    assert "refused" in shell.type("edit", run, "--set", "to=7", code=3).stderr
    shell.type("pause", run, "--wait")
    shell.type("edit", run, "--set", "seconds=0.05", "--patch", '{"to": 600}')
    assert shell.json("state", run)["to"] == 600
    assert shell.json("state", run, "--step", "0").get("at", 0) == 0
    step = shell.json("show", run)["step"]
    shell.type("step", run)
    eventually(lambda: shell.json("show", run)["step"] > step and shell.json("show", run)["status"] == "paused")
    shell.type("rewind", run, "0", "--wait")
    assert shell.json("state", run).get("at", 0) == 0
    shell.type("cancel", run, "--wait")


def test_an_editor_changes_the_state_and_the_second_editor_is_told(
    shell: Terminal, new_id: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two people edit at once: the later one is refused, nothing is overwritten (`if_seq`)."""
    run = start_slow(shell, new_id("slow"))
    shell.type("pause", run, "--wait")

    def meanwhile(text: str, **_: object) -> str:
        shell.type("edit", run, "--set", "to=42")
        return text.replace("500", "43")

    monkeypatch.setattr(starting.click, "edit", meanwhile)
    shell.type("edit", run, code=3)
    assert shell.json("state", run)["to"] == 42
    monkeypatch.setattr(starting.click, "edit", lambda text, **_: text.replace("42", "43"))
    shell.type("edit", run)
    assert shell.json("state", run)["to"] == 43
    monkeypatch.setattr(starting.click, "edit", lambda text, **_: text)
    assert "nothing was changed" in shell.type("edit", run).stdout
    shell.type("cancel", run, "--wait")


def test_a_cancelled_run_is_taken_up_again_as_a_fork(shell: Terminal, new_id: Ids) -> None:
    """R10."""
    run = start_slow(shell, new_id("slow"))
    eventually(lambda: shell.json("show", run)["step"] >= 1)
    shell.type("cancel", run, "--wait")
    fork = shell.json("fork", run, "--at", "1", "--state", '{"to": 2, "seconds": 0, "at": 1}', "--id", new_id("fork"))
    assert fork["id"] != run
    shell.type("resume", fork["id"], "--accept-stale", code=None)
    shell.until(fork["id"], "done")


def test_asking_again_with_the_same_request_id_does_nothing_twice(shell: Terminal, new_id: Ids) -> None:
    run, key = start_slow(shell, new_id("slow")), new_id("key")
    first = shell.json("message", run, "once", "--request-id", key)
    assert shell.json("message", run, "once", "--request-id", key) == first | {
        "status": shell.json("show", run)["status"]
    }
    assert [letter["text"] for letter in shell.json("show", run)["mail"]] == ["once"]
    shell.type("cancel", run, "--wait")


def test_a_thought_is_not_abandoned_without_a_reason(shell: Terminal, new_id: Ids) -> None:
    """R22."""
    run = start_slow(shell, new_id("slow"))
    assert "--reason" in shell.type("abandon", run, "frame-0", code=2).stderr
    assert shell.type("abandon", run, "frame-0", "--reason", "obsolete", code=None).exit_code in (1, 3)
    assert shell.type("return-to", run, "frame-0", code=None).exit_code in (1, 3)
    shell.type("cancel", run, "--wait")


def test_a_doubt_needs_a_decision_in_a_word(shell: Terminal, new_id: Ids) -> None:
    run = start_slow(shell, new_id("slow"))
    assert "--happened, --not-happened or --check-again" in shell.type("resolve", run, code=2).stderr
    assert "no open doubt" in shell.type("resolve", run, "--happened", code=1).stderr
    shell.type("cancel", run, "--wait")


def test_a_run_that_was_taken_over_is_handed_back(shell: Terminal, new_id: Ids) -> None:
    """R24."""
    run = start_slow(shell, new_id("slow"))
    taken = shell.type("take-over", run, "--wait", code=None)
    if "no verb" in taken.stderr or "Not Found" in taken.stderr:
        pytest.skip("this version of the core has no take-over yet")
    assert taken.exit_code == 0, taken.output
    result = shell.json("perform", run, "look", "--args", '{"n": 7, "seconds": 0}')
    assert result["result"] == 7
    shell.type("hand-back", run, "I looked at 7 for you")
    shell.until(run, "running", "queued")
    shell.type("cancel", run, "--wait")


def test_a_state_may_come_from_a_file(shell: Terminal, new_id: Ids, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text('{"to": 2}')
    run = shell.json("start", "counter", "--state", f"@{tmp_path / 'state.json'}", "--label", "team=red")["id"]
    assert shell.until(run, "done")["labels"] == {"team": "red"}
    assert [one["id"] for one in shell.json("ps", "--label", "team=red", "--text", run)] == [run]
    assert shell.type("start", "counter", "--state", "{", code=2).stderr.count("not JSON") == 1
    assert "start" not in shell.type("start", "nobody", code=1).stdout
