"""How somebody shows who they are to `standfast serve`: its token, one of the store's, or a cookie given for one."""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import logging
import os
import secrets
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from standfast.json_values import is_array, is_object
from standfast.rates import Rate
from standfast.server.actors import Actor
from standfast.server.handlers import body_of
from standfast.server.keys import Keys, bearer
from standfast.server.problems import Problem
from standfast.server.static import FOLDER, file_response

log = logging.getLogger("standfast")

LASTS = 30 * 24 * 3600.0
MOST_SESSIONS = 200  # of one token: who logs in once more logs out the browser that logged in first
SERVERS = "server:"  # and a digest of the token it was given: with another one the session is over; no token's id is so
LOGIN = ("/login", "/login.js", "/login.css")
PUBLIC = frozenset({*LOGIN, "/api/session"})

FILES = Path(__file__).parent / "login"


class Sessions:
    """Who has logged in with a browser. Kept as hashes in a file of its own, so that a restart logs nobody out."""

    def __init__(
        self,
        token: str,
        file: Path,
        keys: Keys,
        *,
        secure: bool,
        cookie: str,
        name: str = "operator",
        made_up: bool = False,
    ) -> None:
        """`made_up`: nobody chose the token, it is another at each start, which logs nobody out."""
        self._token = token.encode()
        digest = hmac.new(self._token, b"standfast session", "sha256").hexdigest()
        self._own = SERVERS + ("made up" if made_up else digest)
        self._file = file
        self._keys = keys
        self._secure = secure
        self._cookie = cookie
        self._name = name
        self._failures = Rate(0.2, 20)
        self._kept: dict[str, tuple[float, str]] = self._load()  # until when, and for which token

    async def who(self, request: Request) -> Actor | None:
        """The bearer of the token, of one of the store's, or of a cookie that was given for one."""
        given = bearer(request)
        if given is not None and (actor := self._holder(given)) is not None:
            return actor
        cookie = request.cookies.get(self._cookie)
        return None if cookie is None else self._returning(_hash(cookie))

    def _holder(self, given: str) -> Actor | None:
        return Actor(self._name, has_token=True) if self._is_token(given) else self._keys.shown(given)

    def _returning(self, session: str) -> Actor | None:
        """Whoever has logged in as this; the token it was for must still count."""
        until, token = self._kept.get(session, (0.0, ""))
        if until <= time.time():
            return None
        actor = Actor(self._name, has_token=True) if token == self._own else self._keys.named(token)
        if actor is None:
            return None
        counts = actor.ended

        def ended() -> str:
            return counts() if session in self._kept else "you have logged out"

        return replace(actor, ended=ended)

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self._token)

    # --- logging in and out --------------------------------------------------------------------------------------

    def routes(self) -> list[Route]:
        """The login page, and what it talks to."""
        return [
            *(Route(path, _login_file, methods=["GET"], name=path.strip("/")) for path in LOGIN),
            Route("/api/session", self._log_in, methods=["POST"], name="log_in"),
            Route("/api/session", self._log_out, methods=["DELETE"], name="log_out"),
        ]

    def public(self, scope: Scope) -> bool:
        """What nobody needs to be known for: the login page itself."""
        return scope["type"] == "http" and scope["path"] in PUBLIC

    def exchange(self, request: Request) -> Response | None:
        """A link with the server's own token in it is exchanged at once, and the token leaves the address.

        Links for others carry theirs behind the #, which no server and no log sees.
        """
        given = request.query_params.get("token")
        if given is None or request.method != "GET":
            return None
        if not self._is_token(given):
            return None
        rest = "&".join(part for part in request.url.query.split("&") if not part.startswith("token="))
        path = "/" + request.url.path.lstrip("/")  # two slashes would lead to another server
        response = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
        self._give_cookie(response, Actor(self._name))
        return response

    async def _log_in(self, request: Request) -> Response:
        body = await body_of(request)
        given = body.get("token") if is_object(body) else None
        if not isinstance(given, str):
            raise Problem(422, "there is no token in the body", 'send {"token": "..."}')
        actor = self._holder(given)
        if actor is None:
            if not self._failures.allows(request.client.host if request.client else ""):
                raise Problem(429, "too many wrong tokens", "wait a minute", headers={"retry-after": "60"})
            raise Problem(401, "this is not the token", "the server printed it when it was started")
        response = Response(status_code=204)
        self._give_cookie(response, actor)
        return response

    async def _log_out(self, request: Request) -> Response:
        cookie = request.cookies.get(self._cookie)
        if cookie is not None and self._kept.pop(_hash(cookie), None) is not None:
            self._save()
        response = Response(status_code=204)
        response.delete_cookie(self._cookie, path="/", secure=self._secure, httponly=True, samesite="strict")
        return response

    def _give_cookie(self, response: Response, actor: Actor) -> None:
        session = secrets.token_urlsafe(32)
        now = time.time()
        lasts = LASTS if actor.expires is None else min(LASTS, actor.expires - now)
        self._kept = {key: kept for key, kept in self._kept.items() if kept[0] > now}
        theirs = [key for key, (_, token) in self._kept.items() if token == (actor.token or self._own)]
        for oldest in theirs[: max(0, len(theirs) + 1 - MOST_SESSIONS)]:
            del self._kept[oldest]
        self._kept[_hash(session)] = (now + lasts, actor.token or self._own)
        self._save()
        response.set_cookie(
            self._cookie, session, max_age=int(lasts), path="/", secure=self._secure, httponly=True, samesite="strict"
        )

    # --- keeping them ---------------------------------------------------------------------------------------------

    def _load(self) -> dict[str, tuple[float, str]]:
        try:
            kept: Any = json.loads(_own_file(self._file))
            return {str(key): _session(value) for key, value in kept.items()} if is_object(kept) else {}
        except FileNotFoundError:
            return {}
        except OSError as error:
            log.warning("standfast: %s is not used, and everybody logs in again: %s", self._file, error.strerror)
            return {}
        except (ValueError, TypeError, LookupError, RecursionError):
            return {}  # not ours, or cut off: everybody logs in again

    def _save(self) -> None:
        temporary = self._file.with_name(f".{self._file.name}.{secrets.token_hex(8)}")
        flags = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY  # nothing that somebody put there is written to
        try:
            with os.fdopen(os.open(temporary, flags, 0o600), "w") as file:
                json.dump(self._kept, file)
            temporary.replace(self._file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


async def _login_file(request: Request) -> Response:
    """The login page and what it needs; the built page may bring its own."""
    name = request.url.path.rpartition("/")[2]
    name = name if "." in name else f"{name}.html"
    own = FOLDER / name
    return file_response(own if own.is_file() else FILES / name)


def _own_file(path: Path) -> bytes:
    """What is in a file that only this account can have written: whoever writes it decides who is logged in."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        mine = found.st_uid in (os.geteuid(), 0) and not found.st_mode & 0o022
        if not mine or not stat.S_ISREG(found.st_mode):
            raise PermissionError(errno.EPERM, "somebody else can have written it")
        return file.read()


def _session(kept: Any) -> tuple[float, str]:
    """One that was kept; without a token it is for none that counts."""
    return (float(kept[0]), str(kept[1])) if is_array(kept) else (float(kept), "")


def _hash(session: str) -> str:
    return hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()
