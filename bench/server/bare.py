"""The least a server can do: a Starlette app that answers a POST with JSON."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def answer(request: Request) -> JSONResponse:
    return JSONResponse({"said": await request.json()})


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        app = Starlette(routes=[Route("/", answer, methods=["POST"])])
        uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
