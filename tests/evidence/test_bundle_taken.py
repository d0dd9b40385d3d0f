"""What a bundle takes from a store, and nothing beside it: of this run, without secrets, as it was signed for (R32)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.bundling import OPENAI, World, parts_of, take, talker
from tests.helpers import database
from tests.tripwire.secrets import BANK

from standfast import LLMAgent, Runtime, models
from standfast.errors import StoreDamaged
from standfast.evidence import bundle as writing
from standfast.evidence.notary import checkpoint_now
from standfast.house_events import AttemptRefused
from standfast.stores.sqlite import SqliteStore

RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"


async def test_custody_of_other_runs_is_not_in_it(world: World, tmp_path: Path) -> None:
    """Who looked into another customer's run, and why one was deleted, is nobody's business here."""
    await take(world, "another-customer", tmp_path / "theirs.zip")
    await take(world, "talking", tmp_path / "b.zip")
    parts = parts_of(tmp_path / "b.zip")
    custody = json.loads(parts["custody.json"])
    assert custody
    assert {one["run"] for one in custody} == {"talking"}
    for name, content in parts.items():
        assert b"another-customer" not in content, name
        assert b"run_forgotten" not in content, name
    await take(world, "another-customer", tmp_path / "again.zip")
    assert len(json.loads(parts_of(tmp_path / "again.zip")["custody.json"])) > 1, "it is there where it belongs"


async def test_custody_of_children_comes_with_them(world: World, tmp_path: Path) -> None:
    both = await take(world, "smiths", tmp_path / "both.zip", children=True)
    (small,) = [one.id for one in both.runs[1:]]
    await take(world, small, tmp_path / "small.zip")
    for children, runs in ((False, {"smiths"}), (True, {"smiths", small})):
        path = tmp_path / f"{children}.zip"
        await take(world, "smiths", path, children=children)
        assert {one["run"] for one in json.loads(parts_of(path)["custody.json"])} == runs


async def test_a_secret_that_the_house_has_written_down_is_not_in_it(world: World, tmp_path: Path) -> None:
    """The record of the house may be older than what is known to be a secret."""
    copy = copied(world, tmp_path)
    store = SqliteStore(copy)
    store.write(lambda tx: tx.note(AttemptRefused(what="cancel", run="talking", why=f"not with {OPENAI}", by="eve")))
    store.close()
    with database(copy) as db:
        assert OPENAI in str(db.execute("SELECT CAST(body AS TEXT) FROM house").fetchall())
    async with Runtime(copy, [talker], drive=False) as runs:
        await runs.handle("talking").evidence(tmp_path / "b.zip")
    parts = parts_of(tmp_path / "b.zip")
    assert b"not with [redacted:api_key:" in parts["custody.json"]
    for name, content in parts.items():
        assert OPENAI.encode() not in content, name


async def test_who_took_it_is_told_without_the_secret_in_their_name(world: World, tmp_path: Path) -> None:
    async with Runtime(world.path, drive=False) as runs:
        about = await runs.handle("telling").evidence(tmp_path / "b.zip", by=f"ann {OPENAI}")
    assert str(about.made.by).startswith("ann [redacted:api_key:")
    for name, content in parts_of(tmp_path / "b.zip").items():
        assert OPENAI.encode() not in content, name


async def test_instructions_that_the_run_did_not_have_are_not_sealed_as_its_own(world: World, tmp_path: Path) -> None:
    """The agent of that name has others by now: nobody is told that the run was given those."""
    pytest.importorskip("pyrage")
    other: LLMAgent[str] = LLMAgent("teller", model=models.scripted("no"), instructions=f"{BANK} Be kind.", plan=False)
    async with Runtime(world.path, [other], drive=False) as runs:
        about = await runs.handle("telling").evidence(tmp_path / "b.zip", recipients=[RECIPIENT])
    assert (about.directive.state, about.directive.sealed_for) == ("not_available", [])
    assert "other instructions than the run had" in about.directive.why
    assert "sealed/directive.age" not in parts_of(tmp_path / "b.zip")
    mine = await take(world, "telling", tmp_path / "mine.zip", recipients=[RECIPIENT])
    assert mine.directive.state == "sealed", "the same with its own instructions, or this test shows nothing"


async def test_a_record_that_is_not_the_one_just_signed_for_is_not_exported(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody cuts its end off in the store between the signature and the writing: its rows still fit each other."""
    copy = copied(world, tmp_path)

    def signed_then_cut(*asked: Any) -> Any:
        row = checkpoint_now(*asked)
        with database(copy) as db:
            db.execute("DELETE FROM record WHERE run = 1 AND seq = (SELECT max(seq) FROM record WHERE run = 1)")
        db.close()
        return row

    monkeypatch.setattr(writing, "checkpoint_now", signed_then_cut)
    async with Runtime(copy, [talker], drive=False) as runs:
        with pytest.raises(StoreDamaged, match="not the one that was just signed for"):
            await runs.handle("talking").evidence(tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()


def copied(world: World, folder: Path) -> Path:
    """The store with its key, for whoever changes it."""
    with database(world.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    for name in ("runs.db", "runs.db.key", "runs.db.pub"):
        shutil.copy(world.folder / name, folder / name)
    return folder / "runs.db"
