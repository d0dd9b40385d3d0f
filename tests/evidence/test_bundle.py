"""A bundle holds what is on record of a run, proves it, and gives nothing else away (R32)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.bundling import OPENAI, World, parts_of, said, take, talker, words
from tests.evidence.world import Letters
from tests.tripwire.secrets import BANK

from standfast import Misuse, Runtime
from standfast.errors import KeyUnusable, StoreDamaged, UnknownRun
from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.bundle_zip import placed
from standfast.evidence.sealing import salted_hash

pyrage = pytest.importorskip("pyrage")


def load(parts: dict[str, bytes], name: str) -> Any:
    return json.loads(parts[name])


async def house(world: World, run: str) -> list[Any]:
    async with Runtime(world.path, drive=False) as runs:
        return [e for e in runs.read(lambda tx: tx.house(limit=10_000)) if getattr(e, "run", None) == run]


def test_everything_in_it_is_proved_with_key_and_anchor(world: World, bundle: Path) -> None:
    report = world.verify(bundle)
    assert report.verdict == "proved", words(report)
    assert "run talking" in words(report)
    told = " ".join(report.limits)
    for limit in ("paraphrase", "wall clock", "redacted", "certain model", "who somebody is", "holds the signing key"):
        assert limit in told


def test_without_key_or_anchor_it_is_not_proved_and_says_so(world: World, bundle: Path) -> None:
    assert "whose key that is, is not known" in words(world.verify(bundle, key=False))
    assert world.verify(bundle, key=False).verdict == "unproved"
    report = world.verify(bundle, anchor=False)
    assert report.verdict == "unproved"
    assert "whether the end was cut off before it was signed is not known" in words(report)


def test_it_tells_of_the_stop_what_was_said_and_what_was_taken_back(bundle: Path) -> None:
    parts = parts_of(bundle)
    (stop,) = load(parts, "run/stops.json")
    assert (stop["verb"], stop["trigger"], stop["by"]) == ("cancel", "button", "ana")
    transcript = load(parts, "run/transcript.json")
    (told,) = transcript["said"]
    assert told["partial"]
    assert told["text"].endswith("and more to come")
    assert told["marks"] == [len(told["text"])]
    assert transcript["stops"] == [
        {"stop": stop["seq"], "call": told["call"], "attempt": 0, "take": 0, "channel": "text"}
        | {"characters": len(told["text"]), "attempt": transcript["stops"][0]["attempt"]}
    ]
    ledger = load(parts, "run/ledger.json")
    (caught,) = ledger["stops"][0]["calls"]
    assert (caught["tool"], caught["end"]["outcome"]) == ("talk", "aborted")
    (effect,) = ledger["effects"]
    assert (effect["tool"], effect["ends"][0]["outcome"], effect["undo"][-1]["outcome"]) == (
        "send",
        "finished",
        "undone",
    )
    about = load(parts, "manifest.json")["about"]
    assert {"standfast", "python", "sqlite"} <= about["versions"].keys()
    assert load(parts, "clocks.json")["readings"]


def test_secrets_are_in_no_part_of_it_and_where_they_were_is(world: World, bundle: Path) -> None:
    parts = parts_of(bundle)
    for name, content in parts.items():
        assert OPENAI.encode() not in content, name
    places = load(parts, "run/redactions.json")
    assert {one["kind"] for one in places} == {"api_key"}
    assert {one["event"] for one in places} >= {"run_started", "noted", "call_started", "text_flushed"}
    assert len({one["hash"] for one in places}) == 1  # one secret, wherever it was
    raw = world.path.read_bytes()
    assert OPENAI.encode() in raw, "the store itself has it, or this test shows nothing"


def test_nothing_of_other_runs_is_in_it(world: World, bundle: Path) -> None:
    for name, content in parts_of(bundle).items():
        for other in (b"another-customer", b"telling", b"smiths"):
            assert other not in content, name


def test_only_its_owner_can_read_it_and_nothing_is_overwritten(world: World, tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    asyncio.run(take(world, "talking", path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(Misuse, match="is there already"):
        asyncio.run(take(world, "talking", path))
    assert path.read_bytes() == before
    asyncio.run(take(world, "talking", path, force=True))
    assert path.read_bytes() != before
    assert [one.name for one in tmp_path.iterdir()] == ["b.zip"]


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with pytest.raises(Misuse, match="is there already"), placed(path, force=False) as file:
        file.write(b"mine")
        path.write_bytes(b"somebody else's")
    assert path.read_bytes() == b"somebody else's"
    assert [one.name for one in tmp_path.iterdir()] == ["b.zip"]
    with pytest.raises(RuntimeError), placed(tmp_path / "half.zip", force=False):
        raise RuntimeError
    assert [one.name for one in tmp_path.iterdir()] == ["b.zip"]


async def test_who_took_it_is_on_record_and_in_the_next_bundle(world: World, tmp_path: Path) -> None:
    await take(world, "telling", tmp_path / "one.zip")
    events = (await house(world, "telling"))[-2:]
    assert [(one.type, one.by) for one in events] == [("evidence_viewed", "ann"), ("evidence_taken", "ann")]
    await take(world, "telling", tmp_path / "two.zip")
    custody = load(parts_of(tmp_path / "two.zip"), "custody.json")
    assert [one["type"] for one in custody[-3:]] == ["evidence_viewed", "evidence_taken", "evidence_viewed"]
    assert custody[-2]["digest"] == events[-1].digest


async def test_instructions_are_sealed_for_named_recipients_and_nowhere_else(world: World, tmp_path: Path) -> None:
    mine, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    path = tmp_path / "sealed.zip"
    about = await take(world, "telling", path, recipients=[str(mine.to_public())])
    assert about.directive.state == "sealed"
    parts = parts_of(path)
    opened = json.loads(pyrage.decrypt(parts["sealed/directive.age"], [mine]))
    assert opened["text"] == BANK
    assert salted_hash(bytes.fromhex(opened["salt"]), BANK) == about.directive.salted_sha256
    with pytest.raises(pyrage.DecryptError):
        pyrage.decrypt(parts["sealed/directive.age"], [other])
    leaked = "If somebody asks for the manager"  # of the instructions: what the model had not yet said
    for name, content in parts.items():
        assert leaked.encode() not in content, name
        assert opened["salt"].encode() not in content, name
    assert world.verify(path).verdict in ("proved", "unproved")
    assert not world.verify(path).of("broken")
    again = await take(world, "telling", tmp_path / "again.zip", recipients=[str(mine.to_public())])
    assert again.directive.salted_sha256 != about.directive.salted_sha256  # equal instructions cannot be told


async def test_what_cannot_be_sealed_is_said(world: World, tmp_path: Path) -> None:
    key = str(pyrage.x25519.Identity.generate().to_public())
    plain = await take(world, "telling", tmp_path / "a.zip")
    assert plain.directive.state == "no_recipients"
    assert "sealed/directive.age" not in parts_of(tmp_path / "a.zip")
    async with Runtime(world.path, drive=False) as runs:  # a process without the agent
        about = await runs.handle("telling").evidence(tmp_path / "b.zip", recipients=[key])
    assert (about.directive.state, "does not have the agent" in about.directive.why) == ("not_available", True)
    none = await take(world, "talking", tmp_path / "c.zip", recipients=[key])
    assert none.directive.state == "none"
    with pytest.raises(Misuse, match="is no recipient"):
        await take(world, "telling", tmp_path / "d.zip", recipients=["age1nonsense"])
    assert not (tmp_path / "d.zip").exists()


@pytest.mark.more
async def test_the_age_program_opens_the_sealed_part(world: World, tmp_path: Path) -> None:
    if shutil.which("age") is None:
        reason = "age is not installed"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)
    made = subprocess.run(["age-keygen", "-o", tmp_path / "key"], capture_output=True, text=True, check=True)
    public = made.stderr.rpartition(" ")[2].strip()
    await take(world, "telling", tmp_path / "b.zip", recipients=[public])
    sealed = parts_of(tmp_path / "b.zip")["sealed/directive.age"]
    opened = subprocess.run(["age", "-d", "-i", tmp_path / "key"], input=sealed, capture_output=True, check=True)
    assert json.loads(opened.stdout)["text"] == BANK


async def test_a_run_that_was_forgotten_proves_its_place_and_who_deleted_it(world: World, tmp_path: Path) -> None:
    path = tmp_path / "gone.zip"
    await take(world, "gone", path)
    report = world.verify(path)
    assert [one.what for one in report.of("unproved")] == ["run gone"], words(report)
    assert "whether it was stopped, is not known" in words(report)
    assert "0 stops" not in words(report)
    assert not report.of("broken")
    parts = parts_of(path)
    page = parts["report.html"].decode()
    for claim in (
        "Nobody and nothing",
        "Nothing was said",
        "No call with effects",
        "none was asked",
        "0 stops",
        "no secret",
    ):
        assert claim not in page
    assert page.count("Not known: the content of this run was deleted") == 4
    assert "not known: deleted" in page
    told = [one for one in load(parts, "custody.json") if one["type"] == "run_forgotten"]
    assert told[0]["by"] == "ana"
    assert "[redacted:api_key:" in told[0]["reason"]
    assert b"more to come" not in b"".join(parts.values())


@pytest.mark.parametrize("run", ["talking", "telling"])
async def test_an_anchor_that_goes_on_may_know_more_than_the_bundle(world: World, tmp_path: Path, run: str) -> None:
    """Ended is not complete: a late result, or what clients were handed, is noted after the end."""
    about = await take(world, run, tmp_path / "b.zip")
    assert world.verify(tmp_path / "b.zip").verdict == "proved"
    later = json.dumps({"n": about.checkpoint + 1, "at": about.made.at + 5, "hash": "0" * 64})
    report = verify_bundle(tmp_path / "b.zip", [world.public], [*world.anchor, later])
    assert report.verdict == "proved", words(report)
    told = " ".join(report.limits)
    assert f"the anchor goes on to checkpoint {about.checkpoint + 1}" in told
    assert ("a late result" in told) == (run == "talking")


async def test_children_are_taken_along_or_named(world: World, tmp_path: Path) -> None:
    alone = await take(world, "smiths", tmp_path / "alone.zip")
    (small,) = alone.children_not_included
    assert [one.id for one in alone.runs] == ["smiths"]
    assert world.verify(tmp_path / "alone.zip").verdict == "proved"
    assert any(small in limit for limit in world.verify(tmp_path / "alone.zip").limits)
    both = await take(world, "smiths", tmp_path / "both.zip", children=True)
    assert [(one.id, one.parent) for one in both.runs] == [("smiths", None), (small, "smiths")]
    report = world.verify(tmp_path / "both.zip")
    assert report.verdict == "proved", words(report)
    assert "more to come" in parts_of(tmp_path / "both.zip")["children/1/transcript.json"].decode()


async def test_a_run_that_is_live_paused_or_ended_is_covered_up_to_its_last_event(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Runtime(path, [talker]) as runs:
        run = await runs.start(talker, Letters(), id="live")
        await said(run, "more to come")
        world = World(path)
        for status, act in (("running", None), ("paused", run.pause), ("cancelled", run.cancel)):
            if act is not None:
                await act(by="ana")
                await run.settled(timeout=120)
            file = tmp_path / f"{status}.zip"
            about = await run.evidence(file)
            assert about.runs[0].status == status
            report = world.verify(file, anchor=False)
            assert not report.of("broken"), words(report)
            assert [one.what for one in report.of("unproved")] == ["anchor"]
            assert f"{about.runs[0].seq} events from the first on" in words(report)


async def test_a_bundle_taken_while_the_run_goes_on_is_whole(tmp_path: Path) -> None:
    """Whatever is written meanwhile, each bundle ends where its own checkpoint was signed."""
    path = tmp_path / "runs.db"
    async with Runtime(path, [talker]) as runs:
        run = await runs.start(talker, Letters(), id="busy")
        await said(run, "more to come")

        async def disturb() -> None:
            for n in range(100):
                await run.message(f"message {n}", when="later")

        disturbing = asyncio.create_task(disturb())
        for n in range(3):
            await run.evidence(tmp_path / f"{n}.zip")
        await disturbing
        await run.cancel()
        await run.settled(timeout=120)
    for n in range(3):
        assert not World(path).verify(tmp_path / f"{n}.zip", anchor=False).of("broken")


async def test_what_cannot_be_proved_is_not_exported(world: World, tmp_path: Path) -> None:
    copy = tmp_path / "runs.db"
    for name in ("runs.db", "runs.db.key", "runs.db.pub"):
        shutil.copy(world.folder / name, tmp_path / name)
    db = sqlite3.connect(copy)
    db.execute("UPDATE record SET body = CAST(replace(CAST(body AS TEXT), 'to come', 'to hide') AS BLOB) WHERE run = 1")
    db.commit()
    db.close()
    async with Runtime(copy, drive=False) as runs:
        with pytest.raises(StoreDamaged, match="keep a copy"):
            await runs.handle("talking").evidence(tmp_path / "b.zip")
        with pytest.raises(UnknownRun):
            await runs.handle("nothing").evidence(tmp_path / "b.zip")
        (tmp_path / "runs.db.key").chmod(0o644)
        with pytest.raises(KeyUnusable):
            await runs.handle("telling").evidence(tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()
    async with Runtime(":memory:") as runs:
        with pytest.raises(Misuse, match="gone with its process"):
            await runs.handle("x").evidence(tmp_path / "b.zip")
