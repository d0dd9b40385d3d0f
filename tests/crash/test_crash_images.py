"""Crashes at every durable write: killed processes and power cuts lose nothing and repeat nothing (R2, R4, R15)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, zip_longest
from pathlib import Path

import pytest
from tests.crash.checks import check_files, check_going_on, hashes
from tests.crash.recorder import Image, Slot, kill_images, power_images
from tests.crash.workload import record
from tests.trials import SOAK, trials

PARTS = 4
IMAGES = trials(60, 500, 5_000)  # a part
GO_ON_EVERY = 15 if SOAK else 25


def images(folder: Path, part: int) -> Iterator[tuple[Image, Path]]:
    """Images of one play after the other, kills and power cuts in turn, with the folder of the whole play."""
    seed = part
    while True:
        place = folder / f"play-{seed}"
        recording = record(place, seed)
        kills = kill_images(recording, share=(seed % 6, 6))
        cuts = power_images(recording, seed, draws=3, share=(seed % 4, 4))
        for image in chain.from_iterable(zip_longest(kills, cuts)):
            if image is not None:
                yield image, place
        seed += PARTS


@pytest.mark.soak
@pytest.mark.timeout(0 if SOAK else 900)  # it gives way to others, see tests/parts.py
@pytest.mark.parametrize("part", range(PARTS))
def test_no_crash_loses_or_repeats_anything(tmp_path: Path, part: int, capsys: pytest.CaptureFixture[str]) -> None:
    count, gone_on, bad = 0, 0, list[str]()
    whole, of = {}, Path()
    with Slot() as slot:
        for image, place in islice(images(tmp_path, part), IMAGES):
            if place != of:
                of, whole = place, hashes(place / "runs.db")
            folder = slot.show(image)
            try:
                if count % GO_ON_EVERY == part:
                    gone_on += 1
                    check_going_on(folder, image)
                check_files(folder, image, whole)
            except Exception as error:  # noqa: BLE001 - an image that raises is a bad one, and is named
                bad.append(f"play {of.name}: {image.name}: {type(error).__name__}: {error}")
            count += 1
    with capsys.disabled():
        print(f"\ncrash images, part {part + 1} of {PARTS}: {count} images, {len(bad)} bad, {gone_on} gone on from")
    assert count == IMAGES
    assert bad == []
