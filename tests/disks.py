"""A small disk of a test's own, which it can fill up."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.drivers.workers import need


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB: room for the reserve, and for the write-ahead log before its first checkpoint."""
    need("mount", shutil.which("mount") is not None and os.geteuid() == 0, "a small disk needs root")
    place = tmp_path / "disk"
    place.mkdir()
    tried = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", place], check=False, capture_output=True)
    need("mount", tried.returncode == 0, "may not mount here")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path) -> Path:
    """Write until nothing more fits, to the last byte."""
    filler = disk / "filler"
    fd = os.open(filler, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    try:
        for size in (65536, 4096, 1):
            try:
                while os.write(fd, b"x" * size):
                    pass
            except OSError:
                continue  # full
    finally:
        os.close(fd)
    return filler


def eat_reserve(store: Path) -> None:
    """As other programs of a full disk do, once the reserve was let go: nothing is left of it."""
    with store.with_name(f"{store.name}-reserve").open("r+b") as reserve:
        reserve.truncate(0)
    fill(store.parent)


class Disk:
    """A disk of 32 MB with a file system of its own, on a file."""

    def __init__(self, folder: Path) -> None:
        self._image, self.place = folder / "image", folder / "disk"
        self.place.mkdir()
        self._image.write_bytes(b"")
        os.truncate(self._image, 32_000_000)
        self._run("mkfs.ext4", "-q", self._image)
        self._run("mount", "-o", "loop", self._image, self.place)

    def turn_read_only(self) -> None:
        """As the system does after an error of the disk, whoever has files open on it."""
        self._run("mount", "-o", "remount,abort", self.place)

    def repair(self) -> None:
        """As its owner does: taken off, checked, put back."""
        self._run("umount", self.place)
        subprocess.run(["e2fsck", "-fy", self._image], check=False, capture_output=True)  # 1: it had to be repaired
        self._run("mount", "-o", "loop", self._image, self.place)

    def close(self) -> None:
        subprocess.run(["umount", "--lazy", self.place], check=True)

    def _run(self, *argv: str | Path) -> None:
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        need(str(argv[0]), done.returncode == 0, "may not be used here")


@pytest.fixture
def own_disk(tmp_path: Path) -> Iterator[Disk]:
    """A disk that can turn read-only under whoever uses it."""
    for program in ("mount", "mkfs.ext4", "e2fsck"):
        need(program, shutil.which(program) is not None and os.geteuid() == 0, "a disk of its own needs root")
    disk = Disk(tmp_path)
    yield disk
    disk.close()
