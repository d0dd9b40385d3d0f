"""Tokens are made, found and revoked here: each in one transaction with its line in the record of the house."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any, Final

from standfast import arguments
from standfast.abc import Tx
from standfast.errors import Misuse
from standfast.house_events import TokenMade, TokenRevoked
from standfast.rights import Right, Scope, Token, hash_of

LONGEST_NAME: Final = 80
MOST_TOKENS: Final = 10_000  # that count at one time; those that have ended are not counted
_NAME: Final = re.compile(r"[^\W_][\w .,@+'-]*", re.UNICODE)
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
LONGEST_SECONDS: Final = 10 * 366 * _UNITS["d"]
SHARED_SECONDS: Final = 7 * _UNITS["d"]  # how long a token lasts if nobody says otherwise


def lifetime(text: str) -> float | None:
    """Seconds of "2h", "7d", "30m"; None for "never"."""
    if text == "never":
        return None
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is None or int(found[1]) == 0:
        raise Misuse(f"{text[:50]!r} is no time to last", hint="write 30m, 2h, 7d or never; nothing was changed")
    seconds = int(found[1]) * _UNITS[found[2]]
    if seconds > LONGEST_SECONDS:
        raise Misuse(f"{text} is longer than ten years", hint="write less, or never; nothing was changed")
    return seconds


def readable_by_others(file: Path) -> str:
    """What to say of a file with a token that is not its owner's alone; empty if it is, or cannot be looked at."""
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return ""
    return f"others on this machine can read the token in {file}: it has mode {mode:04o}" if mode & 0o077 else ""


def make_token(
    tx: Tx,
    id: str,  # noqa: A002
    secret: str,
    rights: tuple[Right, ...],
    *,
    name: str = "",
    run: str | None = None,
    labels: dict[str, str] | None = None,
    seconds: float | None = SHARED_SECONDS,
    until: float | None = None,
    by: str | None = None,
    route: str = "",
    parent: str | None = None,
) -> Token:
    """A token from now on, for `seconds` and in no case beyond `until`; what is kept of its secret is a hash."""
    if len(name) > LONGEST_NAME or (name and not _NAME.fullmatch(name)):
        raise Misuse(
            "the name of a token is letters, digits and spaces, 80 at most", hint="give another; nothing was changed"
        )
    if run is not None and labels:
        raise Misuse("a token is for one run or for labels, not both", hint="give one of them; nothing was changed")
    labels = arguments.labels_by_name(labels or {})
    if run is not None and not tx.lineage(run):
        raise Misuse(f"there is no run {run!r} in this store", hint="nothing was changed")
    counting = sum(not token.ended(tx.now) for token in tx.tokens())
    if counting >= MOST_TOKENS:
        raise Misuse(
            f"there are {counting} tokens that count already",
            hint="revoke some, or let them expire; nothing was changed",
        )
    expires = None if seconds is None else tx.now + seconds
    if until is not None:
        expires = until if expires is None else min(expires, until)
    token = Token(
        id=id,
        name=name,
        rights=rights,
        run=run,
        labels=labels,
        made=tx.now,
        by=by,
        parent=parent,
        expires=expires,
    )
    row = tx.put_token(token, hash_of(secret))
    tx.note(
        TokenMade(
            token=id,
            name=name,
            rights=list(rights),
            run=run,
            labels=token.labels,
            expires=expires,
            row=row,
            by=by,
            route=route,
        )
    )
    return token


def revoke_token(tx: Tx, id: str, *, by: str | None = None, reason: str = "", route: str = "") -> list[str]:  # noqa: A002
    """It counts no longer from here on, nor does any that was made with it; the ids of those that counted before."""
    known = {token.id: token for token in tx.tokens()}
    if id not in known:
        raise Misuse(f"there is no token {id[:100]!r}", hint="standfast token list shows those there are")
    doomed = [id]
    for one in doomed:
        doomed += [token.id for token in known.values() if token.parent == one]
    ended = [one for one in doomed if known[one].revoked is None]
    for one in ended:
        tx.end_token(one)
        tx.note(TokenRevoked(token=one, reason=reason if one == id else f"made with {id}", by=by, route=route))
    return ended


def token_json(token: Token) -> dict[str, Any]:
    """A token as people see it; its secret is nowhere."""
    return {
        "id": token.id,
        "name": token.name,
        "rights": list(token.rights),
        "run": token.run,
        "labels": token.labels,
        "made": token.made,
        "by": token.by,
        "parent": token.parent,
        "expires": token.expires,
        "revoked": token.revoked,
    }


def reaches(tx: Tx, scope: Scope | None, run: str) -> bool:
    """Is the run, or one that it descends from, in the scope? A run that is not there is in none."""
    if scope is None:
        return True
    return any(scope.holds(id_, labels) for id_, labels in tx.lineage(run))
