"""Whether the key that signed a bundle counts: one that was replaced only for what it signed before that (R32).

Its holder can have lost it to somebody else, and a date is whatever its holder writes: so an anchor has to show it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

from standfast.evidence.html_text import when
from standfast.evidence.key_changes import NO_CHANGES, Succession
from standfast.evidence.keys import fingerprint

Standing: TypeAlias = Literal["proved", "unproved", "doubted", "broken"]
"""`doubted`: the key does not count, so what fits it shows nothing; `unproved`: nobody said which key counts."""


@dataclass(frozen=True, slots=True)
class Anchored:
    """What an anchor holds of a bundle: a checkpoint of all of its events, the one that was made for it."""

    given: bool = False
    covered: bool = False
    last: bool = False


@dataclass(slots=True)
class Trust:
    """The keys that somebody gave, those that are kept beside them as replaced, and what is known of their changes."""

    given: Collection[bytes] = ()
    kept: Collection[bytes] = ()
    known: Succession = NO_CHANGES

    def unknown(self, key: bytes) -> str:
        """Why this key is none of those that count, now or formerly; empty if it is one, or if none were given."""
        if not self.given or key in self._all():
            return ""
        name = fingerprint(key)
        hint = f"if the store's key was changed since, give the one it had then: it is kept as runs.db.pub.{name}"
        return f"it is signed with key {name}, which is none of those you trust; {hint}"

    def beside(self, signer: bytes) -> Collection[bytes]:
        """The keys that may have signed the checkpoints of a bundle that this one signed; none: any."""
        return self._all() if self.given and not self.unknown(signer) else ()

    def standing(self, key: bytes, made_at: float, anchored: Anchored) -> tuple[Standing, str]:
        """Does what this key signed count, and why?"""
        name, change = fingerprint(key), self.known.replaced(key)
        if not self.given:
            text = f"signed with {name}; whose key that is, is not known: give the one you trust with --key"
            return "unproved", text
        if change is None and key in self.given:
            return "proved", f"signed with {name}, as you asked"
        if change is None and key in self.known.after(self.given):
            return "proved", f"signed with {name}, which came after the one you gave"
        told = f"signed with {name}, which was replaced"
        if change is not None:
            told += f" by {fingerprint(bytes.fromhex(change.new))} on {when(change.at)}"
        if anchored.last:
            return "proved", f"{told}: the anchor holds the checkpoint that was made for it before that"
        if change is not None and made_at > change.at:
            return "broken", f"{told}: it says that it was made on {when(made_at)}, after its key had been replaced"
        if anchored.covered:
            return "proved", f"{told}: the anchor holds a checkpoint of every event in it, signed before that"
        hint = "the anchor does not hold all of it" if anchored.given else "give --anchor"
        return "doubted", f"{told}: nothing shows that it was signed before that; {hint}"

    def _all(self) -> set[bytes]:
        return self.known.trusted(self.given) | self.known.before(self.kept)
