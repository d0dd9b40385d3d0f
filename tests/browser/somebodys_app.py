"""Somebody's own app, with the control surface mounted into it and the bar on one of its pages."""

from __future__ import annotations

import asyncio
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route
from tests.browser.agents import AGENTS

from standfast import Runtime
from standfast.server import Actor, control_app

PAGE = """<!doctype html><html lang="en"><head><title>mine</title></head>
<body style="--standfast-accent: #7a1fa2; --standfast-radius: 2px"><h1>My own app</h1>
<script type="module" src="/agents/bar.js"></script>
<standfast-bar run="{run}"></standfast-bar></body></html>"""


async def page(request: Request) -> Response:
    return HTMLResponse(PAGE.format(run=request.path_params["run"]))


async def who(request: Request) -> Actor | None:
    return Actor("ada")  # this app has its own sessions


async def main(store: str, port: int) -> None:
    async with Runtime(store, agents=AGENTS) as runs:
        app = Starlette(routes=[Route("/mine/{run}", page), Mount("/agents", control_app(runs, who=who))])
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", timeout_graceful_shutdown=2)).serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
