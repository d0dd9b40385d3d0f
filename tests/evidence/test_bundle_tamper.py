"""Whoever changes a bundle, or makes another one of it, is found out (R32).

What is counted is printed: `pytest -s tests/evidence/test_bundle_tamper.py`.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json, to_json
from tests.evidence.bundling import World, packed, parts_of, signed, take, words
from tests.trials import SOAK, trials

from standfast.evidence.bundle_check import verify_bundle
from standfast.evidence.bundle_shapes import MANIFEST, SIGNATURE, About
from standfast.evidence.checkpoints import signed_part
from standfast.evidence.clocks import clocks_of
from standfast.evidence.html_report import report_page
from standfast.evidence.html_text import when
from standfast.evidence.keys import Key, make
from standfast.evidence.readme import readme
from standfast.evidence.run_parts import read_run
from standfast.evidence.statements import Shown
from standfast.house_events import decode_house

EVERY_BYTE = SOAK
SMALL = trials(300, 3000, 3000)
SAMPLE = trials(40, 300, 300)


@pytest.mark.soak
@pytest.mark.timeout(0 if EVERY_BYTE else 300)
def test_a_change_of_a_single_byte_of_any_part_is_found(world: World, bundle: Path, tmp_path: Path) -> None:
    parts = parts_of(bundle)
    changed = tmp_path / "changed.zip"
    found: Counter[str] = Counter()
    for name, content in parts.items():
        places = range(len(content))
        few = len(content) <= SMALL or EVERY_BYTE
        for place in places if few else random.Random(name).sample(places, SAMPLE):
            other = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
            verdict = world.verify(packed(changed, {**parts, name: other})).verdict
            found[verdict] += 1
            assert verdict == "broken", (name, place)
    print(f"\n{found.total()} changes of single bytes tried, {dict(found)}")
    assert world.verify(packed(changed, parts)).verdict == "proved"


@pytest.mark.parametrize("key", [True, False])
def test_a_part_that_is_missing_or_was_put_in_is_found(world: World, bundle: Path, tmp_path: Path, key: bool) -> None:
    parts = parts_of(bundle)
    for name in parts:
        less = {one: content for one, content in parts.items() if one != name}
        assert world.verify(packed(tmp_path / "b.zip", less), key=key).verdict == "broken", name
    for name in ("sealed/directive.age", "anchor.jsonl", "children/1/record.jsonl", "notes.txt", "run/extra.json"):
        more = {**parts, name: b"{}"}
        assert world.verify(packed(tmp_path / "b.zip", more), key=key).verdict == "broken", name


def test_the_order_of_parts_means_nothing(world: World, bundle: Path, tmp_path: Path) -> None:
    parts = parts_of(bundle)
    again = packed(tmp_path / "b.zip", dict(reversed(parts.items())))
    assert world.verify(again).verdict == "proved"


async def test_parts_of_another_bundle_are_found(world: World, bundle: Path, tmp_path: Path) -> None:
    """Of another run, and of the same run at another time."""
    for run in ("telling", "talking"):
        await take(world, run, tmp_path / f"{run}.zip")
        mine, theirs = parts_of(bundle), parts_of(tmp_path / f"{run}.zip")
        for name in mine.keys() & theirs.keys():
            if mine[name] == theirs[name]:
                continue
            mixed = packed(tmp_path / "mixed.zip", {**mine, name: theirs[name]})
            assert world.verify(mixed).verdict == "broken", (run, name)
        both = {MANIFEST: theirs[MANIFEST], SIGNATURE: theirs[SIGNATURE]}
        assert world.verify(packed(tmp_path / "mixed.zip", {**mine, **both})).verdict == "broken"


def rewritten(parts: dict[str, bytes]) -> dict[str, bytes]:
    """Another history in the record, told the same way in all parts that follow from it."""
    changed = parts["run/record.jsonl"].replace(b"is enough", b"is plenty")
    assert changed != parts["run/record.jsonl"]
    told = read_run("talking", [json.loads(line)["body"] for line in changed.splitlines()])
    return {**parts, "run/record.jsonl": changed, **{f"run/{name}": content for name, content in told.files().items()}}


def test_a_manifest_made_again_with_another_key_is_found_by_the_key(world: World, bundle: Path, tmp_path: Path) -> None:
    stranger = make()
    forged = packed(tmp_path / "b.zip", signed(rewritten(parts_of(bundle)), stranger))
    assert "none of those you trust" in words(world.verify(forged))
    report = world.verify(forged, key=False)
    assert report.verdict == "broken", words(report)  # the chain does not hold either
    honest = packed(tmp_path / "b.zip", signed(parts_of(bundle), stranger))
    assert world.verify(honest, key=False).verdict != "proved"


def test_the_holder_of_the_key_cannot_tell_another_story_than_the_record(
    world: World, bundle: Path, tmp_path: Path
) -> None:
    """A transcript, a stop, a ledger or a report that says something else, with a signature that fits."""
    parts = parts_of(bundle)
    for name in ("transcript.json", "stops.json", "ledger.json", "redactions.json"):
        content = parts[f"run/{name}"]
        other = content.replace(b"ana", b"eve", 1) if b"ana" in content else content.replace(b"a", b"e", 1)
        assert other != content
        lie = packed(tmp_path / "b.zip", signed({**parts, f"run/{name}": other}, world.key))
        report = world.verify(lie)
        assert report.verdict == "broken"
        assert f"run/{name}: it says something else than the record" in words(report)
    for name in ("report.html", "README.txt", "clocks.json"):
        lie = packed(tmp_path / "b.zip", signed({**parts, name: parts[name].replace(b"e", b"o", 1)}, world.key))
        assert f"{name}: it says something else than the record" in words(world.verify(lie))


def test_a_manifest_that_contradicts_the_record_is_found(world: World, bundle: Path, tmp_path: Path) -> None:
    parts = parts_of(bundle)

    def lies() -> list[tuple[str, Any]]:
        return [
            ("status", lambda about: about["runs"][0].update(status="done")),
            ("agent", lambda about: about["runs"][0].update(agent="another")),
            ("seq", lambda about: about["runs"][0].update(seq=about["runs"][0]["seq"] - 1)),
            ("rows", lambda about: about["runs"][0].update(rows=1)),
            ("forgotten", lambda about: about["runs"][0].update(forgotten=True)),
            ("models", lambda about: about.update(models=["a better one"])),
            ("made", lambda about: about["made"].update(at=about["made"]["at"] - 60)),
            ("checkpoint", lambda about: about.update(checkpoint=about["checkpoint"] - 1)),
            ("no runs", lambda about: about.update(runs=[])),
            ("format", lambda about: about.update(format=99)),
        ]

    for what, lie in lies():
        told = packed(tmp_path / "b.zip", signed(parts, world.key, lie))
        assert world.verify(told).verdict == "broken", what
    newer = packed(tmp_path / "b.zip", signed(parts, world.key, lambda about: about.update(derived=99)))
    assert world.verify(newer).verdict == "unproved"  # who does not know how they were made cannot compare them


def cut(parts: dict[str, bytes], key: Key, *, backdated: bool) -> dict[str, bytes]:
    """The record up to an earlier checkpoint, everything else made again to fit it, signed with the store's own key."""
    earlier = json.loads(parts["checkpoints.jsonl"].splitlines()[0])
    doc, named = json.loads(earlier["doc"]), earlier["named"][0]
    lines = [line for line in parts["run/record.jsonl"].splitlines() if json.loads(line)["seq"] <= named["seq"]]
    assert len(lines) < len(parts["run/record.jsonl"].splitlines())
    told = read_run(named["run"], [json.loads(line)["body"] for line in lines])
    clocks = clocks_of([Shown.model_validate(doc)], [(told.run, told.stops)])
    stands = {"status": named["status"], "seq": named["seq"], "head": named["head"], "rows": len(lines)}

    def change(about: dict[str, Any]) -> None:
        about["runs"][0].update(stands)
        about["checkpoint"] = doc["n"]
        about["models"] = list(told.models)
        if backdated:
            about["made"]["at"] = doc["at"]

    about: dict[str, Any] = from_json(parts[MANIFEST])["about"]
    change(about)
    shown = About.model_validate(about)
    custody = [decode_house(json.dumps(one).encode()) for one in json.loads(parts["custody.json"])]
    changed = {
        **parts,
        **{f"run/{name}": content for name, content in told.files().items()},
        "run/record.jsonl": b"".join(line + b"\n" for line in lines),
        "checkpoints.jsonl": to_json(earlier) + b"\n",
        "clocks.json": clocks.file(),
        "README.txt": readme(shown),
        "report.html": b"".join(report_page(shown, [told], clocks, custody)),
    }
    return signed(changed, key, change)


def test_known_limit_an_end_that_the_holder_of_the_key_cuts_off_is_only_found_missing_by_its_date(
    world: World, bundle: Path, tmp_path: Path
) -> None:
    """The run as it was before it was stopped: all of it true, as of then, and it must say that it is that old."""
    parts = parts_of(bundle)
    assert world.verify(packed(tmp_path / "b.zip", cut(parts, world.key, backdated=False))).verdict == "broken"
    older = packed(tmp_path / "b.zip", cut(parts, world.key, backdated=True))
    report = world.verify(older, anchor=False)
    assert report.verdict == "unproved", words(report)
    assert "whether the end was cut off" in words(report)
    report = world.verify(older)
    assert report.verdict == "proved", words(report)
    first: dict[str, Any] = from_json(from_json(parts["checkpoints.jsonl"].splitlines()[0])["doc"])
    assert report.as_of == when(first["at"])
    assert report.as_of in report.words
    assert any("was running then" in one and "what it did after that is not in here" in one for one in report.limits)
    assert "none of those you trust" in words(world.verify(packed(older, cut(parts, make(), backdated=True))))


async def test_an_end_that_was_cut_off_is_found(world: World, tmp_path: Path) -> None:
    """Without the key at once; with it, the bundle can only claim to be older than it is."""
    await take(world, "telling", tmp_path / "whole.zip")
    parts = parts_of(tmp_path / "whole.zip")
    lines = parts["run/record.jsonl"].splitlines(keepends=True)
    for keys, file in ((make(), "stranger"), (world.key, "holder")):
        shorter = {**parts, "run/record.jsonl": b"".join(lines[:-1])}
        report = world.verify(packed(tmp_path / f"{file}.zip", signed(shorter, keys)))
        assert report.verdict == "broken", words(report)


def test_the_anchor_knows_a_checkpoint_that_was_left_out(world: World, bundle: Path, tmp_path: Path) -> None:
    """The holder of the key signs another record: without the anchor nobody sees it, and nothing is called proved."""
    parts = parts_of(bundle)
    checkpoints = [json.loads(line) for line in parts["checkpoints.jsonl"].splitlines()]
    last = checkpoints[-1]
    doc: dict[str, Any] = from_json(last["doc"])
    doc["why"] = "another"
    raw = to_json(doc)
    last["doc"] = raw.decode()
    last["signature"] = world.key.sign(b"standfast checkpoint\n" + signed_part(raw)).hex()
    lines = b"".join(to_json(one) + b"\n" for one in checkpoints)
    forged = packed(tmp_path / "b.zip", signed({**parts, "checkpoints.jsonl": lines}, world.key))
    assert world.verify(forged, anchor=False).verdict == "unproved"
    anchor = [*world.anchor, json.dumps({"n": doc["n"], "at": doc["at"], "hash": "0" * 64})]
    report = verify_bundle(forged, [world.public], anchor)
    assert "which was anchored, is another one here" in words(report)
    later = [*world.anchor, json.dumps({"n": doc["n"] + 1, "at": doc["at"] - 5, "hash": "0" * 64})]
    report = verify_bundle(bundle, [world.public], later)
    assert report.verdict == "unproved"
    assert "was anchored before this bundle says it was made, and is not in it" in words(report)


def test_an_anchor_that_does_not_hold_the_end_proves_nothing_of_it(world: World, bundle: Path) -> None:
    report = verify_bundle(bundle, [world.public], world.anchor[:1] or ["{}"])
    covered = verify_bundle(bundle, [world.public], ['{"n":99999,"at":1e12,"hash":"00"}'])
    assert covered.verdict == "unproved"
    assert "are in no checkpoint that this anchor holds" in words(covered)
    assert not report.of("broken")


def test_a_checkpoint_that_does_not_say_what_is_told_of_it_is_found(world: World, bundle: Path, tmp_path: Path) -> None:
    parts = parts_of(bundle)
    lines = [json.loads(line) for line in parts["checkpoints.jsonl"].splitlines()]
    for field, value in (("status", "done"), ("seq", 1), ("head", "00" * 32), ("run", "telling")):
        told = [{**one, "named": [{**one["named"][0], field: value}]} for one in lines]
        raw = b"".join(to_json(one) + b"\n" for one in told)
        report = world.verify(packed(tmp_path / "b.zip", signed({**parts, "checkpoints.jsonl": raw}, world.key)))
        assert "it does not say what is told of it" in words(report), field
