"""A change of the store's key: a row of the house that both keys have signed, so that one vouches for the other (R32).

Whoever trusts one of them follows the row to the other. What the old one signs after the change counts no longer, and
what it signed before is shown by the order of rows and checkpoints, or by an anchor: never by a date that it signed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from standfast.abc import Tx
from standfast.errors import KeyUnusable
from standfast.evidence.html_text import when
from standfast.evidence.keys import Key, fingerprint, verify_signature
from standfast.house_events import HouseEvent, KeyChanged, decode_house
from standfast.rows import CheckpointRow
from standfast.stores.sides import Row

DOMAIN = b"standfast key change\n"  # what is signed here is never mistaken for something else a key has signed
_MARK = b'"type":"key_changed"'


class KeyReplaced(KeyUnusable):
    """The store is signed with another key by now."""


class KeyChange(BaseModel, extra="forbid", strict=True):
    """From one key to the next, in hex, with what each has signed; the old one's is empty if it was lost."""

    old: str
    new: str
    at: float
    old_signature: str
    new_signature: str

    def line(self) -> bytes:
        """The only way to write it."""
        return self.model_dump_json().encode()

    @property
    def signed_by_both(self) -> bool:
        """Whoever holds the one said that the other follows, and the other way round."""
        try:
            said = change_bytes(self.old, self.new, self.at)
            pairs = [(self.old, self.old_signature), (self.new, self.new_signature)]
            return all(verify_signature(bytes.fromhex(k), said, bytes.fromhex(s)) for k, s in pairs)
        except ValueError:
            return False

    @property
    def words(self) -> str:
        """The same for people."""
        old, new = (fingerprint(bytes.fromhex(key)) for key in (self.old, self.new))
        return f"changed from {old} to {new} on {when(self.at)}: both have signed that"


def change_bytes(old: str, new: str, at: float) -> bytes:
    """What both sign."""
    return DOMAIN + to_json([old, new, at])


def signed_change(old: Key | bytes, new: Key, at: float) -> KeyChange:
    """The change as both sign it; of an old key that was lost there is only the public half."""
    public = old if isinstance(old, bytes) else old.public
    said = change_bytes(public.hex(), new.public.hex(), at)
    return KeyChange(
        old=public.hex(),
        new=new.public.hex(),
        at=at,
        old_signature="" if isinstance(old, bytes) else old.sign(said).hex(),
        new_signature=new.sign(said).hex(),
    )


def change_of(event: KeyChanged) -> KeyChange:
    """What a row of the house says."""
    return KeyChange(
        old=event.old, new=event.new, at=event.at, old_signature=event.old_signature, new_signature=event.new_signature
    )


def changes_in(rows: Iterable[Row]) -> list[KeyChange]:
    """The changes in plain rows of the house; whether these fit their chain is checked with all others."""
    found: list[KeyChange] = []
    for _, _, body, _ in rows:
        if isinstance(body, bytes) and _MARK in body:
            try:
                event = decode_house(body)
            except (ValidationError, ValueError):
                continue  # whoever follows the chain says so
            if isinstance(event, KeyChanged):
                found.append(change_of(event))
    return found


class Succession:
    """Which key came after which, by rows that both have signed."""

    def __init__(self, changes: Iterable[KeyChange] = ()) -> None:
        self.changes: Sequence[KeyChange] = list({one.line(): one for one in changes}.values())
        self._after: dict[bytes, list[bytes]] = {}
        self._before: dict[bytes, list[bytes]] = {}
        for one in self.changes:
            old, new = bytes.fromhex(one.old), bytes.fromhex(one.new)
            self._after.setdefault(old, []).append(new)
            self._before.setdefault(new, []).append(old)

    @classmethod
    def of(cls, changes: Iterable[KeyChange]) -> Succession:
        return cls(one for one in changes if one.signed_by_both)

    def after(self, keys: Iterable[bytes]) -> set[bytes]:
        """These keys, and those for which they vouch: they count without limit."""
        return _reached(keys, self._after)

    def before(self, keys: Iterable[bytes]) -> set[bytes]:
        """These keys, and those that they have replaced: they count for what was signed before that."""
        return _reached(keys, self._before)

    def trusted(self, given: Collection[bytes]) -> set[bytes]:
        """All of them; none if none were given. Whatever else an old one vouched for beside the new one is not."""
        return self.after(given) | self.before(given)

    def replaced(self, key: bytes) -> KeyChange | None:
        """The change by which another key took its place; the earliest one, should there be several."""
        found = (one for one in self.changes if bytes.fromhex(one.old) == key)
        return min(found, key=lambda one: one.at, default=None)

    def follows(self, old: bytes, new: bytes) -> bool:
        """Did the one come after the other, by however many changes?"""
        return new in _reached([old], self._after)


def _reached(keys: Iterable[bytes], ways: Mapping[bytes, Sequence[bytes]]) -> set[bytes]:
    """Every key is looked at once: a bundle that somebody made up may have thousands of changes."""
    waiting = list(keys)
    found = set(waiting)
    while waiting:
        new = [one for one in ways.get(waiting.pop(), ()) if one not in found]
        found.update(new)
        waiting += new
    return found


NO_CHANGES = Succession()


def trouble_between(before: bytes, key: bytes, known: Succession, seen: Collection[bytes]) -> tuple[bool, str]:
    """What is to be said where one checkpoint is signed with another key than the one before: is it broken, and why."""
    if known.follows(before, key) and not known.follows(key, before):
        return False, ""
    if key in seen or known.follows(key, before):
        return True, f"it is signed with key {fingerprint(key)}, which had been replaced by {fingerprint(before)}"
    return False, f"the key changed from {fingerprint(before)} to {fingerprint(key)}, and no row signed by both says so"


def check_may_sign(tx: Tx, newest: CheckpointRow | None, house: int, key: Key) -> None:
    """KeyReplaced unless this key is the one that follows the last checkpoint's; `house` is how far that went."""
    expected = None if newest is None else newest.key
    for event in _since(tx, house):
        if isinstance(event, KeyChanged) and expected in (None, bytes.fromhex(event.old)):
            expected = bytes.fromhex(event.new)
    if expected is not None and expected != key.public:
        raise KeyReplaced(
            f"the store is signed with key {fingerprint(expected)}, and this is {key.name}",
            hint="restart whatever uses the old key; standfast rekey changes the key, and ends a change half made",
        )


def _since(tx: Tx, after: int) -> Iterable[HouseEvent]:
    while events := tx.house(after):
        after = events[-1].seq
        yield from events
