"""Weights that are missing or damaged are named before C code reads them: nothing crashes, nothing is lost."""

from __future__ import annotations

import asyncio
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.listening import Heard, cut, listen, request, until

from standfast.errors import Misuse
from standfast.models import weights
from standfast.models.local import LocalProvider
from standfast.replies import ProviderError


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(*, tensors: int = 1, offset: int = 0, data: bytes = b"\0" * 64, version: int = 3) -> bytes:
    """A GGUF file of a few bytes."""
    pair = text("general.architecture") + struct.pack("<I", 8) + text("llama")
    tokens = text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    scores = text("tokenizer.ggml.scores") + struct.pack("<IIQff", 9, 6, 2, 0.0, 1.0)
    length = text("llama.context_length") + struct.pack("<II", 4, 2048)
    tensor = text("weight") + struct.pack("<IQIQ", 1, 8, 0, offset)
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, 4)
    return head + pair + tokens + scores + length + tensor * tensors + data


def trouble(path: Path) -> ProviderError:
    with pytest.raises(ProviderError) as found:
        weights.check(path)
    assert str(path) in found.value.message
    assert found.value.hint
    assert not found.value.passing
    return found.value


def test_a_header_that_holds_together_is_read(tmp_path: Path) -> None:
    path = tmp_path / "Tiny-1B.Q4_0.gguf"
    path.write_bytes(gguf())
    found = weights.check(path)
    assert (found.name, found.context, found.size) == ("Tiny-1B", 2048, len(gguf()))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert trouble(tmp_path / "nowhere.gguf").trouble == "not_found"


def test_a_folder_is_no_weights_file(tmp_path: Path) -> None:
    assert "cannot be read" in trouble(tmp_path).message


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "ends in the middle"),
        (b"<html>404</html>" * 100, "no GGUF file"),
        (bytes(10_000), "no GGUF file"),
        (b"GGUF", "ends in the middle"),
        (gguf(version=1), "version 1"),
        (gguf(version=99), "version 99"),
        (gguf(tensors=0), "no weights"),
        (gguf(offset=1 << 40), "before its weights do"),
        (gguf(data=b""), "before its weights do"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 4), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1 << 60), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + struct.pack("<Q", 1 << 62) + bytes(100), "ends in the middle"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + text("x") + struct.pack("<I", 77) + bytes(100), "unknown type 77"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "weights.gguf"
    path.write_bytes(content)
    assert why in trouble(path).message


def test_a_file_cut_anywhere_in_its_header_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "weights.gguf"
    whole = gguf()
    for end in range(len(whole) - 64):
        path.write_bytes(whole[:end])
        trouble(path)


# --- as a provider says it -------------------------------------------------------------------------


@pytest.fixture
def without_weights(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(weights, "DISTRIBUTION", "llm-that-nobody-has")
    yield


async def test_without_weights_the_error_says_how_to_get_them(without_weights: None) -> None:
    with pytest.raises(ProviderError) as found:
        await listen(LocalProvider(), request())
    assert found.value.trouble == "not_found"
    assert "standfast model install" in found.value.hint


async def test_without_the_package_the_error_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xllamacpp", None)
    (tmp_path / "weights.gguf").write_bytes(gguf())
    with pytest.raises(ProviderError) as found:
        await listen(LocalProvider(tmp_path / "weights.gguf"), request())
    assert found.value.trouble == "not_found"
    assert "standfast model install" in found.value.hint


@pytest.mark.local_model
@pytest.mark.parametrize("content", [b"", b"no weights", gguf()], ids=["empty", "text", "only a good header"])
async def test_everybody_who_waits_is_told_and_can_ask_again(tmp_path: Path, content: bytes) -> None:
    """Also what only llama.cpp notices. A file that is put right later is found."""
    path = tmp_path / "weights.gguf"
    path.write_bytes(content)
    told = await asyncio.gather(*(listen(LocalProvider(path), request()) for _ in range(3)), return_exceptions=True)
    for error in told:
        assert isinstance(error, ProviderError)
        assert str(path) in error.message
    assert len({id(error) for error in told}) == 3
    found = weights.installed()
    assert found is not None
    path.unlink()
    path.symlink_to(found[0])
    assert (await listen(LocalProvider(path), request("Hello", max_tokens=3))).finished


@pytest.mark.local_model
async def test_installed_weights_of_another_length_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that broke off behind the header looks whole to its own header."""
    found = weights.installed()
    assert found is not None
    path = tmp_path / found[0].name
    with found[0].open("rb") as whole:
        path.write_bytes(whole.read(found[0].stat().st_size - 1))
    monkeypatch.setattr(weights, "installed", lambda: (path, found[1]))
    assert "instead of" in trouble(path).message
    assert "standfast model install" in trouble(path).hint
    monkeypatch.undo()
    with pytest.raises(ProviderError, match="cannot be used"):  # nobody knows how long it should be, but llama.cpp
        await listen(LocalProvider(path), request())


@pytest.mark.local_model
async def test_one_file_is_one_model_whatever_it_is_called(tmp_path: Path) -> None:
    found = weights.installed()
    assert found is not None
    (tmp_path / "another-name.gguf").symlink_to(found[0])
    assert (await listen(LocalProvider(tmp_path / "another-name.gguf"), request("Hello", max_tokens=3))).finished
    assert not any("another-name" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("wrong", [{"context": 0}, {"max_tokens": -1}, {"threads": 1.5}, {"context": "big"}])
def test_settings_that_make_no_sense_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        LocalProvider(**wrong)


@pytest.mark.local_model
async def test_a_reader_who_leaves_while_it_is_loaded_leaves_at_once(tmp_path: Path) -> None:
    found = weights.installed()
    assert found is not None
    path = tmp_path / "again.gguf"
    shutil.copyfile(found[0], path)
    heard = Heard()
    task = asyncio.ensure_future(listen(LocalProvider(path), request(), heard))
    await asyncio.sleep(0)
    await cut(task)
    assert not heard.deltas
    await until(lambda: any(t.name == "standfast again.gguf" for t in threading.enumerate()))
    assert (await listen(LocalProvider(path), request("Hello", max_tokens=3))).finished
