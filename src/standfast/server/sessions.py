"""How somebody shows who they are to `standfast serve`: its token, or the cookie that a browser got for it."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from standfast.server.actors import Actor
from standfast.server.limits import Rate
from standfast.server.operations import body_of
from standfast.server.problems import Problem
from standfast.server.static import FOLDER, file_response

LASTS = 30 * 24 * 3600.0
PUBLIC = frozenset({"/login", "/login.js", "/login.css", "/api/session"})

LOGIN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>standfast: log in</title><link rel="stylesheet" href="login.css"><script src="login.js" defer></script></head>
<body><main><h1>standfast</h1><form id="login"><label for="token">Token</label>
<input id="token" type="password" autocomplete="current-password" required autofocus>
<button>Log in</button><p id="said" role="status">The server printed it when it was started.</p></form></main></body></html>
"""
SCRIPT = """const said = document.getElementById("said");
async function exchange(token) {
  const answer = await fetch("api/session", {
    method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({token})});
  if (answer.ok) { location.replace("./" + (new URLSearchParams(location.search).get("to") || "").replace(/^[/\\\\]+/, "")); return; }
  const problem = await answer.json().catch(() => ({detail: "the server did not answer"}));
  said.textContent = problem.detail;
}
document.getElementById("login").addEventListener("submit", (event) => {
  event.preventDefault();
  exchange(document.getElementById("token").value.trim());
});
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) { history.replaceState(null, "", location.pathname + location.search); exchange(given); }
"""
STYLE = """body{font:16px/1.5 system-ui,sans-serif;margin:0;display:grid;place-items:center;min-height:100vh;color-scheme:light dark}
main{width:min(22rem,90vw)}input,button{font:inherit;width:100%;padding:.6rem;margin:.3rem 0;box-sizing:border-box}
"""


class Sessions:
    """Who has logged in with a browser. Kept as hashes in a file of its own, so that a restart logs nobody out."""

    def __init__(self, token: str, file: Path, *, secure: bool, cookie: str, name: str = "operator") -> None:
        self._token = token.encode()
        self._file = file
        self._secure = secure
        self._cookie = cookie
        self._name = name
        self._failures = Rate(0.2, 20)
        self._until: dict[str, float] = self._load()

    async def who(self, request: Request) -> Actor | None:
        """The bearer of the token, or of a cookie that was given for it."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(given.strip()):
            return Actor(self._name)
        cookie = request.cookies.get(self._cookie)
        if cookie is not None and self._until.get(_hash(cookie), 0.0) > time.time():
            return Actor(self._name)
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    # --- logging in and out --------------------------------------------------------------------------------------

    def routes(self) -> list[Route]:
        """The login page, and what it talks to."""
        return [
            Route("/login", self._page, methods=["GET"], name="login"),
            Route("/login.js", self._script, methods=["GET"], name="login.js"),
            Route("/login.css", self._style, methods=["GET"], name="login.css"),
            Route("/api/session", self._log_in, methods=["POST"], name="log_in"),
            Route("/api/session", self._log_out, methods=["DELETE"], name="log_out"),
        ]

    def public(self, scope: Scope) -> bool:
        """What nobody needs to be known for: the login page itself."""
        return scope["type"] == "http" and scope["path"] in PUBLIC

    def exchange(self, request: Request) -> Response | None:
        """A link with the token in it is exchanged at once, and the token leaves the address."""
        given = request.query_params.get("token")
        if given is None or request.method != "GET":
            return None
        if not self._is_token(given):
            return None
        rest = "&".join(part for part in request.url.query.split("&") if not part.startswith("token="))
        response = RedirectResponse(request.url.path + (f"?{rest}" if rest else ""), 303)
        self._give_cookie(response)
        return response

    async def _page(self, _: Request) -> Response:
        own = FOLDER / "login.html"
        return file_response(own) if own.is_file() else Response(LOGIN, media_type="text/html")

    async def _script(self, _: Request) -> Response:
        return Response(SCRIPT, media_type="text/javascript")

    async def _style(self, _: Request) -> Response:
        return Response(STYLE, media_type="text/css")

    async def _log_in(self, request: Request) -> Response:
        body = await body_of(request)
        given = body.get("token") if isinstance(body, dict) else None
        if not isinstance(given, str):
            raise Problem(422, "there is no token in the body", 'send {"token": "..."}')
        if not self._is_token(given):
            if not self._failures.allows(request.client.host if request.client else ""):
                raise Problem(429, "too many wrong tokens", "wait a minute", headers={"retry-after": "60"})
            raise Problem(401, "this is not the token", "the server printed it when it was started")
        response = Response(status_code=204)
        self._give_cookie(response)
        return response

    async def _log_out(self, request: Request) -> Response:
        cookie = request.cookies.get(self._cookie)
        if cookie is not None and self._until.pop(_hash(cookie), None) is not None:
            self._save()
        response = Response(status_code=204)
        response.delete_cookie(self._cookie, path="/", secure=self._secure, httponly=True, samesite="strict")
        return response

    def _give_cookie(self, response: Response) -> None:
        session = secrets.token_urlsafe(32)
        now = time.time()
        self._until = {key: until for key, until in self._until.items() if until > now}
        self._until[_hash(session)] = now + LASTS
        self._save()
        response.set_cookie(
            self._cookie, session, max_age=int(LASTS), path="/", secure=self._secure, httponly=True, samesite="strict"
        )

    # --- keeping them ---------------------------------------------------------------------------------------------

    def _load(self) -> dict[str, float]:
        try:
            kept = json.loads(self._file.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError:
            return {}  # not ours, or cut off: everybody logs in again
        return {str(key): float(until) for key, until in kept.items()} if isinstance(kept, dict) else {}

    def _save(self) -> None:
        temporary = self._file.with_name(self._file.name + ".new")
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self._until, file)
        temporary.replace(self._file)


def _hash(session: str) -> str:
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()
