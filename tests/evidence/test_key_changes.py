"""A change of the store's key is a row that both keys have signed: whoever trusts one of them verifies all (R32)."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.evidence.bundling import World, packed, parts_of, signed, take, words
from tests.evidence.world import Letters
from tests.helpers import eventually

from standfast import Done, Run, Runtime, agent
from standfast.cli.app import standfast
from standfast.errors import KeyUnusable
from standfast.evidence import keys, rekeying
from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.bundle_shapes import MOST_OF_KEYS
from standfast.evidence.key_changes import KeyReplaced, signed_change
from standfast.evidence.notary import checkpoint_now
from standfast.evidence.rekeying import change_key
from standfast.evidence.store_check import verify_store
from standfast.house_events import KeyChanged
from standfast.stores.sqlite import SqliteStore


@agent("quick")
async def quick(run: Run[Letters]) -> Done[int]:
    run.note("done")
    return Done(1)


@pytest.fixture
def mine(world: World, tmp_path: Path) -> World:
    """The store with its key and anchor, for whoever changes it."""
    with sqlite3.connect(world.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    for name in ("runs.db", "runs.db.key", "runs.db.pub", "anchor"):
        shutil.copy(world.folder / name, tmp_path / name)
    return World(tmp_path / "runs.db")


def rekey(world: World, **more: Any) -> rekeying.Rekeyed:
    store = SqliteStore(world.path)
    try:
        return change_key(store, world.path, by="ana", reason="yearly", route="standfast rekey", **more)
    finally:
        store.close()


def test_either_key_alone_verifies_the_store_before_and_after_the_change(mine: World) -> None:
    old = mine.public
    done = rekey(mine)
    new = mine.public
    assert (keys.fingerprint(old), keys.fingerprint(new)) == (done.old, done.new)
    assert old != new
    assert keys.load_public(done.kept) == old
    for given in (old, new):
        report = verify_store(mine.path, [given])
        assert not report.of("broken"), words(report)
        assert f"changed from {done.old} to {done.new}" in words(report)
        assert "no row signed by both" not in words(report)
    assert "none of those you trust" in words(verify_store(mine.path, [keys.make().public]))


def test_either_key_alone_verifies_a_bundle_with_checkpoints_of_both(mine: World) -> None:
    old = mine.public
    rekey(mine)
    asyncio.run(take(mine, "talking", mine.folder / "b.zip"))
    parts = parts_of(mine.folder / "b.zip")
    signers = {json.loads(line)["key"] for line in parts["checkpoints.jsonl"].splitlines()}
    assert signers == {old.hex(), mine.public.hex()}
    for given in (old, mine.public):
        report = verify_bundle(mine.folder / "b.zip", [given], mine.anchor)
        assert report.verdict == "proved", words(report)
    lines = [json.loads(line) for line in parts["keys.jsonl"].splitlines()]
    stranger = keys.make()
    for lie in (
        {**lines[0], "old_signature": ""},
        {**lines[0], "at": lines[0]["at"] + 1},
        json.loads(signed_change(old, stranger, 1.0).line()),
    ):
        raw = json.dumps(lie, separators=(",", ":")).encode() + b"\n"
        forged = packed(mine.folder / "f.zip", signed({**parts, "keys.jsonl": raw}, stranger))
        assert "not signed by both" in words(verify_bundle(forged, [old], mine.anchor))
    without = signed({name: part for name, part in parts.items() if name != "keys.jsonl"}, mine.key)
    report = verify_bundle(packed(mine.folder / "f.zip", without), [mine.public], mine.anchor)
    assert report.verdict == "broken", words(report)


def test_what_the_old_key_signs_after_the_change_does_not_count(mine: World) -> None:
    old = mine.key
    rekey(mine)
    store = SqliteStore(mine.path)
    with pytest.raises(KeyReplaced, match="is signed with key"):
        checkpoint_now(store, old, "house", ["talking"])
    newest = store.read(lambda tx: tx.last_checkpoint())
    assert newest is not None
    assert newest.key == mine.public
    with pytest.MonkeyPatch.context() as patch:  # whoever has it signs all the same
        patch.setattr("standfast.evidence.notary.check_may_sign", lambda *_: None)
        checkpoint_now(store, old, "house", ["talking"])
    store.close()
    assert "which had been replaced by" in words(verify_store(mine.path, [mine.public]))


async def test_a_process_that_goes_on_signs_with_the_new_key(tmp_path: Path) -> None:
    """Nobody has to be restarted for it, and nothing is left unsigned."""
    path = tmp_path / "runs.db"
    async with Runtime(path, [quick]) as runs:
        await (await runs.start(quick, Letters())).result()
        await eventually(lambda: keys.public_path(path).exists() and runs.read(lambda tx: tx.last_checkpoint()))
        await asyncio.to_thread(rekey, World(path))
        run = await runs.start(quick, Letters(), id="after")
        await run.result()
    report = verify_store(path, [World(path).public])
    assert not report.of("broken"), words(report)
    assert "proved run after" in words(report)
    store = SqliteStore(path, looks_only=True)
    newest = store.read(lambda tx: tx.last_checkpoint())
    store.close()
    assert newest is not None
    assert newest.key == World(path).public


@pytest.mark.parametrize("after", ["note", "checkpoint", "key"])
def test_a_change_that_a_crash_left_half_made_is_finished_by_asking_again(mine: World, after: str) -> None:
    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    places = {
        "note": (rekeying, "checkpoint_now"),
        "checkpoint": (keys, "keep_public"),
        "key": (keys, "replace_public"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*places[after], crash)
        with pytest.raises(KeyboardInterrupt):
            rekey(mine)
    old = keys.load_public(mine.folder / "runs.db.pub")
    done = rekey(mine)
    assert done.old == keys.fingerprint(old)
    assert mine.key.public == mine.public != old
    store = SqliteStore(mine.path)
    changed = [one for one in store.read(lambda tx: tx.house(limit=10_000)) if isinstance(one, KeyChanged)]
    store.close()
    assert len(changed) == 1
    assert not verify_store(mine.path, [old]).of("broken")
    assert not list(mine.folder.glob("*.next"))


def test_a_key_that_is_lost_can_be_replaced_and_that_is_not_proved(mine: World) -> None:
    old = mine.public
    (mine.folder / "runs.db.key").unlink()
    with pytest.raises(KeyUnusable, match="is not there"):
        rekey(mine)
    rekey(mine, lost=True)
    report = verify_store(mine.path, [old, mine.public])
    assert report.verdict == "unproved"
    assert "no row signed by both says so" in words(report)
    assert not report.of("broken"), words(report)
    assert verify_store(mine.path, [old]).verdict == "broken", "nobody whom you trust vouches for the new one"


def test_a_key_that_took_another_s_place_without_a_row_signs_nothing(mine: World) -> None:
    (mine.folder / "runs.db.key").unlink()
    (mine.folder / "runs.db.pub").unlink()
    store = SqliteStore(mine.path)
    with pytest.raises(KeyReplaced):
        checkpoint_now(store, keys.load_or_make(mine.path), "house", ["talking"])
    store.close()


def test_the_command_changes_the_key_and_says_so(mine: World) -> None:
    done = CliRunner().invoke(standfast, ["rekey", "--store", str(mine.path), "--reason", "yearly", "--by", "ana"])
    assert done.exit_code == 0, done.output
    assert "signed by both" in done.output
    shown = CliRunner().invoke(standfast, ["house", "--store", str(mine.path)])
    assert "key changed claimed by ana via standfast rekey" in shown.output


def test_a_bundle_with_too_many_changes_of_keys_is_not_read(mine: World) -> None:
    rekey(mine)
    asyncio.run(take(mine, "talking", mine.folder / "b.zip"))
    parts = parts_of(mine.folder / "b.zip")
    most = MOST_OF_KEYS // len(parts["keys.jsonl"])
    for times, read in ((most, True), (most + 1, False)):
        path = packed(mine.folder / "f.zip", signed({**parts, "keys.jsonl": parts["keys.jsonl"] * times}, mine.key))
        assert ("keys.jsonl" not in words(verify_bundle(path, [mine.public], mine.anchor))) == read
