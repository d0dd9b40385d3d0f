"""Whoever holds the key and makes everything again to fit a lie is found by the one check that knows it (R32)."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.evidence.bundling import World, packed, parts_of, signed, take, words
from tests.evidence.forging import Line, hash_of_line, lines_of, made_again, signed_anew

from standfast.evidence.keys import make
from standfast.evidence.report import Report
from standfast.stores.chain import NO_STATE


@pytest.fixture(scope="session")
def parts(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return second_of_two(world, tmp_path_factory.mktemp("forged"))


def second_of_two(world: World, folder: Path) -> dict[str, bytes]:
    """The parts of the second of two bundles, one right after the other: each made a checkpoint."""
    for name in ("one", "two"):
        asyncio.run(take(world, "talking", folder / f"{name}.zip"))
    return parts_of(folder / "two.zip")


def checked(world: World, tmp_path: Path, forged: dict[str, bytes]) -> Report:
    return world.verify(packed(tmp_path / "b.zip", forged), anchor=False)


def test_made_again_without_a_lie_it_fits(world: World, parts: dict[str, bytes], tmp_path: Path) -> None:
    """Or the tests below would show nothing."""
    report = checked(world, tmp_path, made_again(parts, world.key))
    assert not report.of("broken"), words(report)
    assert [one.what for one in report.of("unproved")] == ["anchor"]


def test_a_checkpoint_of_another_key_is_found(world: World, parts: dict[str, bytes], tmp_path: Path) -> None:
    """However the manifest around it is signed."""
    *before, last = lines_of(parts, "checkpoints.jsonl")
    forged = made_again(parts, world.key, checkpoints=[*before, signed_anew(last, make())])
    found = words(checked(world, tmp_path, forged))
    assert "broken checkpoints" in found
    assert "which is none of those you trust" in found


def test_checkpoints_out_of_order_are_found(world: World, parts: dict[str, bytes], tmp_path: Path) -> None:
    """Told twice, or one before the other."""
    first, *rest = lines_of(parts, "checkpoints.jsonl")
    assert len(rest) >= 2
    for told in ([first, first, *rest], [*rest[:-1], first, rest[-1]]):
        report = checked(world, tmp_path, made_again(parts, world.key, checkpoints=told))
        assert "it is not in its place" in words(report)


def test_a_checkpoint_that_does_not_follow_the_one_before_it_is_found(
    world: World, parts: dict[str, bytes], tmp_path: Path
) -> None:
    """One of two neighbours says something else, and is signed anew: the other does not name that one."""
    *before, first, last = lines_of(parts, "checkpoints.jsonl")
    numbers = [json.loads(line["doc"])["n"] for line in (first, last)]
    assert numbers[0] + 1 == numbers[1]
    other = signed_anew(first, world.key, why="another")
    report = checked(world, tmp_path, made_again(parts, world.key, checkpoints=[*before, other, last]))
    assert "it does not follow the one before it" in words(report)
    followed = [*before, other, signed_anew(last, world.key, previous=hash_of_line(other))]
    report = checked(world, tmp_path, made_again(parts, world.key, checkpoints=followed))
    assert report.verdict == "unproved", "told anew from there on: nothing but an anchor knows that"


async def test_an_anchor_inside_that_knows_another_checkpoint_is_found(world: World, tmp_path: Path) -> None:
    await take(world, "talking", tmp_path / "b.zip", anchor=world.anchor)
    inside = parts_of(tmp_path / "b.zip")
    lines = lines_of(inside, "anchor.jsonl")
    assert lines
    assert not checked(world, tmp_path, inside).of("broken")
    other = json.dumps({**lines[0], "hash": "0" * 64}).encode() + b"\n"
    _, *rest = inside["anchor.jsonl"].splitlines(keepends=True)
    forged = signed({**inside, "anchor.jsonl": b"".join([other, *rest])}, world.key)
    report = checked(world, tmp_path, forged)
    assert f"anchor.jsonl: checkpoint {lines[0]['n']} is another one there" in words(report)


@pytest.mark.parametrize(
    ("lie", "found"),
    [
        ({"agent": "another"}, "another agent or parent than its record"),
        ({"parent": "smiths"}, "another agent or parent than its record"),
        ({"status": "done"}, "does not end where the checkpoint of this bundle says"),
        ({"rows": 1}, "does not end where the checkpoint of this bundle says"),
        ({"forgotten": True}, "do not agree on whether its content was deleted"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else "",
)
def test_a_manifest_that_contradicts_the_record_is_found_though_all_else_agrees_with_it(
    world: World, parts: dict[str, bytes], tmp_path: Path, lie: Line, found: str
) -> None:
    forged = made_again(parts, world.key, change=lambda about: about["runs"][0].update(lie))
    assert found in words(checked(world, tmp_path, forged))


def emptied(line: Line) -> Line:
    """A row as it is when its content was deleted: its hash still fits."""
    state = NO_STATE if line["state"] is None else bytes.fromhex(line["state"])
    return {**line, "body": None, "state": None, "gone": (sha256(line["body"].encode()).digest() + state).hex()}


def test_rows_cannot_be_hidden_as_if_they_had_been_deleted(
    world: World, parts: dict[str, bytes], tmp_path: Path
) -> None:
    """One of them, so that it was never said or never stopped; each fits its hash."""
    record = lines_of(parts, "run/record.jsonl")
    for at in range(1, len(record)):
        hidden = [emptied(line) if n == at else line for n, line in enumerate(record)]
        report = checked(world, tmp_path, made_again(parts, world.key, record=hidden))
        assert "1 of its rows have lost their content, and others have not" in words(report), record[at]["body"]


def test_no_run_is_hidden_as_if_it_had_been_deleted(world: World, parts: dict[str, bytes], tmp_path: Path) -> None:
    """All of its rows, and nobody is on record who deleted them."""
    hidden = [emptied(line) for line in lines_of(parts, "run/record.jsonl")]
    forged = made_again(parts, world.key, record=hidden, change=lambda about: about.update(models=[]))
    report = checked(world, tmp_path, forged)
    assert "do not agree on whether its content was deleted" in words(report)


async def test_who_deleted_a_run_cannot_be_left_out(world: World, tmp_path: Path) -> None:
    await take(world, "gone", tmp_path / "b.zip")
    gone = parts_of(tmp_path / "b.zip")
    custody: list[Any] = json.loads(gone["custody.json"])
    assert not checked(world, tmp_path, made_again(gone, world.key)).of("broken")
    nobody = [one for one in custody if one["type"] != "run_forgotten"]
    assert len(nobody) == len(custody) - 1
    forged = made_again(gone, world.key, custody=nobody)
    assert "it does not say who deleted the content of run gone" in words(checked(world, tmp_path, forged))
