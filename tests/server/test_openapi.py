"""The OpenAPI document is true: it names every route, and nothing it allows breaks the server."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from starlette.routing import Route
from tests.server.serving import Server
from tests.trials import trials

from standfast import Runtime
from standfast.server import Actor, control_app

EXAMPLES = trials(3, 12, 12)
NOT_FUZZED = {"/api/events"}  # it never ends


async def nobody(_: Any) -> Actor | None:
    return None


async def test_every_api_route_is_in_the_document(server: Server, tmp_path: Path) -> None:
    document = server.get("/openapi.json")
    told = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    async with Runtime(tmp_path / "x.db", drive=False) as runs:
        app = control_app(runs, who=nobody)
        there = {
            (method, route.path)
            for route in app.routes
            if isinstance(route, Route) and (route.path.startswith(("/api", "/agui")) or route.path.endswith("z"))
            for method in route.methods or ()
            if method != "HEAD"
        }
        await app.state.surface.close()
    assert told == there


@pytest.mark.more
def test_nothing_the_document_allows_is_a_500(server: Server) -> None:
    import schemathesis  # noqa: PLC0415 - half a second

    run = server.start("counter", "fuzzed", to=3, seconds=0.0)
    server.until(run, "done")
    server.start("shop", "asking")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # schemathesis' own
        schema = schemathesis.openapi.from_dict(server.get("/openapi.json"))
        tried = 0
        for result in schema.get_all_operations():
            operation = result.ok()
            if operation.path in NOT_FUZZED:
                continue
            tried += fuzz(server, operation)
    assert tried > 17 * EXAMPLES


def fuzz(server: Server, operation: Any) -> int:
    """Ask with whatever the schema allows, of runs that are there and of ones that are not."""
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415

    tried = 0

    @hypothesis.settings(
        max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.seed(7)
    @hypothesis.given(case=operation.as_strategy(), known=hypothesis.strategies.sampled_from(["fuzzed", "asking", ""]))
    def ask(case: Any, known: str) -> None:
        nonlocal tried
        if "id" in (case.path_parameters or {}) and known:
            case.path_parameters["id"] = known
        if "agent" in (case.path_parameters or {}) and known:
            case.path_parameters["agent"] = "quiet"
        tried += 1
        response = case.call(base_url=server.url, headers={"Authorization": f"Bearer {server.token}"}, timeout=30)
        case.validate_response(response, checks=[not_a_server_error])

    ask()
    return tried
