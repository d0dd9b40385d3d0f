"""The frame of a bundle's zip: headers, directory and end, to the byte as bundles have them. Nothing hides between."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import IO, Final

EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # when it was made is in the manifest
MODE: Final = (stat.S_IFREG | 0o600) << 16
_VERSION, _UNIX, _DEFLATED = 20, 3, zipfile.ZIP_DEFLATED
_DATE = (EPOCH[0] - 1980) << 9 | EPOCH[1] << 5 | EPOCH[2]
_LOCAL = Struct("<4sHHHHHIIIHH")
_LISTED = Struct("<4sBBHHHHHIIIHHHHHII")
_END = Struct("<4sHHHHIIH")
_CHUNK = 1 << 16


class Unframed(Exception):  # noqa: N818 - named by the fact it states
    """There are bytes in the file that no bundle has, or it lacks some."""


def entry(name: str) -> zipfile.ZipInfo:
    """How a part is entered; all that is not its name or content is the same for every one."""
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = _DEFLATED
    info.create_system = _UNIX
    info.external_attr = MODE
    return info


@dataclass(frozen=True, slots=True)
class Packed:
    """A part as it lies in the file."""

    start: int
    packed: int
    size: int
    crc: int


def lying(file: IO[bytes], size: int, entries: Sequence[zipfile.ZipInfo]) -> dict[str, Packed]:
    """Where each part lies. Unframed if headers, parts, directory and end are not the whole file, without a gap."""
    found: dict[str, Packed] = {}
    listed: list[bytes] = []
    place = 0
    for one in entries:
        name = one.orig_filename.encode()
        sizes = (one.CRC, one.compress_size, one.file_size)
        header = _LOCAL.pack(b"PK\x03\x04", _VERSION, 0, _DEFLATED, 0, _DATE, *sizes, len(name), 0) + name
        _same(file, place, header, f"the header of {one.orig_filename}")
        offset, place = place, place + len(header)
        found[one.orig_filename] = Packed(place, one.compress_size, one.file_size, one.CRC)
        place += one.compress_size
        flat = (_VERSION, _UNIX, _VERSION, 0, _DEFLATED, 0, _DATE)
        listed.append(_LISTED.pack(b"PK\x01\x02", *flat, *sizes, len(name), 0, 0, 0, 0, MODE, offset) + name)
    directory = b"".join(listed)
    end = _END.pack(b"PK\x05\x06", 0, 0, len(listed), len(listed), len(directory), place, 0)
    _same(file, place, directory + end, "its directory")
    if place + len(directory) + len(end) != size:
        raise Unframed("there is more in it than its parts")
    return found


def _same(file: IO[bytes], place: int, wanted: bytes, what: str) -> None:
    file.seek(place)
    if file.read(len(wanted)) != wanted:
        raise Unframed(f"{what} is not where it must be, or not written as a bundle writes it")


def unpacked(file: IO[bytes], part: Packed) -> Iterator[bytes]:
    """The content of a part in small pieces; Unframed if it is not all that lies there."""
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    place, left, size, crc = part.start, part.packed, 0, 0
    held = b""
    while not inflate.eof:
        if not held and left:
            file.seek(place)
            held = file.read(min(_CHUNK, left))
            place, left = place + len(held), left - len(held)
        piece = inflate.decompress(held, _CHUNK)
        if not piece and not held and not inflate.eof:
            raise Unframed("its end is missing")
        held = inflate.unconsumed_tail
        size, crc = size + len(piece), zlib.crc32(piece, crc)
        if piece:
            yield piece
    if left or inflate.unused_data or (size, crc) != (part.size, part.crc):
        raise Unframed("what lies there is not this part alone, or not whole")
