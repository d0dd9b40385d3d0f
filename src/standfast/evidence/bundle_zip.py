"""The file of a bundle: written whole or not at all, and read as if somebody hostile had made it."""

from __future__ import annotations

import errno
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import IO

from standfast.errors import Misuse, StandfastError
from standfast.evidence.bundle_shapes import (
    CUSTODY,
    MANIFEST,
    MOST_BYTES,
    MOST_OF_CUSTODY,
    MOST_OF_LINE,
    MOST_OF_MANIFEST,
    SIGNATURE,
    Part,
    is_part,
)
from standfast.evidence.zip_frame import Packed, Unframed, entry, lying, unpacked

NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS})  # file systems of sticks, say

_ENCRYPTED = 0x1
_BUFFERED = 1 << 18
_MOST_ENTRIES = 6000
_END = Struct("<4sHHHHIIH")  # the end record of a zip
_LOCATOR = 20  # what stands before it in a zip of more than 4 GB


class NotABundle(StandfastError):  # noqa: N818 - named by the fact it states
    """The file is none of ours, is damaged, or was made to do harm; `message` says which."""


# --- writing --------------------------------------------------------------------------------------


class BundleWriter:
    """Parts one after the other; each is hashed as it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, allowZip64=True)
        self.parts: list[Part] = []
        self._bytes = 0

    def __enter__(self) -> BundleWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()  # of a bundle that came to nothing too, while its file is open

    def part(self, name: str, content: Iterable[bytes]) -> None:
        """A part, from pieces that need not all be there at once."""
        assert is_part(name), name
        most = MOST_OF_CUSTODY if name == CUSTODY else MOST_BYTES
        digest, size = sha256(), 0
        with self._zip.open(entry(name), "w") as file:
            for piece in _gathered(content):
                size += len(piece)
                self._bytes += len(piece)
                if self._bytes > MOST_BYTES:
                    raise _too_large("the bundle", MOST_BYTES)
                if size > most:
                    raise _too_large(f"its part {name}", most)
                digest.update(piece)
                file.write(piece)
        self.parts.append(Part(name=name, size=size, sha256=digest.hexdigest()))

    def sign(self, manifest: bytes, signature: bytes) -> None:
        """The last two, by which all others are known."""
        if len(manifest) > MOST_OF_MANIFEST:
            raise _too_large("its manifest", MOST_OF_MANIFEST)
        for name, content in ((MANIFEST, manifest), (SIGNATURE, signature)):
            self._zip.writestr(entry(name), content)


def as_line(written: bytes) -> bytes:
    """A line of a part, no longer than it is read."""
    if len(written) > MOST_OF_LINE:
        raise _too_large("a line of it", MOST_OF_LINE)
    return written + b"\n"


def _too_large(what: str, most: int) -> Misuse:
    """Who writes keeps to what is read: a bundle that nobody can verify is none."""
    return Misuse(
        f"{what} would be larger than {most / (1 << 20):g} MB",
        hint="nothing was written; leave children out, or keep a copy of the store instead",
    )


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same in larger pieces: a call for each line of a record would cost more than its hash."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _BUFFERED:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


@contextmanager
def placed(path: Path, *, force: bool) -> Generator[IO[bytes], None, None]:
    """A new file for its owner alone, which stands at this path when everything was written, or not at all."""
    if not force and os.path.lexists(path):
        raise _there(path)
    mine = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        descriptor = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Misuse(f"{path} cannot be written: {error.strerror}", hint="give a path in a folder of yours") from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            mine.replace(path)
        else:
            _give_name(mine, path)
    except OSError as error:
        raise Misuse(f"{path} cannot be written: {error.strerror}", hint="free space, or give another path") from error
    finally:
        mine.unlink(missing_ok=True)


def _give_name(mine: Path, path: Path) -> None:
    """Never over a file that has come meanwhile; where there are no hard links, the name is taken first."""
    try:
        os.link(mine, path)
    except FileExistsError:
        raise _there(path) from None
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            raise _there(path) from None
        mine.replace(path)


def _there(path: Path) -> Misuse:
    return Misuse(f"{path} is there already", hint="give another path, or --force; it was not changed")


# --- reading --------------------------------------------------------------------------------------


class BundleReader:
    """A bundle as parts by name. Nothing is unpacked to disk, and nothing is read beyond what it may be."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise NotABundle(f"it cannot be opened: {error}") from error
        try:
            self._parts = _parts(self._file)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> BundleReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def names(self) -> set[str]:
        return set(self._parts)

    def pieces(self, name: str, most: int) -> Iterator[bytes]:
        """The content of a part; NotABundle as soon as there is more of it than there may be."""
        try:
            read = 0
            for piece in unpacked(self._file, self._parts[name]):
                read += len(piece)
                if read > most:
                    raise NotABundle(f"{name} is larger than the {most} bytes it may have")
                yield piece
        except KeyError as error:
            raise NotABundle(f"{name} is missing") from error
        except (Unframed, OSError, zlib.error) as error:
            raise NotABundle(f"{name} cannot be unpacked: {error}") from error

    def whole(self, name: str, most: int) -> bytes:
        """A small part."""
        return b"".join(self.pieces(name, most))

    def lines(self, name: str, most: int) -> Iterator[bytes]:
        """The lines of a part; each ends with a newline, the last one too."""
        held = bytearray()
        for piece in self.pieces(name, most):
            held += piece
            lines: list[bytes] = []
            if b"\n" in piece:
                *lines, rest = bytes(held).split(b"\n")
                held = bytearray(rest)
            if max(map(len, (*lines, held))) > MOST_OF_LINE:
                raise NotABundle(f"{name} has a line of more than {MOST_OF_LINE} bytes")
            yield from lines
        if held:
            raise NotABundle(f"{name} ends in the middle of a line")


def _parts(file: IO[bytes]) -> dict[str, Packed]:
    """Where each part lies; NotABundle unless the file is made of nothing else."""
    size = file.seek(0, os.SEEK_END)
    _check_end(file, size)
    try:
        with zipfile.ZipFile(file) as listed:
            entries = listed.infolist()
        _check(entries)
        return lying(file, size, entries)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, struct.error) as error:
        raise NotABundle(f"it cannot be opened as a zip: {error}") from error
    except Unframed as error:
        raise NotABundle(str(error)) from error


def _check_end(file: IO[bytes], size: int) -> None:
    """The directory of the zip, before anything of it is read: as small as that of a bundle, and at the very end."""
    if size > MOST_BYTES:
        raise NotABundle(f"it has {size} bytes, more than any bundle")
    file.seek(max(0, size - _END.size - _LOCATOR))
    tail = file.read()
    if len(tail) < _END.size:
        raise NotABundle("it is too short for a zip")
    magic, _, _, _, count, length, start, comment = _END.unpack(tail[-_END.size :])
    if magic != b"PK\x05\x06" or comment or start + length + _END.size != size:
        raise NotABundle("it does not end as a bundle does")
    if count > _MOST_ENTRIES or length > _MOST_ENTRIES * 512 or tail.startswith(b"PK\x06\x07"):
        raise NotABundle(f"it has {count} parts, more than any bundle")


def _check(entries: list[zipfile.ZipInfo]) -> None:
    """NotABundle for an entry that our own bundles do not have."""
    if len(entries) > _MOST_ENTRIES:
        raise NotABundle(f"it has {len(entries)} parts, more than any bundle")
    found: set[str] = set()
    for one in entries:
        name = one.orig_filename
        if name != one.filename or not (is_part(name) or name in (MANIFEST, SIGNATURE)):
            raise NotABundle(f"it has a part {name[:100]!r}, which no bundle has")
        if name in found:
            raise NotABundle(f"it has two parts {name}")
        found.add(name)
        mode = one.external_attr >> 16
        if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
            raise NotABundle(f"{name} is a link or a device")
        if one.flag_bits & _ENCRYPTED or one.compress_type != zipfile.ZIP_DEFLATED:
            raise NotABundle(f"{name} is packed in a way that no bundle is")
    if sum(one.file_size for one in entries) > MOST_BYTES:
        raise NotABundle("its parts would be larger than any bundle")
