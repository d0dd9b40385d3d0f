"""Tokens as credentials: whoever shows one is who it says, for as long as it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from starlette.requests import Request

from standfast.abc import Tx
from standfast.errors import StoreError, UnknownRun
from standfast.rights import Token, hash_of
from standfast.runtime import Runtime
from standfast.server.actors import Actor
from standfast.server.problems import Problem
from standfast.tokens import why_ended


class Keys:
    """The tokens of a store. `who` knows their bearers: combine it with your own for `control_app`."""

    def __init__(self, runs: Runtime) -> None:
        self._runs = runs

    async def who(self, request: Request) -> Actor | None:
        """The bearer of a token; None if there is none, Problem if it counts no longer."""
        secret = bearer(request)
        return None if secret is None else self.shown(secret)

    def shown(self, secret: str) -> Actor | None:
        """Who shows this secret; the store is asked each time, so that a token revoked counts no more at once."""
        wanted = hash_of(secret)
        return self._admitted(lambda tx: tx.token(wanted))

    def named(self, id: str) -> Actor | None:  # noqa: A002
        """Who has shown the token of that id before."""
        return self._admitted(lambda tx: tx.token_named(id))

    def _admitted(self, find: Callable[[Tx], Token | None]) -> Actor | None:
        """Whose token is found, if it and every token above it counts."""
        now = self._runs.clock.now()

        def look(tx: Tx) -> tuple[Token, str] | None:
            token = find(tx)
            return None if token is None else (token, why_ended(tx, token.id, now))

        try:
            found = self._runs.read(look)
        except UnknownRun:  # there is no store yet
            return None
        if found is None:
            return None
        token, why = found
        if why:
            raise Problem(401, why, "ask whoever gave it to you for another", by=token.holder)
        return self._actor(token)

    def _actor(self, token: Token) -> Actor:
        def ended() -> str:
            now = self._runs.clock.now()
            try:
                return self._runs.read(lambda tx: why_ended(tx, token.id, now))
            except UnknownRun:
                return "this token is not there any more"
            except StoreError:  # nothing can be told or done through it just now anyway
                return ""

        one = Actor(token.holder, frozenset(token.rights), token=token.id, expires=token.expires, ended=ended)
        scope = token.scope
        if scope is None:
            return one
        return replace(one, labels=scope.labels) if scope.labels else replace(one, runs=scope.runs)


def bearer(request: Request) -> str | None:
    """What `Authorization: Bearer ...` shows."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() or None if scheme.lower() == "bearer" else None
