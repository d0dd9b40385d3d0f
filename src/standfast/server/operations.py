"""Every REST operation, as one table: routes and the OpenAPI document are both made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from standfast.server import granting, halting, taking_evidence
from standfast.server import handlers as do
from standfast.server.actors import Actor
from standfast.server.surface import Surface
from standfast.server.verbs import VERBS, Asked, Fork, Start

Handler: TypeAlias = Callable[[Surface, Actor, Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method on one path."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    name: str
    summary: str
    handler: Handler
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    answers: int = 200
    schema: str = "Anything"
    media: str = "application/json"
    says_no: bool = False  # 409, with the truth
    public: bool = False


def _verbs() -> list[Operation]:
    named = [(verb.name, verb.asks, verb.summary) for verb in VERBS.values()]
    named.append(("force", Asked, "Kill the worker that holds a run in transit; the answer names what was killed"))
    return [
        Operation(
            method="POST",
            path=f"/api/runs/{{id}}/{name}",
            name=name,
            summary=summary,
            handler=do.do_verb,
            body=asks,
            schema="Accepted",
            says_no=True,
        )
        for name, asks, summary in named
    ]


RUN = "/api/runs/{id}"
OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="GET",
        path="/api/agents",
        name="agents",
        summary="The agents that can be started",
        handler=do.list_agents,
        schema="Agents",
    ),
    Operation(
        method="GET",
        path="/api/runs",
        name="list",
        summary="Runs, newest first",
        handler=do.list_runs,
        query=do.Listed,
        schema="Runs",
    ),
    Operation(
        method="POST",
        path="/api/runs",
        name="start",
        summary="Start a run",
        handler=do.start_run,
        body=Start,
        answers=201,
        schema="RunView",
        says_no=True,
    ),
    Operation(method="GET", path=RUN, name="show", summary="A run as it is now", handler=do.show_run, schema="RunView"),
    *_verbs(),
    Operation(
        method="GET", path=f"{RUN}/force", name="would_kill", summary="What force would kill now", handler=do.would_kill
    ),
    Operation(
        method="POST",
        path=f"{RUN}/fork",
        name="fork",
        summary="A new run from a snapshot of this one",
        handler=do.fork_run,
        body=Fork,
        answers=201,
        schema="RunView",
        says_no=True,
    ),
    Operation(
        method="GET",
        path=f"{RUN}/state",
        name="state",
        summary="The state before a step",
        handler=do.show_state,
        query=do.AtStep,
    ),
    Operation(
        method="GET",
        path=f"{RUN}/transcript",
        name="transcript",
        summary="What was said, partial text included",
        handler=do.show_transcript,
        schema="Transcript",
    ),
    Operation(
        method="GET",
        path=f"{RUN}/receipt",
        name="receipt",
        summary="What the last stop did",
        handler=do.show_receipt,
        schema="Receipt",
        says_no=True,
    ),
    Operation(
        method="GET",
        path=f"{RUN}/stops",
        name="stops",
        summary="The record of each stop: by what and whom, when, and what had reached whom (right: forensics)",
        handler=do.show_stops,
        query=do.AfterStop,
        schema="Stops",
    ),
    Operation(
        method="GET",
        path=f"{RUN}/result",
        name="result",
        summary="What the run came to, once it has ended",
        handler=do.show_result,
        says_no=True,
    ),
    Operation(
        method="GET",
        path=f"{RUN}/calls",
        name="calls",
        summary="Calls that are kept: of the step in progress, and effects",
        handler=do.list_calls,
    ),
    Operation(method="GET", path=f"{RUN}/calls/{{call_id}}", name="call", summary="One call", handler=do.show_call),
    Operation(
        method="GET",
        path=f"{RUN}/record",
        name="record",
        summary="Events as JSON, a page at a time",
        handler=do.show_record,
        query=do.After,
    ),
    Operation(
        method="GET",
        path=f"{RUN}/evidence",
        name="evidence",
        summary="What an evidence bundle of the run would hold, and how it is verified (right: forensics)",
        handler=taking_evidence.describe,
    ),
    Operation(
        method="POST",
        path=f"{RUN}/evidence",
        name="take_evidence",
        summary="A signed evidence bundle of the run, as a zip; that it was taken is on record (right: forensics)",
        handler=taking_evidence.take,
        body=taking_evidence.Take,
        media="application/zip",
        says_no=True,
    ),
    Operation(
        method="GET",
        path="/api/halts",
        name="halts",
        summary="Halts that hold",
        handler=halting.list_halts,
        query=halting.Listed,
        schema="Halts",
    ),
    Operation(
        method="POST",
        path="/api/halts",
        name="halt",
        summary="Stop every run that matches, and hold it until the halt is lifted (right: operator)",
        handler=halting.set_halt,
        body=halting.SetHalt,
        answers=201,
        schema="Halt",
    ),
    Operation(
        method="POST",
        path="/api/halts/{halt}/lift",
        name="lift",
        summary="A halt holds no longer (right: operator)",
        handler=halting.lift_halt,
        body=halting.LiftHalt,
        schema="Halt",
    ),
    Operation(
        method="GET",
        path="/api/tokens",
        name="tokens",
        summary="Tokens that were made: for whom, for what, until when; never their secrets",
        handler=granting.show,
        query=granting.OfRun,
    ),
    Operation(
        method="POST",
        path="/api/tokens",
        name="make_token",
        summary="A token for some rights on some runs; the answer has its secret, this once",
        handler=granting.make,
        body=granting.Grant,
        answers=201,
    ),
    Operation(
        method="DELETE",
        path="/api/tokens/{token}",
        name="revoke_token",
        summary="A token, and all that were made with it, count no longer",
        handler=granting.revoke,
    ),
    Operation(
        method="GET",
        path="/api/house",
        name="house",
        summary="The record of the house: refused attempts, tokens, halts, exports",
        handler=granting.house,
        query=do.After,
    ),
    Operation(method="GET", path="/api/me", name="me", summary="Who you are here", handler=do.show_me),
    Operation(method="GET", path="/healthz", name="healthz", summary="Does the server answer?", handler=do.healthz),
    Operation(method="GET", path="/readyz", name="readyz", summary="Are store and workers at work?", handler=do.readyz),
)
