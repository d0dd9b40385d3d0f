"""A key that was replaced counts for what it signed before the change, as an anchor or the order of rows shows (R32).

Not by a date: whoever has the old key writes into what they sign whatever date they like.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.evidence.bundling import World, packed, parts_of, signed, take, words
from tests.evidence.test_key_changes import quick, rekey
from tests.evidence.world import Letters
from tests.helpers import eventually

from standfast import Runtime
from standfast.cli.app import standfast
from standfast.evidence import bundle, keys, notary
from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.halt_signatures import verifies_halts
from standfast.evidence.key_changes import KeyChange, Succession, changes_in
from standfast.evidence.keys import Key
from standfast.evidence.notary import checkpoint_now
from standfast.evidence.store_check import verify_store
from standfast.rows import HaltDoc
from standfast.stores.sqlite import SqliteStore
from standfast.verbs import halts_in, set_halt


@pytest.fixture
def mine(world: World, tmp_path: Path) -> World:
    """The store with its key and anchor, for whoever changes it."""
    return copied(world, tmp_path / "mine")


def copied(world: World, folder: Path) -> World:
    folder.mkdir()
    with sqlite3.connect(world.path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    for name in ("runs.db", "runs.db.key", "runs.db.pub", "anchor"):
        shutil.copy(world.folder / name, folder / name)
    return World(folder / "runs.db")


def changes_of(world: World) -> list[KeyChange]:
    store = SqliteStore(world.path, looks_only=True)
    try:
        return store.read(lambda tx: changes_in(tx.plain_house()))
    finally:
        store.close()


def taken(world: World, name: str = "b.zip", *, changes: list[KeyChange] | None = None) -> Path:
    """A bundle; with these changes of keys in it, which whoever has another bundle of that store has too."""
    path = world.folder / name
    with pytest.MonkeyPatch.context() as patch:
        if changes is not None:
            patch.setattr(bundle, "changes_in", lambda _: changes)
        asyncio.run(take(world, "talking", path))
    return path


def verified(path: Path, key: Path, *more: str) -> Any:
    return CliRunner().invoke(standfast, ["verify", str(path), "--key", str(key), *more])


# --- bundles --------------------------------------------------------------------------------------------


def test_a_bundle_that_the_old_key_signs_after_the_change_is_not_what_was_written(mine: World, tmp_path: Path) -> None:
    thief = copied(mine, tmp_path / "thief")
    rekey(mine)
    forged = taken(thief, changes=changes_of(mine))
    for given in ([mine.public], [thief.public], [mine.public, thief.public]):
        for anchor in (None, mine.anchor):
            report = verify_bundle(forged, given, anchor)
            assert report.verdict == "broken", words(report)
            assert "after its key had been replaced" in words(report)
            assert "as you asked" not in words(report) or thief.public in given


def test_a_bundle_of_the_old_key_with_an_earlier_date_is_not_proved_by_that(mine: World, tmp_path: Path) -> None:
    thief = copied(mine, tmp_path / "thief")
    time_of_forgery = time.time()
    rekey(mine)
    changes = changes_of(mine)
    with pytest.MonkeyPatch.context() as patch:  # dated before the change
        patch.setattr(notary, "signed", lambda key, n, at, doc: _dated(key, n, doc, time_of_forgery - 3600))
        forged = taken(thief, changes=changes)
    assert json.loads(parts_of(forged)["manifest.json"])["about"]["made"]["at"] < changes[0].at
    report = verify_bundle(forged, [mine.public])
    assert report.verdict == "unproved", words(report)
    assert not report.of("proved"), words(report)
    assert "nothing shows that it was signed before that" in words(report)


def _dated(key: Key, n: int, doc: bytes, at: float) -> Any:
    from standfast.evidence.checkpoints import signed as sign  # noqa: PLC0415 - the one that is replaced elsewhere

    said = {**json.loads(doc), "at": at}
    return sign(key, n, at, json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode())


def test_an_honest_bundle_of_before_the_change_is_proved_by_the_new_key_and_the_anchor(mine: World) -> None:
    path = taken(mine)
    done = rekey(mine)
    public, anchor = mine.folder / "runs.db.pub", mine.folder / "anchor"
    shown = verified(path, public, "--anchor", str(anchor))
    assert shown.exit_code == 0, shown.output
    assert f"signed with {done.old}, which was replaced" in shown.output
    assert "as you asked" not in shown.output
    shown = verified(path, done.kept, "--anchor", str(anchor))
    assert shown.exit_code == 0, shown.output
    shown = verified(path, public)
    assert shown.exit_code == 9, shown.output
    assert "nothing shows that it was signed before that" in shown.output
    assert "✔" not in shown.output


def test_an_honest_bundle_of_a_key_that_is_not_known_is_not_called_a_lie(mine: World, tmp_path: Path) -> None:
    """Whoever has only the new public key hears where the old one is, and nothing of the bundle is called proved."""
    path = taken(mine)
    done = rekey(mine)
    alone = tmp_path / "elsewhere.pub"
    shutil.copy(mine.folder / "runs.db.pub", alone)
    shown = verified(path, alone, "--anchor", str(mine.folder / "anchor"))
    assert shown.exit_code == 9, shown.output
    assert "none of those you trust" in shown.output
    assert f".pub.{done.old}" in shown.output
    assert "✔" not in shown.output
    assert "nothing of it is proved" in shown.output


def test_a_bundle_of_a_stranger_is_never_proved_and_a_lie_in_it_is_found(mine: World, tmp_path: Path) -> None:
    stranger = keys.make()
    honest = packed(tmp_path / "f.zip", signed(parts_of(taken(mine)), stranger))
    report = mine.verify(honest)
    assert "none of those you trust" in words(report)
    assert "is signed with another key than its manifest" in words(report)
    assert report.verdict == "broken"


def test_an_old_key_cannot_vouch_for_another_one_behind_the_new_one_s_back(mine: World, tmp_path: Path) -> None:
    """Trust in the new key goes back to the old one, and not from there to whatever else that one has signed."""
    thief = copied(mine, tmp_path / "thief")
    old = thief.key
    rekey(mine)
    rekey(thief)
    forged = taken(thief, changes=[*changes_of(mine), *changes_of(thief)])
    report = verify_bundle(forged, [mine.public], mine.anchor)
    assert "none of those you trust" in words(report)
    assert not report.of("proved"), words(report)
    assert old.public != thief.public


# --- a store --------------------------------------------------------------------------------------------


def without_the_new_key(world: World, *, row: bool) -> None:
    """What the new key has signed is cut off; the change itself is left in the record of the house, or not."""
    with sqlite3.connect(world.path) as db:
        db.execute("DELETE FROM checkpoints WHERE key = ?", (world.public,))
        if not row:
            db.execute("DELETE FROM house WHERE body LIKE '%key_changed%'")
    db.close()


def test_a_checkpoint_that_the_old_key_signs_for_the_row_of_its_own_change_is_found(mine: World) -> None:
    old = mine.key
    rekey(mine)
    without_the_new_key(mine, row=True)
    store = SqliteStore(mine.path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notary, "check_may_sign", lambda *_: None)
        checkpoint_now(store, old, "house", ["talking"])
    store.close()
    for given in (mine.public, old.public):
        report = verify_store(mine.path, [given])
        assert report.verdict == "broken", words(report)
        assert "after it had been replaced" in words(report)


def test_a_store_that_the_old_key_alone_has_signed_is_not_proved_by_the_new_one(mine: World) -> None:
    rekey(mine)
    without_the_new_key(mine, row=True)
    report = verify_store(mine.path, [mine.public], [])
    assert report.verdict != "proved"
    assert "as you asked" not in words(report)
    assert "nothing that the new one signed follows" in words(report)


# --- halts ------------------------------------------------------------------------------------------------


def halted(world: World, id_: str, key: Key) -> None:
    store = SqliteStore(world.path)
    wanted = HaltDoc(id=id_, agent="nobody", labels={}, all=False, then="pause", reason="x", by="op")
    try:
        store.write(lambda tx: set_halt(tx, wanted, lambda _: False, sign=lambda raw: (key.public, key.sign(raw))))
    finally:
        store.close()


def listed(world: World) -> dict[str, str]:
    store = SqliteStore(world.path, looks_only=True)
    try:
        found = store.read(lambda tx: halts_in(tx, verify=verifies_halts(world.path)))
    finally:
        store.close()
    return {one.id: one.signature for one in found}


def test_a_halt_that_the_old_key_signed_counts_if_it_was_set_before_the_change(mine: World) -> None:
    old = mine.key
    halted(mine, "before", old)
    rekey(mine)
    with pytest.MonkeyPatch.context() as patch:  # by somebody who asks nobody
        patch.setattr("standfast.verbs.halting.replaced_at", lambda *_: None)
        halted(mine, "after", old)
    halted(mine, "now", mine.key)
    assert listed(mine) == {"before": "good", "after": "wrong", "now": "good"}
    report = verify_store(mine.path, [mine.public])
    assert "broken halt after: it is signed with a key that had been replaced by then" in words(report)


def test_a_halt_is_not_signed_with_a_key_that_has_been_replaced(mine: World) -> None:
    """It holds all the same, unsigned, and says why."""
    old = mine.key
    rekey(mine)
    halted(mine, "late", old)
    assert listed(mine) == {"late": "none"}
    assert not verify_store(mine.path, [mine.public]).of("broken")


async def test_a_halt_in_a_process_that_goes_on_is_signed_with_the_new_key(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [quick]) as runs:
        await (await runs.start(quick, Letters())).result()
        await eventually(lambda: keys.public_path(path).exists() and runs.read(lambda tx: tx.last_checkpoint()))
        await asyncio.to_thread(rekey, World(path))
        halt = await runs.halt(agent="nobody", reason="x", id="h")
        assert halt.key == World(path).public.hex()
        await runs.lift("h")
    assert not (report := verify_store(path, [World(path).public])).of("broken"), words(report)


# --- a process that goes on ----------------------------------------------------------------------------


async def test_evidence_can_be_taken_right_after_the_key_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [quick], notary=notary.Notary(every_seconds=3600)) as runs:
        run = await runs.start(quick, Letters())
        await run.result()
        await eventually(lambda: keys.public_path(path).exists() and runs.read(lambda tx: tx.last_checkpoint()))
        with pytest.MonkeyPatch.context() as patch:  # it has not looked since
            patch.setattr(notary.Notary, "_look", lambda *_: None)
            await asyncio.to_thread(rekey, World(path))
            await run.evidence(tmp_path / "b.zip", by="ann")
    report = verify_bundle(tmp_path / "b.zip", [World(path).public])
    assert not report.of("broken"), words(report)


@pytest.mark.parametrize("name", ["runs.db.pub.bak", "runs.db.pub.0123456789abcdef", "runs.db.pub.orig~"])
def test_a_stray_file_beside_the_public_key_stops_nobody(mine: World, name: str) -> None:
    halted(mine, "h", mine.key)
    (mine.folder / name).write_text("notes\n")
    assert listed(mine) == {"h": "good"}
    report = verify_store(mine.path)
    assert report.verdict == "unproved", words(report)
    (mine.folder / "runs.db.pub.fedcba9876543210").write_bytes(keys.public_pem(keys.make().public))
    assert keys.kept_publics(mine.path) == [mine.public], "a file that is not what its name says"


# --- limits ---------------------------------------------------------------------------------------------


def test_a_long_made_up_succession_of_keys_is_followed_in_reasonable_time() -> None:
    """Each key is asked about once: 2,300 changes are what a bundle can hold, 2,000 checkpoints what can ask."""
    many = [bytes([n >> 8, n & 255]) * 16 for n in range(2_300)]
    changes = [
        KeyChange(old=a.hex(), new=b.hex(), at=1.0, old_signature="", new_signature="") for a, b in pairwise(many)
    ]
    known = Succession(changes)
    began = time.process_time()
    for _ in range(50):
        assert known.follows(many[0], many[-1])
        assert not known.follows(many[-1], many[0])
    assert time.process_time() - began < 5, "it took a second for each two before"
