"""Who may do what to which runs: seven rights, and three reaches (one run with its children, labels, all)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from standfast.errors import Misuse

Right: TypeAlias = Literal["view", "pause", "redirect", "cancel", "resolve", "forensics", "operator"]
RIGHTS: Final[tuple[Right, ...]] = get_args(Right)
MEANING: Final[dict[Right, str]] = {
    "view": "look at runs: what they say, do and hold",
    "pause": "hold a run and let it go on as it was",
    "redirect": "decide what an agent does: start, redirect, message, edit, rewind, take over",
    "cancel": "end a run, by force if need be",
    "resolve": "decide what a run asks: approve, answer, settle a doubt, raise a budget, accept what is stale",
    "forensics": "take evidence of runs, and read who tried what, who was given which rights",
    "operator": "give and take rights",
}
PREFIX: Final = "sf_"
SECRET_BYTES: Final = 32  # 256 bits: nobody guesses one


def rights_from(given: Iterable[str]) -> tuple[Right, ...]:
    """The rights of these names, in their order and each once; Misuse if one is no right or there are none."""
    names = set(given)
    unknown = sorted(names - set(RIGHTS))
    if unknown or not names:
        what = f"{unknown[0][:50]!r} is no right" if unknown else "no right is given"
        raise Misuse(what, hint=f"there are {', '.join(RIGHTS)}; nothing was changed")
    return tuple(right for right in RIGHTS if right in names)


@dataclass(frozen=True, slots=True)
class Scope:
    """Some runs and all their descendants: those with these ids, or those with all of these labels."""

    runs: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()

    def holds(self, run: str, labels: dict[str, str]) -> bool:
        """Is this run itself meant, whatever its ancestors are?"""
        if self.labels:
            return all(labels.get(name) == value for name, value in self.labels)
        return run in self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A right to something, as it is kept: without its secret."""

    id: str
    name: str
    rights: tuple[Right, ...]
    run: str | None = None
    labels: dict[str, str]
    made: float
    by: str | None = None
    parent: str | None = None  # the token that made it: revoked with it
    expires: float | None = None
    revoked: float | None = None

    @property
    def scope(self) -> Scope | None:
        """Which runs; None for all."""
        if self.run is not None:
            return Scope(frozenset({self.run}))
        return Scope(labels=tuple(sorted(self.labels.items()))) if self.labels else None

    @property
    def holder(self) -> str:
        """Whoever has it, as the record names them: no name that somebody chose can pass for another's."""
        return f"{self.name or 'link'} ({self.id})"

    def ended(self, now: float) -> str:
        """Why it counts no longer; empty while it does."""
        if self.revoked is not None:
            return "this token was revoked"
        return "this token has expired" if self.expires is not None and self.expires <= now else ""


def new_secret() -> str:
    """What its holder shows; it is told once and never kept."""
    return PREFIX + secrets.token_urlsafe(SECRET_BYTES)


def new_id() -> str:
    """What a token is called; no secret."""
    return f"tk-{secrets.token_hex(5)}"


def hash_of(secret: str) -> bytes:
    """What is kept of a secret. It is random, so that a plain hash tells nothing of it."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
