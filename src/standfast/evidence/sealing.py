"""Sealing: a text that only named recipients can read (age, X25519), and a salted hash to recognise it by."""

from __future__ import annotations

import importlib
import importlib.util
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from standfast.errors import KeyUnusable, Misuse

SALT_BYTES = 32
MOST_RECIPIENTS = 100


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was sealed, for whom, and what it can be recognised by once it is open."""

    content: bytes
    recipients: tuple[str, ...]
    salted_sha256: str


def available() -> bool:
    """Is there something here that can seal?"""
    return importlib.util.find_spec("pyrage") is not None


def recipients_from(given: Sequence[str]) -> tuple[str, ...]:
    """Each recipient once, in order; Misuse if one is no age public key."""
    wanted = tuple(dict.fromkeys(one.strip() for one in given if one.strip() and not one.lstrip().startswith("#")))
    if len(wanted) > MOST_RECIPIENTS:
        raise Misuse(f"{len(wanted)} recipients are too many", hint=f"name at most {MOST_RECIPIENTS}")
    if wanted:
        _keys(wanted)
    return wanted


def seal(run: str, agent: str, text: str, recipients: Sequence[str]) -> Sealed:
    """The text for these recipients, with the salt of its hash."""
    salt = secrets.token_bytes(SALT_BYTES)
    body = {"run": run, "agent": agent, "salt": salt.hex(), "text": text}
    content: bytes = _pyrage().encrypt(json.dumps(body, ensure_ascii=False, indent=1).encode(), _keys(recipients))
    return Sealed(content, tuple(recipients), salted_hash(salt, text))


def salted_hash(salt: bytes, text: str) -> str:
    """Who has opened the sealed part can make this again from its salt and text."""
    return sha256(salt + text.encode("utf-8", "surrogatepass")).hexdigest()


def refuse_secret(given: str) -> None:
    """Misuse for the key that opens what is sealed; it is told to nobody, not even to whoever gave it."""
    if "AGE-SECRET-KEY" in given.upper():
        hint = "give the public one, age1..., that `age-keygen -y` prints; nothing was sealed or written"
        raise Misuse("that is a secret key, and is not repeated here", hint=hint)


def _keys(recipients: Sequence[str]) -> list[Any]:
    age = _pyrage()
    for one in recipients:
        refuse_secret(one)
    keys: list[Any] = []
    for one in recipients:
        try:
            keys.append(age.x25519.Recipient.from_str(one))
        except age.RecipientError as error:
            raise Misuse(
                f"{one[:12]!r}... is no recipient: {error}",
                hint="give the public key that `age-keygen` printed, age1...; nothing was sealed or written",
            ) from error
    return keys


def _pyrage() -> Any:
    if not available():
        raise KeyUnusable(
            "sealing needs the package pyrage", hint="pip install 'standfast[evidence]', or name no recipients"
        )
    return importlib.import_module("pyrage")
