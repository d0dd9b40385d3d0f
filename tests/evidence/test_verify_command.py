"""`standfast verify` says what is proved and what is not; 0 only if everything is (R32)."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result
from tests.evidence.world import Victim

from standfast.cli.app import standfast


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(standfast, ["verify", *map(str, arguments)])


def test_with_key_and_anchor_everything_is_proved(victim: Victim) -> None:
    pub = victim.path.with_name("runs.db.pub")
    before = victim.path.read_bytes()
    done = verify(victim.path, "--key", pub, "--anchor", victim.anchor)
    assert done.exit_code == 0, done.output
    assert "everything is what was written when it was signed" in done.output
    assert "whoever holds the signing key" in done.output
    assert victim.path.read_bytes() == before


def test_without_key_or_anchor_it_says_what_is_not_proved(victim: Victim) -> None:
    pub = victim.path.with_name("runs.db.pub")
    for arguments, missing in (
        ((), ("--key", "--anchor")),
        (("--key", pub), ("--anchor",)),
        (("--anchor", victim.anchor), ("--key",)),
    ):
        done = verify(victim.path, *arguments)
        assert done.exit_code == 9, done.output
        assert "not everything is proved" in done.output
        for option in missing:
            assert f"give {option}" in done.output or f"with {option}" in done.output


def test_a_change_is_named_and_ends_with_a_code_of_its_own(victim: Victim) -> None:
    victim.db.execute("UPDATE record SET at = at + 1 WHERE run = 1 AND seq = 1")
    done = verify(victim.path)
    assert done.exit_code == 10
    assert "✖ run done: row 1 does not fit the one before it" in done.output
    assert "this is not what was written" in done.output
    told = json.loads(verify(victim.path, "--json").output)
    assert told["verdict"] == "broken"
    assert {"verdict": "broken", "what": "run done", "text": "row 1 does not fit the one before it"} in told["findings"]


def test_what_cannot_be_read_is_an_error_and_no_verdict(victim: Victim, tmp_path: Path) -> None:
    assert verify(tmp_path / "nothing.db").exit_code == 6
    assert verify(victim.path, "--key", tmp_path / "nothing").exit_code == 1
    assert verify(victim.path, "--anchor", tmp_path / "nothing").exit_code == 1
    empty = tmp_path / "empty"
    empty.touch()
    assert verify(victim.path, "--anchor", empty).exit_code == 1
    strange = tmp_path / "strange.db"
    strange.write_bytes(b"no store at all" * 100)
    assert verify(strange).exit_code == 10


def test_doctor_tells_of_signatures_and_of_what_was_changed(victim: Victim) -> None:
    def doctor() -> dict[str, str]:
        done = CliRunner().invoke(standfast, ["doctor", "--store", str(victim.path), "--json"])
        return {one["what"]: one["verdict"] for one in json.loads(done.output)["findings"]}

    assert doctor()["signed"] == "ok"
    victim.db.execute("UPDATE calls SET status = 'failed'")
    assert doctor()["signed"] == "bad"
