"""`standfast evidence` and `standfast verify` of what it writes: words, exit codes, and nothing overwritten (R32)."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.evidence.bundling import World, packed, parts_of
from tests.helpers import database

from standfast.cli.app import standfast


def run(*arguments: object) -> Result:
    return CliRunner().invoke(standfast, [*map(str, arguments)])


def test_taken_from_the_store_and_verified_with_the_public_key_alone(world: World, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    done = run("evidence", "talking", "-o", file, "--store", world.path, "--anchor", world.folder / "anchor")
    assert done.exit_code == 0, done.output
    assert "events of run talking (cancelled)" in done.output
    assert f"standfast verify {file}" in done.output
    pub, anchor = tmp_path / "kept.pub", tmp_path / "kept.anchor"
    pub.write_bytes((world.folder / "runs.db.pub").read_bytes())
    anchor.write_bytes((world.folder / "anchor").read_bytes())
    checked = run("verify", file, "--key", pub, "--anchor", anchor)
    assert checked.exit_code == 0, checked.output
    assert "the record is what was written, as it stood on" in checked.output
    assert "claimed by whoever made the bundle" in checked.output
    assert "what no signature proves" in checked.output
    assert "paraphrase" in checked.output
    for less, missing in ((("--key", pub), "--anchor"), (("--anchor", anchor), "--key")):
        doubt = run("verify", file, *less)
        assert doubt.exit_code == 9, doubt.output
        assert missing in doubt.output
    parts = parts_of(file)
    assert parts["anchor.jsonl"].count(b"\n") == json.loads(parts["manifest.json"])["about"]["anchor_lines"] > 0
    packed(file, {**parts, "run/stops.json": parts["run/stops.json"].replace(b"ana", b"eve")})
    broken = run("verify", file, "--key", pub, "--anchor", anchor)
    assert broken.exit_code == 10
    assert "run/stops.json: it is not the part that was signed for" in broken.output
    told = json.loads(run("verify", file, "--key", pub, "--json").output)
    assert told["verdict"] == "broken"


@pytest.mark.parametrize("content", [b"", b"junk before PK\x03\x04"], ids=["empty", "prefixed"])
def test_a_zip_that_is_no_bundle_is_not_called_a_store(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "b.zip"
    file.write_bytes(content)
    told = run("verify", file)
    assert told.exit_code == 10
    assert "store" not in told.output.replace(str(tmp_path), "")


def test_on_a_disk_without_hard_links_it_is_written_and_nothing_overwritten(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    file = tmp_path / "b.zip"
    assert run("evidence", "talking", "-o", file, "--store", world.path).exit_code == 0
    assert parts_of(file)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []
    monkeypatch.setattr(os.path, "lexists", lambda _: False)  # it came while the bundle was being written
    before = file.read_bytes()
    told = run("evidence", "talking", "-o", file, "--store", world.path)
    assert (told.exit_code != 0, "is there already" in told.output) == (True, True)
    assert file.read_bytes() == before


def test_a_secret_key_is_not_repeated_and_no_other_signing_key_is_made(world: World, tmp_path: Path) -> None:
    identity = str(pytest.importorskip("pyrage").x25519.Identity.generate())
    (tmp_path / "keys").write_text(f"# created\n{identity}\n")
    for given in (identity, identity.lower(), tmp_path / "keys"):
        told = run("evidence", "talking", "-o", tmp_path / "b.zip", "--store", world.path, "--for", given)
        assert told.exit_code == 1
        assert "that is a secret key" in told.output
        assert identity.lower() not in told.output.lower()
    alone = tmp_path / "alone"
    alone.mkdir()
    with database(world.path) as source, database(alone / "runs.db") as copy:
        source.backup(copy)
    for public in (False, True):
        if public:
            (alone / "runs.db.pub").write_bytes((world.folder / "runs.db.pub").read_bytes())
        told = run("evidence", "talking", "-o", tmp_path / "b.zip", "--store", alone / "runs.db")
        assert "no other one was made" in told.output
        assert not (alone / "runs.db.key").exists()


def test_it_says_what_it_could_not_do(world: World, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    assert run("evidence", "nothing", "-o", file, "--store", world.path).exit_code == 1
    assert run("evidence", "talking", "-o", file, "--store", tmp_path / "none.db").exit_code != 0
    assert not file.exists()
    assert not (tmp_path / "none.db").exists()
    assert run("evidence", "talking", "-o", file, "--store", world.path, "--for", "age1x").exit_code == 1
    assert run("evidence", "talking", "-o", file, "--store", world.path, "--for", tmp_path / "no").exit_code == 1
    assert run("evidence", "talking", "-o", tmp_path / "no" / "b.zip", "--store", world.path).exit_code == 1
    assert run("evidence", "talking", "--store", world.path).exit_code == 2
    file.write_bytes(b"mine")
    refused = run("evidence", "talking", "-o", file, "--store", world.path)
    assert refused.exit_code == 1
    assert "is there already" in refused.output
    assert file.read_bytes() == b"mine"
    done = run("evidence", "talking", "-o", file, "--store", world.path, "--force", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["about"]["runs"][0]["id"] == "talking"
    assert told["bytes"] == file.stat().st_size


def test_recipients_come_from_a_file(world: World, tmp_path: Path) -> None:
    pyrage = pytest.importorskip("pyrage")
    keys = [str(pyrage.x25519.Identity.generate().to_public()) for _ in range(2)]
    (tmp_path / "keys").write_text(f"# those who may\n{keys[0]}\n\n{keys[1]}\n")
    done = run("evidence", "telling", "-o", tmp_path / "b.zip", "--store", world.path, "--for", tmp_path / "keys")
    assert done.exit_code == 0, done.output
    assert "does not have the agent" in done.output  # a terminal has no agent: it says so instead of leaving it out


def test_who_took_it_is_shown_by_house(world: World, tmp_path: Path) -> None:
    run("evidence", "talking", "-o", tmp_path / "b.zip", "--store", world.path, "--by", "carol")
    events = json.loads(run("house", "--store", world.path, "--json").output)
    mine = [(one["type"], one["route"]) for one in events if one["by"] == "carol"]
    assert mine == [("evidence_viewed", "command line"), ("evidence_taken", "command line")]
