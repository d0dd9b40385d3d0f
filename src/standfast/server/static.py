"""The built page, as static files; a plain one says how to use the API until it is there."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from standfast.server.problems import Problem

FOLDER: Final = Path(__file__).parent / "page"
PARTS: Final = ("client.js", "bar.js")
TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".png": "image/png",
    ".woff2": "font/woff2",
    ".map": "application/json",
    ".ico": "image/x-icon",
}
PLAIN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>standfast</title>
<main><h1>standfast</h1><p>This server has no page, but everything can be done over its API:</p>
<pre>
GET  /api/agents                   what can be started
POST /api/runs                     {"agent": "...", "state": {...}}
GET  /api/runs                     the list
GET  /api/runs/ID/events           server-sent events
POST /api/runs/ID/pause            also resume, redirect, message, cancel ...
GET  /openapi.json                 all of it
</pre><p>Send <code>Authorization: Bearer TOKEN</code> with the token the server printed.</p></main></html>
"""


def file_response(path: Path, *, keep: bool = False) -> Response:
    """A file of the page, with its type; built assets have their hash in the name and may be kept."""
    headers = {"cache-control": "public, max-age=31536000, immutable" if keep else "no-cache"}
    return Response(path.read_bytes(), 200, headers, media_type=TYPES.get(path.suffix, "application/octet-stream"))


async def index(_: Request) -> Response:
    """The page itself."""
    path = FOLDER / "index.html"
    return file_response(path) if path.is_file() else HTMLResponse(PLAIN)


async def permalink(request: Request) -> Response:
    """An address that people can write: the page keeps its own behind the `#`."""
    query = f"?{request.url.query}" if request.url.query else ""
    place = quote(str(request.path_params.get("rest", "")))
    return RedirectResponse(f"{request.scope.get('root_path', '')}/{query}#/{'runs/' + place if place else ''}", 303)


async def part(request: Request) -> Response:
    """A file beside the index, by its exact name."""
    name = request.url.path.rpartition("/")[2]
    path = FOLDER / name
    if not path.is_file():
        raise Problem(404, f"this server has no {name}", "it was installed without the page")
    return file_response(path)


async def asset(request: Request) -> Response:
    """A built file; only names that are there, so that no path leads out of the folder."""
    wanted = str(request.path_params["path"])
    root = FOLDER / "assets"
    known = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()} if root.is_dir() else {}
    if wanted not in known:
        raise Problem(404, f"there is no asset {wanted[:100]!r}", "reload the page: it may be of an older version")
    return file_response(known[wanted], keep=True)


def page_routes() -> list[BaseRoute]:
    """Where the page is: /, its permalinks, and the parts for other people's apps."""
    beside = [p.name for p in FOLDER.iterdir() if p.is_file() and p.name != "index.html"] if FOLDER.is_dir() else []
    return [
        Route("/", index, methods=["GET"], name="page"),
        Route("/runs", permalink, methods=["GET"], name="page_list"),
        Route("/runs/{rest:path}", permalink, methods=["GET"], name="page_of_run"),
        *(Route(f"/{name}", part, methods=["GET"], name=name) for name in sorted({*PARTS, *beside})),
        Route("/assets/{path:path}", asset, methods=["GET"], name="asset"),
    ]
