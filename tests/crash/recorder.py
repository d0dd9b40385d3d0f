"""A recording of every durable write of SQLite, and the files a crash at any moment would have left.

    with Recorder() as recorder:
        db = recorder.connection(path)              # looks like a connection of the sqlite3 module
        db.execute("INSERT ...")
        recorder.mark("commit 1")                   # "acknowledged to the program here"
    with Slot() as slot:
        for image in power_images(recorder.recording, seed=1):
            directory = slot.show(image)            # valid until the next show()
            ...                                     # image.acknowledged must be in there

The -shm file is left out: SQLite rebuilds it. Names are base names: one directory a recording.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import apsw
from tests.crash.apsw_connection import Connection, as_sqlite3_errors

SECTOR = 512
_CHUNK = 1 << 16
_DURABLE_KINDS = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
# SQLite syncs the directory together with the first sync of a file it created of these kinds.
_SYNCS_DIRECTORY = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL


# ---- what is recorded


@dataclass(frozen=True, slots=True)
class Open:
    """A file that appeared: created empty, or found with content from before the recording (then durable)."""

    inode: int
    name: str
    found: bytes | None


@dataclass(frozen=True, slots=True)
class Write:
    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    inode: int
    size: int


@dataclass(frozen=True, slots=True)
class Sync:
    inode: int
    directory: bool


@dataclass(frozen=True, slots=True)
class Delete:
    name: str
    directory: bool


@dataclass(frozen=True, slots=True)
class Mark:
    label: str


Op = Open | Write | Truncate | Sync | Delete | Mark
Recording = Sequence[Op]


class Recorder:
    """Keeps the order of all writes, over all its connections and threads, as the files saw them."""

    def __init__(self, busy_timeout: float = 5.0) -> None:
        self._busy_timeout = busy_timeout
        self._ops: list[Op] = []
        self._inodes: dict[str, int] = {}
        # Held around the real operation and its entry, so that both happen in one order.
        self._lock = threading.Lock()
        self._vfs = _RecordingVFS(f"recorder-{uuid4().hex}", self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._vfs.unregister()

    @property
    def recording(self) -> Recording:
        with self._lock:
            return tuple(self._ops)

    def mark(self, label: str) -> None:
        """Whatever was committed before this line has been acknowledged to the program."""
        with self._lock:
            self._ops.append(Mark(label))

    def connection(self, path: str) -> Connection:
        with as_sqlite3_errors():
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
            raw = apsw.Connection(path, flags=flags, vfs=self._vfs.vfs_name)
        raw.set_busy_timeout(int(self._busy_timeout * 1000))
        return Connection(raw, self._vfs)

    def opening(self, path: str, really_open: Callable[[], None]) -> tuple[int, bool]:
        """Inode of the file now at this path, and whether this opening created it."""
        with self._lock:
            existed = os.path.exists(path)
            found = Path(path).read_bytes() if existed and path not in self._inodes else None
            really_open()
            if existed and found is None:
                return self._inodes[path], False
            inode = len(self._ops)
            self._inodes[path] = inode
            self._ops.append(Open(inode, os.path.basename(path), found))
            return inode, not existed

    def deleting(self, path: str, directory: bool, really_delete: Callable[[], None]) -> None:
        with self._lock:
            really_delete()
            self._inodes.pop(path, None)
            self._ops.append(Delete(os.path.basename(path), directory))

    def changing(self, op: Write | Truncate | Sync, really_change: Callable[[], None]) -> None:
        with self._lock:
            really_change()
            self._ops.append(op)


class _RecordingVFS(apsw.VFS):
    def __init__(self, name: str, recorder: Recorder) -> None:
        self.vfs_name = name
        self._recorder = recorder
        super().__init__(name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None or not flags[0] & _DURABLE_KINDS:
            return super().xOpen(name, flags)
        return _RecordingFile(self._recorder, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self._recorder.deleting(filename, bool(syncdir), lambda: super(_RecordingVFS, self).xDelete(filename, syncdir))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, recorder: Recorder, name: str | apsw.URIFilename, flags: list[int]) -> None:
        path = name if isinstance(name, str) else name.filename()
        self._recorder = recorder
        self._inode, created = recorder.opening(path, lambda: super(_RecordingFile, self).__init__("", name, flags))
        self._directory_unsynced = created and bool(flags[0] & _SYNCS_DIRECTORY)

    def xWrite(self, data: Any, offset: int) -> None:
        op = Write(self._inode, offset, bytes(data))
        file: Any = super()
        self._recorder.changing(op, lambda: file.xWrite(data, offset))

    def xTruncate(self, newsize: int) -> None:
        op = Truncate(self._inode, newsize)
        self._recorder.changing(op, lambda: super(_RecordingFile, self).xTruncate(newsize))

    def xSync(self, flags: int) -> None:
        # Only noted: the images decide what a sync saves, the recorded files themselves need no disk.
        self._recorder.changing(Sync(self._inode, self._directory_unsynced), lambda: None)
        self._directory_unsynced = False


# ---- what a crash leaves


@dataclass(frozen=True, slots=True)
class Image:
    """The files one crash leaves, and what the program had been told before it."""

    name: str  # says how to make it again
    files: Mapping[str, bytes]
    acknowledged: tuple[str, ...]


@dataclass(slots=True)
class _File:
    durable: bytes = b""  # what survives for certain
    pending: list[tuple[int, Write | Truncate]] = field(
        default_factory=list[tuple[int, Write | Truncate]]
    )  # since its sync: (moment, change)


Keep = Callable[[int, Write | Truncate], list[Write | Truncate]]


class _Disk:
    """Tells what is durable from what is only in the operating system's memory."""

    def __init__(self) -> None:
        self.files: dict[int, _File] = {}
        self.names: dict[str, int] = {}
        self.pending_names: list[tuple[str, int | None]] = []
        self.acknowledged: tuple[str, ...] = ()

    def apply(self, moment: int, op: Op) -> None:
        match op:
            case Open(inode, name, found):
                self.files[inode] = _File(found or b"")
                self.pending_names.append((name, inode))
                if found is not None:
                    self._sync_directory()
            case Write(inode) | Truncate(inode):
                self.files[inode].pending.append((moment, op))
            case Sync(inode, directory):
                file = self.files[inode]
                file.durable, file.pending = _changed(file.durable, [change for _, change in file.pending]), []
                if directory:
                    self._sync_directory()
            case Delete(name, directory):
                self.pending_names.append((name, None))
                if directory:
                    self._sync_directory()
            case Mark(label):
                self.acknowledged += (label,)

    def _sync_directory(self) -> None:
        self.names = self._names_after(self.pending_names)
        self.pending_names = []

    def _names_after(self, changes: Sequence[tuple[str, int | None]]) -> dict[str, int]:
        names = {**self.names}
        for name, inode in changes:
            if inode is None:
                names.pop(name, None)
            else:
                names[name] = inode
        return names

    def image(self, name: str, keep: Keep, keep_names: Sequence[tuple[str, int | None]]) -> Image:
        files: dict[str, bytes] = {}
        for file_name, inode in self._names_after(keep_names).items():
            file = self.files[inode]
            kept = itertools.chain.from_iterable(keep(moment, change) for moment, change in file.pending)
            files[file_name] = _changed(file.durable, list(kept))
        return Image(name, files, self.acknowledged)


def _changed(content: bytes, changes: Sequence[Write | Truncate]) -> bytes:
    if not changes:
        return content
    result = bytearray(content)
    for change in changes:
        if isinstance(change, Truncate):
            del result[change.size :]
            result.extend(bytes(change.size - len(result)))
        else:
            result.extend(bytes(max(0, change.offset - len(result))))
            result[change.offset : change.offset + len(change.data)] = change.data
    return bytes(result)


def _sectors(write: Write) -> Iterator[Write]:
    start, end = write.offset, write.offset + len(write.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Write(write.inode, start, write.data[start - write.offset : stop - write.offset])
        start = stop


def kill_images(recording: Recording, share: tuple[int, int] = (0, 1)) -> Iterator[Image]:
    """After every change of a file, what a killed process leaves: all of it, for the system lives on.

    `share=(i, n)` gives each of n workers every n-th image.
    """
    disk, number = _Disk(), 0
    for moment, op in enumerate([*recording, None]):
        # An image is taken just before the next change, when most has been acknowledged.
        if moment and isinstance(op, Open | Write | Truncate | Delete | None):
            if number % share[1] == share[0]:
                yield disk.image(f"kill before op {moment}", lambda _, change: [change], disk.pending_names)
            number += 1
        if op is not None:
            disk.apply(moment, op)


def power_images(
    recording: Recording, seed: int, draws: int = 2, between: int = 1, share: tuple[int, int] = (0, 1)
) -> Iterator[Image]:
    """Before and after every sync, and at `between` random moments from one to the next, what a power cut may leave.

    What a file's last sync covered is there; later changes survive in any subset, writes torn at sectors.
    `draws` images a moment; the same seed gives the same images.
    """
    chooser = random.Random(seed)
    syncs = [moment for moment, op in enumerate(recording) if isinstance(op, Sync)]
    moments: set[int] = {len(recording)}
    for sync, following in itertools.pairwise([*syncs, len(recording)]):
        acknowledged = sync + 1
        while acknowledged < following and isinstance(recording[acknowledged], Mark):
            acknowledged += 1
        moments |= {sync, acknowledged, *(chooser.randint(sync + 1, following) for _ in range(between))}
    disk, number = _Disk(), 0
    for moment in range(len(recording) + 1):
        for draw in range(draws if moment in moments else 0):
            if number % share[1] == share[0]:
                yield _power_cut(disk, f"power cut before op {moment}, seed {seed}, draw {draw}")
            number += 1
        if moment < len(recording):
            disk.apply(moment, recording[moment])


def _power_cut(disk: _Disk, name: str) -> Image:
    chance = random.Random(name)
    how = chance.choice(("nothing", "all", "prefix", "whole writes", "sectors", "sectors"))
    odds = chance.choice((0.1, 0.5, 0.9))
    pending = sorted(moment for file in disk.files.values() for moment, _ in file.pending)
    last = chance.choice(pending) if pending else 0

    def torn(change: Write | Truncate) -> list[Write | Truncate]:
        pieces = list(_sectors(change)) if isinstance(change, Write) else [change]
        return [piece for piece in pieces if chance.random() < odds]

    def keep(moment: int, change: Write | Truncate) -> list[Write | Truncate]:
        match how:
            case "nothing":
                return []
            case "all":
                return [change]
            case "prefix":
                return [change] if moment < last else torn(change) if moment == last else []
            case "whole writes":
                return [change] if chance.random() < odds else []
            case _:
                return torn(change)

    # Of the directory's own changes a prefix survives: one name is never made before it is removed.
    names = disk.pending_names
    kept = {"nothing": 0, "all": len(names)}.get(how, chance.randint(0, len(names)))
    return disk.image(f"{name} ({how})", keep, names[:kept])


class Slot:
    """One directory that shows one image at a time; only what differs from the last one is written again."""

    def __init__(self, parent: str | None = None) -> None:
        memory = "/dev/shm"
        usable = os.access(memory, os.W_OK)
        self.directory = Path(tempfile.mkdtemp(prefix="image-", dir=parent or (memory if usable else None)))
        self._shown: dict[str, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        shutil.rmtree(self.directory)

    def show(self, image: Image) -> Path:
        """The directory now holds exactly the image's files, whatever was done to the last one."""
        for entry in list(os.scandir(self.directory)):
            # A file keeps its time of 0 until somebody writes to it.
            if entry.name not in image.files or entry.stat().st_mtime_ns:
                os.unlink(entry)
                self._shown.pop(entry.name, None)
        self._shown = {name: self._shown[name] for name in self._shown if (self.directory / name).exists()}
        for name, content in image.files.items():
            self._write(name, content)
        return self.directory

    def _write(self, name: str, content: bytes) -> None:
        shown = self._shown.get(name)
        if shown == content:
            return
        path = self.directory / name
        old, new = memoryview(shown or b""), memoryview(content)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for start in range(0, len(new), _CHUNK):
                if new[start : start + _CHUNK] != old[start : start + _CHUNK]:
                    os.pwrite(fd, new[start : start + _CHUNK], start)
            os.ftruncate(fd, len(new))
        finally:
            os.close(fd)
        os.utime(path, ns=(0, 0))
        self._shown[name] = content
