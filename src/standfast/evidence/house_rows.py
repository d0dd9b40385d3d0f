"""Halts and tokens against the record of the house: each row is one that was recorded, and stands as was recorded.

A checkpoint signs what it finds. What is compared here is what was written when the halt was set or the token made, so
that a row changed before a checkpoint is found after it too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from standfast.evidence import keys
from standfast.evidence.chains import HouseChain
from standfast.evidence.report import Report
from standfast.halts import lift_bytes
from standfast.house_events import HaltLifted
from standfast.stores.sides import Row, lasting


def check_halts(rows: Iterable[Row], house: HouseChain, trusted: Collection[bytes], report: Report) -> bool:
    """Every halt that was set, none besides; held or lifted, and signed, as the record says."""
    left = dict(house.halts)
    unsigned: list[str] = []
    for _, id_, doc, key, signature, lifted in rows:
        what = f"halt {id_}"
        told, lift = left.pop(str(id_), None), house.lifted.get(str(id_))
        trouble = _trouble(told, lasting(id_, doc, key, signature), "set")
        if not trouble and told is not None and (lifted is None) != (lift is None):
            trouble = "it holds no longer, and nobody lifted it" if lift is None else "it was lifted, and holds again"
        if not trouble and lift is not None and lifted != lift.at:
            trouble = "it was lifted at another time than its row says"
        if not trouble:
            trouble = _signatures(str(id_), doc, key, signature, lift, trusted, house, unsigned)
        if trouble:
            report.broken(what, trouble)
            return False
    for id_ in left:
        report.broken(f"halt {id_}", "it was set, and is not there")
        return False
    if unsigned:
        report.unproved("halts", f"not signed: {', '.join(unsigned[:5])}{' ...' if len(unsigned) > 5 else ''}")
    return True


def _signatures(
    id_: str,
    doc: object,
    key: object,
    signature: object,
    lift: HaltLifted | None,
    trusted: Collection[bytes],
    house: HouseChain,
    unsigned: list[str],
) -> str:
    """What is wrong with who signed the halt and its lift; what is not signed is listed."""
    if not keys.available() or not trusted:
        return ""  # that nothing is known of the key is told once, for all
    if not isinstance(key, bytes) or not isinstance(signature, bytes):
        unsigned.append(f"halt {id_}")
    elif key not in trusted or not isinstance(doc, bytes) or not keys.verify_signature(key, doc, signature):
        return "its signature is not one of the keys you trust"
    elif not house.signs(key, house.halted[id_]):
        return "it is signed with a key that had been replaced by then"
    if lift is None:
        return ""
    if not lift.signature:
        unsigned.append(f"the lift of {id_}")
        return ""
    try:
        by, signed = bytes.fromhex(lift.key), bytes.fromhex(lift.signature)
    except ValueError:
        return "its lift is not signed as lifts are"
    if by not in trusted or not keys.verify_signature(by, lift_bytes(id_, lift.at), signed):
        return "its lift is not signed by one of the keys you trust"
    if not house.signs(by, lift.seq):
        return "its lift is signed with a key that had been replaced by then"
    return ""


def check_tokens(rows: Iterable[Row], house: HouseChain, report: Report) -> bool:
    """Every token that was made, none besides; revoked as the record says."""
    left = dict(house.tokens)
    for id_, hash_, doc, expires, revoked in rows:
        told = left.pop(str(id_), None)
        trouble = _trouble(told, lasting(id_, hash_, doc, expires), "made")
        at = house.revoked.get(str(id_))
        if not trouble and revoked != at:
            trouble = "it was revoked, and counts again" if revoked is None else "nobody has recorded who revoked it so"
        if trouble:
            report.broken(f"token {id_}", trouble)
            return False
    for id_ in left:
        report.broken(f"token {id_}", "it was made, and is not there")
        return False
    return True


def _trouble(recorded: str | None, digest: str, done: str) -> str:
    if recorded is None:
        return f"nobody has recorded that it was {done}"
    return "" if recorded in ("", digest) else f"it is not as it was {done}"  # stores of before have no digest
