"""The control surface as an ASGI app, to be served by itself or mounted into somebody's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from standfast.errors import StandfastError
from standfast.evidence.sealing import recipients_from
from standfast.runtime import Runtime
from standfast.server import agui, sse
from standfast.server.actors import Actor, Who
from standfast.server.guard import Guard, Rules, route_of
from standfast.server.handlers import answer
from standfast.server.openapi import document
from standfast.server.operations import OPERATIONS, Handler
from standfast.server.problems import Problem, failed, problem_of
from standfast.server.rights import ROUTES, VERBS
from standfast.server.socket import page_socket
from standfast.server.static import page_routes
from standfast.server.surface import Surface, Workers
from standfast.server.verbs import LONGEST_ID


def control_app(
    runs: Runtime,
    *,
    who: Who,
    rules: Rules | None = None,
    workers: Workers | None = None,
    routes: Sequence[BaseRoute] = (),
    evidence_for: Sequence[str] = (),
) -> Starlette:
    """Every verb and every event of a runtime's runs over HTTP, for whoever `who` knows; nobody else gets in.

    Mount it into your own Starlette or FastAPI app: `Mount("/agents", control_app(runs, who=who))`. It needs no
    lifespan. `await app.state.surface.close()` tells open pages and streams to go before your server does.
    `evidence_for` are age public keys for which the instructions of agents are sealed into evidence bundles.
    """
    rules = rules or Rules()
    surface = Surface(runs, workers)
    surface.shares = rules.has_login
    surface.evidence_for = recipients_from(evidence_for)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await surface.close()

    async def openapi(_: Surface, __: Any, request: Request) -> Response:
        return answer(document(request.scope.get("root_path", "")))

    endpoints: list[BaseRoute] = [
        *(
            Route(each.path, _endpoint(surface, each.handler, each.name), methods=[each.method], name=each.name)
            for each in OPERATIONS
        ),
        Route("/api/runs/{id}/events", _endpoint(surface, sse.run_events, "events"), methods=["GET"], name="events"),
        Route("/api/events", _endpoint(surface, sse.all_events, "all_events"), methods=["GET"], name="all_events"),
        Route("/agui/{agent}", _endpoint(surface, agui.run_agent, "agui"), methods=["POST"], name="agui"),
        Route("/agui/runs/{id}", _endpoint(surface, agui.attach, "agui_run"), methods=["POST"], name="agui_run"),
        Route("/openapi.json", _endpoint(surface, openapi, "openapi"), methods=["GET"], name="openapi"),
        WebSocketRoute("/ws", page_socket, name="socket"),
        *routes,
        *page_routes(),
    ]
    app = Starlette(
        routes=endpoints,
        middleware=[Middleware(Guard, who=who, rules=rules, refused=surface.attempts.refused)],
        exception_handlers={HTTPException: _http_problem, Problem: _told, StandfastError: _told, Exception: _failed},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.surface = surface
    return app


def _endpoint(surface: Surface, handler: Handler, name: str) -> Callable[[Request], Any]:
    """The handler, for those who have the right that its name asks for."""
    assert name in ROUTES or name in VERBS, f"{name} is in no table of rights"

    async def endpoint(request: Request) -> Response:
        for given in request.path_params.values():
            if len(given) > LONGEST_ID:
                problem = Problem(404, f"there is nothing called {given[:100]!r}...", "names are shorter")
                raise surface.refused(request.state.actor, name, request.path_params.get("id"), problem)
        surface.allow(request.state.actor, name, request.path_params.get("id"))
        return await handler(surface, request.state.actor, request)

    return endpoint


async def _told(request: Request, error: Exception) -> Response:
    if isinstance(error, StandfastError):
        error = problem_of(error, request.path_params.get("id"))
    assert isinstance(error, Problem)
    if error.status in (401, 403) and not error.noted:
        actor: Actor | None = getattr(request.state, "actor", None)
        by = actor.name if actor is not None else error.by
        surface: Surface = request.app.state.surface
        surface.attempts.refused(by, route_of(request.scope), "enter", None, error.detail)
    return error.response()


async def _failed(_: Request, error: Exception) -> Response:
    """Our own fault: said as a problem, and the traceback is in the log."""
    return failed(error).response()


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hint = "see /openapi.json for what there is"
    return Problem(
        error.status_code,
        f"{request.method} {request.url.path[:200]}: {error.detail}",
        hint,
        headers=error.headers or {},
    ).response()
