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
LONGEST_LINE: Final = 16  # tokens from one that was made with none down to the last: each use looks at all of them
_NAME: Final = re.compile(r"[^\W_][\w .,@+'-]*", re.UNICODE)
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
LONGEST_SECONDS: Final = 10 * 366 * _UNITS["d"]
SHARED_SECONDS: Final = 7 * _UNITS["d"]  # how long a token lasts if nobody says otherwise


class TokenEnded(Misuse):
    """The token that was shown, or one that it was made with, counts no longer."""


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
    """A token from now on, for `seconds` and in no case beyond `until`; what is kept of its secret is a hash.

    With a `parent` the whole line of parents must count in this very transaction (`TokenEnded`), and the token gets no
    more than each of them has: a parent that is being revoked leaves no child behind.
    """
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
    ends = [] if seconds is None else [tx.now + seconds]
    ends += [] if until is None else [until]
    if parent is not None:
        ends += _ends_of_grantors(tx, parent, rights, run, labels)
    expires = min(ends, default=None)
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


def _ends_of_grantors(
    tx: Tx, parent: str, rights: tuple[Right, ...], run: str | None, labels: dict[str, str]
) -> list[float]:
    """When those above a new token end, if they do. Each must count, and have what is given."""
    line = line_of(tx, parent)
    if why := why_ended(tx, parent):
        raise TokenEnded(f"no token can be made with {parent[:100]}: {why}", hint="nothing was changed")
    if len(line) >= LONGEST_LINE:
        raise Misuse(
            f"{parent} is the {len(line)}th in a line of tokens that were made with each other",
            hint="make the token with one further up; nothing was changed",
        )
    for each in line:
        more = [right for right in rights if right not in each.rights]
        if more:
            raise Misuse(f"{each.id} does not have the right {more[0]!r} to give", hint="nothing was changed")
        if not _within(tx, each.scope, run, labels):
            raise Misuse(f"{each.id} does not reach the runs that the token is for", hint="nothing was changed")
    return [each.expires for each in line if each.expires is not None]


def _within(tx: Tx, scope: Scope | None, run: str | None, labels: dict[str, str]) -> bool:
    """Does the scope hold everything that a token for this run or these labels would reach?"""
    if scope is None:
        return True
    if run is not None:
        return reaches(tx, scope, run)
    return bool(scope.labels) and all(labels.get(name) == value for name, value in scope.labels)


def line_of(tx: Tx, id: str) -> list[Token]:  # noqa: A002
    """The token, the one it was made with, and so on, as far as they are there."""
    line: list[Token] = []
    wanted: str | None = id
    while wanted is not None and all(wanted != token.id for token in line):
        token = tx.token_named(wanted)
        if token is None:
            break
        line.append(token)
        wanted = token.parent
    return line


def why_ended(tx: Tx, id: str, now: float | None = None) -> str:  # noqa: A002
    """Why a token counts no longer, by itself or through one that it was made with; empty while it does.

    Every use asks this, not the token alone: a child that was written while its parent was being revoked counts as
    little as its parent.
    """
    now = tx.now if now is None else now
    line = line_of(tx, id)
    if not line:
        return "this token is not there any more"
    if why := line[0].ended(now):
        return why
    for above in line[1:]:
        if why := above.ended(now):
            return f"{why}: it was made with {above.id}, of which the same is true"
    if line[-1].parent is not None:
        return f"the token {line[-1].parent} that this one was made with is not there"
    return ""


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
