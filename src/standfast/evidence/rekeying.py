"""Changes the key of a store: both keys sign a row of the house, then the files change places. A crash is made good."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from standfast.abc import Store, Tx
from standfast.errors import KeyUnusable
from standfast.evidence import keys
from standfast.evidence.key_changes import signed_change
from standfast.evidence.keys import Key
from standfast.evidence.notary import checkpoint_now
from standfast.house_events import KeyChanged


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """The keys by their names, and where the old public one is kept."""

    old: str
    new: str
    kept: Path


def change_key(
    store: Store, path: str | os.PathLike[str], *, by: str | None, reason: str, route: str, lost: bool = False
) -> Rekeyed:
    """A new key for the store. What a crash left half done is finished by asking again.

    `lost`: the old private key is gone, so only the new one can sign; `verify` calls such a change unproved.
    """
    place, public = keys.key_path(path), keys.public_path(path)
    if not public.exists():
        raise KeyUnusable(f"{public} is not there: nothing was signed yet", hint="the first key is made by itself")
    was = keys.load_public(public)
    current = keys.load(place) if place.exists() else None
    if current is not None and current.public != was:  # a crash came after the private key had taken its place
        if not store.read(lambda tx: _noted(tx, was, current.public)):
            raise KeyUnusable(
                f"the store was signed with key {keys.fingerprint(was)} until now, and {place} is {current.name}",
                hint="restore the old key; put another one into use with standfast rekey alone",
            )
        return _done(public, was, current)
    if current is None and not lost:
        raise KeyUnusable(f"the signing key {place} is not there", hint="restore it; if it is lost for good: --lost")
    if current is not None and lost:
        raise KeyUnusable(f"the signing key {place} is there", hint="leave --lost out: both keys sign the change")
    coming = place.with_name(f"{place.name}.next")
    new = _left_over(coming) or keys.make_at(coming)
    store.write(lambda tx: _note(tx, current or was, new, by=by, reason=reason, route=route))
    checkpoint_now(store, new, "key")
    keys.keep_public(_kept(public, was), was)
    coming.replace(place)
    return _done(public, was, new)


def _left_over(coming: Path) -> Key | None:
    """The key that a change half made has left; not one that somebody else put there."""
    try:
        found = coming.lstat()
    except FileNotFoundError:
        return None
    if found.st_uid != os.geteuid() or not stat.S_ISREG(found.st_mode):
        raise KeyUnusable(f"{coming} is not a file of this account", hint="somebody put it there: look, and remove it")
    return keys.load(coming)


def _note(tx: Tx, old: Key | bytes, new: Key, *, by: str | None, reason: str, route: str) -> None:
    was = old if isinstance(old, bytes) else old.public
    if _noted(tx, was, new.public):
        return
    change = signed_change(old, new, tx.now)
    event = KeyChanged(old=change.old, new=change.new, by=by, reason=reason, route=route)
    event.old_signature, event.new_signature = change.old_signature, change.new_signature
    tx.note(event)


def _noted(tx: Tx, old: bytes, new: bytes) -> bool:
    after = 0
    while events := tx.house(after):
        after = events[-1].seq
        if any(isinstance(one, KeyChanged) and (one.old, one.new) == (old.hex(), new.hex()) for one in events):
            return True
    return False


def _kept(public: Path, was: bytes) -> Path:
    return public.with_name(f"{public.name}.{keys.fingerprint(was)}")


def _done(public: Path, was: bytes, new: Key) -> Rekeyed:
    keys.keep_public(_kept(public, was), was)
    keys.replace_public(public, new.public)
    return Rekeyed(keys.fingerprint(was), new.name, _kept(public, was))
