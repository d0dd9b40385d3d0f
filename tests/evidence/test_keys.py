"""The key of a store is made once, is its owner's alone, and does not change unseen (R32)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from standfast.errors import KeyUnusable
from standfast.evidence.keys import (
    ENVIRONMENT,
    fingerprint,
    load_or_make,
    load_public,
    make,
    public_pem,
    verify_signature,
)


def test_a_key_is_made_once_and_found_again(tmp_path: Path) -> None:
    first = load_or_make(tmp_path / "runs.db")
    again = load_or_make(tmp_path / "runs.db")
    assert first.public == again.public == load_public(tmp_path / "runs.db.pub")
    assert (tmp_path / "runs.db.key").stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["runs.db.key", "runs.db.pub"]  # nothing half made is left


def test_a_signature_holds_for_its_data_and_its_key_alone(tmp_path: Path) -> None:
    key, other = load_or_make(tmp_path / "a.db"), load_or_make(tmp_path / "b.db")
    signature = key.sign(b"where it stood")
    assert verify_signature(key.public, b"where it stood", signature)
    assert not verify_signature(key.public, b"where it stooD", signature)
    assert not verify_signature(other.public, b"where it stood", signature)
    assert not verify_signature(key.public, b"where it stood", signature[:-1])
    assert not verify_signature(b"no key", b"where it stood", signature)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    load_or_make(tmp_path / "runs.db")
    (tmp_path / "runs.db.key").chmod(mode)
    with pytest.raises(KeyUnusable, match=f"mode {mode:04o}") as refused:
        load_or_make(tmp_path / "runs.db")
    assert "chmod 600" in refused.value.hint


def test_the_key_can_be_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "safe" / "mine.key"))
    key = load_or_make(tmp_path / "runs.db")
    assert (tmp_path / "safe" / "mine.key").exists()
    assert not (tmp_path / "runs.db.key").exists()
    assert load_public(tmp_path / "runs.db.pub") == key.public


def test_a_key_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    load_or_make(tmp_path / "runs.db")
    (tmp_path / "runs.db.key").unlink()
    with pytest.raises(KeyUnusable, match="until now"):
        load_or_make(tmp_path / "runs.db")
    assert not (tmp_path / "runs.db.key").exists()


@pytest.mark.parametrize(
    "content", [b"", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", b"\xff" * 99]
)
def test_a_broken_key_is_an_error_that_says_so(tmp_path: Path, content: bytes) -> None:
    load_or_make(tmp_path / "runs.db")
    (tmp_path / "runs.db.key").write_bytes(content)
    with pytest.raises(KeyUnusable, match="cannot be read"):
        load_or_make(tmp_path / "runs.db")


def test_a_public_key_is_read_as_pem_and_as_hex(tmp_path: Path) -> None:
    key = make()
    (tmp_path / "pem").write_bytes(public_pem(key.public))
    (tmp_path / "hex").write_text(key.public.hex() + "\n")
    assert load_public(tmp_path / "pem") == load_public(tmp_path / "hex") == key.public
    (tmp_path / "no").write_text("no key")
    with pytest.raises(KeyUnusable, match="no Ed25519 public key"):
        load_public(tmp_path / "no")


@pytest.mark.more
def test_processes_that_make_a_key_at_once_get_the_same_one(tmp_path: Path) -> None:
    program = "import sys; from standfast.evidence.keys import *; print(load_or_make(sys.argv[1]).public.hex())"
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "runs.db")], stdout=subprocess.PIPE)
        for _ in range(6)
    ]
    answers = {p.communicate(timeout=60)[0] for p in started}
    assert [p.returncode for p in started] == [0] * 6
    assert len(answers) == 1


def test_a_derived_secret_depends_on_key_and_purpose() -> None:
    key, other = make(), make()
    assert key.derive(b"a") == key.derive(b"a") != key.derive(b"b")
    assert key.derive(b"a") != other.derive(b"a")
    assert len(key.name) == 16 and key.name == fingerprint(key.public)
