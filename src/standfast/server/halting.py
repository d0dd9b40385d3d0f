"""Halts over HTTP, for actors with the operator's right. The way that needs no server is `standfast.operator`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from standfast.arguments import MOST_LABELS
from standfast.evidence.halt_signatures import signs_halts, verifies_halts
from standfast.operator.acting import halt_json
from standfast.records import Halt
from standfast.server.actors import Actor
from standfast.server.handlers import answer, body_of, body_of_stop, key_of, query_of
from standfast.server.problems import Problem
from standfast.server.surface import Surface, parsed
from standfast.server.verbs import NO_TEXT, Key, Named, Reason, stop_args
from standfast.verbs import halts_in


class SetHalt(BaseModel):
    """Stop every run that matches, and hold it."""

    model_config = ConfigDict(extra="forbid")

    agent: Named | None = None
    labels: dict[str, str] = Field({}, max_length=MOST_LABELS)
    all: bool = False
    then: Literal["pause", "cancel"] = "pause"
    reason: Reason = Field(min_length=1)
    request_id: Key | None = Field(None, description="the halt's id: asked again with it, there is still one halt")


class LiftHalt(BaseModel):
    """A halt holds no longer."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason = ""
    request_id: Key | None = None


class Listed(BaseModel):
    """Which halts are wanted."""

    model_config = ConfigDict(extra="forbid")

    lifted: bool = Field(False, description="also those that hold no longer")


def _unconfined(surface: Surface, actor: Actor, what: str) -> None:
    """A halt reaches whatever matches it: whoever is confined to some runs sets none."""
    if actor.scope is not None:
        detail = f"{actor.name} is confined to some runs, and a halt is not"
        raise surface.refused(actor, what, None, Problem(403, detail, "cancel or pause the runs you may"))


async def list_halts(surface: Surface, actor: Actor, request: Request) -> Response:
    lifted: bool = query_of(Listed, request).lifted
    if actor.scope is not None:  # what holds one of their runs is told with that run
        return answer({"halts": []})
    verifies = verifies_halts(surface.runs.store_path)
    found: list[Halt] = await surface.halts(lambda tx: halts_in(tx, lifted=lifted, verify=verifies))
    return answer({"halts": [halt_json(halt) for halt in found]})


async def set_halt(surface: Surface, actor: Actor, request: Request) -> Response:
    ask = parsed(SetHalt, stop_args(await body_of_stop(request), NO_TEXT), key_of(request))
    _unconfined(surface, actor, "halt")
    halt = await surface.told(
        actor,
        lambda: surface.runs.halt(
            agent=ask.agent,
            labels=ask.labels,
            all=ask.all,
            then=ask.then,
            reason=ask.reason,
            by=actor.name,
            id=ask.request_id,
            sign=signs_halts(surface.runs.store_path),
            route=actor.route,
        ),
    )
    return answer(halt_json(halt), 201)


async def lift_halt(surface: Surface, actor: Actor, request: Request) -> Response:
    _unconfined(surface, actor, "lift")
    ask = parsed(LiftHalt, await body_of(request), key_of(request))
    id_ = str(request.path_params["halt"])
    lift = surface.runs.lift
    halt = await surface.told(actor, lambda: lift(id_, by=actor.name, reason=ask.reason, route=actor.route))
    return answer(halt_json(halt))
