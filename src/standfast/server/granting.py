"""Giving and taking rights over HTTP, and the record of the house. Nobody gives more than they have."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from standfast.abc import Tx
from standfast.errors import StandfastError, UnknownRun
from standfast.house_events import HouseEvent, plain_house
from standfast.rights import Right, Token, new_id, new_secret, rights_from
from standfast.server.actors import Actor
from standfast.server.handlers import After, answer, body_of, query_of
from standfast.server.problems import Problem, problem_of
from standfast.server.surface import Surface, parsed
from standfast.tokens import (
    TokenEnded,
    lifetime,
    line_of,
    make_token,
    reaches,
    revoke_token,
    token_json,
    why_ended,
)


class Grant(BaseModel):
    """A token to be made."""

    model_config = ConfigDict(extra="forbid")

    rights: list[str] = Field(description="view, pause, redirect, cancel, resolve, forensics, operator")
    run: str | None = Field(None, description="for this run and its children")
    labels: dict[str, str] | None = Field(None, description="for runs with all of these labels, and their children")
    all: bool = Field(False, description="for all runs")
    expires: str = Field("7d", description="30m, 2h, 7d ... or never")
    name: str = Field("", description="who it is for")


class OfRun(BaseModel):
    """Which tokens are wanted."""

    model_config = ConfigDict(extra="forbid")
    run: str | None = Field(None, description="those made for this run alone")


async def make(surface: Surface, actor: Actor, request: Request) -> Response:
    grant = parsed(Grant, await body_of(request), None)
    if [grant.run is not None, bool(grant.labels), grant.all].count(True) != 1:
        raise Problem(422, "a token is for one run, for labels, or for all", "give exactly one of run, labels, all")
    try:
        rights, seconds = rights_from(grant.rights), lifetime(grant.expires)
        _check(surface, actor, rights, grant)
        secret = new_secret()

        def act(tx: Tx) -> Token:
            return make_token(
                *(tx, new_id(), secret, rights),
                name=grant.name,
                run=grant.run,
                labels=grant.labels,
                seconds=seconds,
                until=actor.expires,
                by=actor.name,
                route=actor.route,
                parent=actor.token,
            )

        token = await surface.runs.control(act)
    except TokenEnded as error:
        raise surface.refused(actor, "make_token", grant.run, problem_of(error)) from error
    except StandfastError as error:
        raise problem_of(error) from error
    return answer({"token": token_json(token), "secret": secret}, 201)


def _check(surface: Surface, actor: Actor, rights: tuple[Right, ...], grant: Grant) -> None:
    """Nobody gives a right that they do not have, nor to runs that they do not reach."""
    for right in rights:
        surface.allow(actor, "make_token", grant.run, right=right)
    inside = grant.run is not None or (
        bool(actor.labels) and all((grant.labels or {}).get(name) == value for name, value in actor.labels)
    )
    if actor.scope is not None and not inside:
        problem = Problem(403, f"{actor.name} is confined to some runs", "give a right to these alone")
        raise surface.refused(actor, "make_token", None, problem)


async def show(surface: Surface, actor: Actor, request: Request) -> Response:
    wanted = query_of(OfRun, request).run

    def look(tx: Tx) -> list[dict[str, Any]]:
        return [
            {**token_json(token), "revocable": _made_by(tx, actor, token)}
            for token in tx.tokens()
            if _theirs(tx, actor, token) and wanted in (None, token.run)
        ]

    try:
        tokens = await surface.reader.read(look)
    except UnknownRun:
        tokens = []
    return answer({"tokens": tokens})


async def revoke(surface: Surface, actor: Actor, request: Request) -> Response:
    wanted = str(request.path_params["token"])

    def act(tx: Tx) -> list[str]:
        if actor.token is not None and (why := why_ended(tx, actor.token)):
            raise TokenEnded(why, hint="nothing was changed")
        known = tx.token_named(wanted)
        if known is None or not _theirs(tx, actor, known):
            raise Problem(404, f"there is no token {wanted[:100]!r}", "GET /api/tokens shows those there are")
        if not _made_by(tx, actor, known):
            detail = f"{actor.name} is confined to some runs, and did not make the token {known.id}"
            raise Problem(403, detail, "ask whoever made it, or an operator of all runs; nothing was changed")
        return revoke_token(tx, wanted, by=actor.name, route=actor.route)

    try:
        ended = await surface.runs.control(act)
    except TokenEnded as error:
        raise surface.refused(actor, "revoke_token", None, problem_of(error)) from error
    except StandfastError as error:
        raise problem_of(error) from error
    except Problem as problem:
        if problem.status == 403:
            surface.refused(actor, "revoke_token", None, problem)
        raise
    return answer({"revoked": ended})


def _made_by(tx: Tx, actor: Actor, token: Token) -> bool:
    """May the actor take it back? Whoever is confined takes back what they, or those they gave rights to, have made.

    Not what others gave to others on the same runs: somebody's right to stop them is among that. Nor what they were
    given their own right with.
    """
    if actor.scope is None:
        return True
    line = line_of(tx, token.id)
    if actor.token is not None:
        return any(each.id == actor.token for each in line)
    return line[-1].parent is None and line[-1].by == actor.name


def _theirs(tx: Tx, actor: Actor, token: Token) -> bool:
    """Is it for runs that the actor reaches, and so theirs to see?"""
    if actor.scope is None:
        return True
    if token.run is not None:
        return reaches(tx, actor.scope, token.run)
    return bool(actor.labels) and all(token.labels.get(name) == value for name, value in actor.labels)


async def house(surface: Surface, actor: Actor, request: Request) -> Response:
    wanted = query_of(After, request)

    def look(tx: Tx) -> tuple[list[HouseEvent], int]:
        found = tx.house(wanted.after, wanted.limit)
        return [e for e in found if _concerns(tx, actor, e)], found[-1].seq if found else wanted.after

    try:
        events, last = await surface.reader.read(look)
    except UnknownRun:
        events, last = [], wanted.after
    return answer({"events": [plain_house(event) for event in events], "last": last})


def _concerns(tx: Tx, actor: Actor, event: HouseEvent) -> bool:
    if actor.scope is None:
        return True
    run: str | None = getattr(event, "run", None)
    return run is not None and reaches(tx, actor.scope, run)
