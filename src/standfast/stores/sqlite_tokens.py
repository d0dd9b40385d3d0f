"""Tokens in SQLite, and who descends from whom: what decides who may do what."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from standfast.errors import StoreDamaged
from standfast.lazily import adapter
from standfast.rights import Scope, Token
from standfast.stores.queries import queries
from standfast.stores.sides import lasting
from standfast.stores.sqlite_house import SqliteHouse
from standfast.stores.sqlite_labels import HAS_LABEL

_Q = queries()
_tokens: TypeAdapter[Token] = adapter(Token)


class SqliteTokens(SqliteHouse):
    """The part of a transaction that knows rights."""

    __slots__ = ()

    def put_token(self, token: Token, hash: bytes) -> str:  # noqa: A002
        row = (token.id, hash, _tokens.dump_json(token).decode(), token.expires)
        self._c.execute(_Q["insert_token"], row)
        return lasting(*row)

    def token(self, hash: bytes) -> Token | None:  # noqa: A002
        found = self._c.execute(_Q["token_by_hash"], (hash,)).fetchone()
        return None if found is None else _token(found)

    def token_named(self, id: str) -> Token | None:  # noqa: A002
        found = self._c.execute(_Q["token_by_id"], (id,)).fetchone()
        return None if found is None else _token(found)

    def tokens(self) -> list[Token]:
        return [_token(row) for row in self._c.execute(_Q["tokens"]).fetchall()]

    def end_token(self, id: str) -> None:  # noqa: A002
        self._c.execute(_Q["revoke_token"], (self.now, id))

    def lineage(self, run: str) -> list[tuple[str, dict[str, str]]]:
        rows = self._c.execute(_Q["lineage"], (run,)).fetchall()
        return [(row[0], from_json(row[1]) if row[1] else {}) for row in rows]


def scope_sql(scope: Scope) -> tuple[str, list[Any]]:
    """A condition on runs, with its values: those in the scope, and their descendants."""
    if scope.labels:
        roots = " AND ".join([HAS_LABEL] * len(scope.labels))
        values: list[Any] = [part for label in scope.labels for part in label]
    else:
        roots = f"id IN ({', '.join('?' * len(scope.runs))})"
        values = sorted(scope.runs)
    sql = (
        f"id IN (WITH RECURSIVE family (id) AS (SELECT id FROM runs WHERE {roots}"  # noqa: S608 - fixed words, values are bound
        " UNION SELECT runs.id FROM runs JOIN family ON runs.parent = family.id) SELECT id FROM family)"
    )
    return sql, values


def _token(row: Any) -> Token:
    id_, doc, expires, revoked = row
    try:
        token = _tokens.validate_python({**from_json(doc), "id": id_, "expires": expires, "revoked": revoked})
    except (ValueError, TypeError, ValidationError) as error:
        raise StoreDamaged(
            f"the token {id_} cannot be read: {error}", hint="nobody gets in with it; revoke it and make another"
        ) from error
    return token
