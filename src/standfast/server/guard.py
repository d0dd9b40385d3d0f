"""The guard: the outermost layer of every route. Whoever it does not know gets no further.

Host names (against DNS rebinding), origins (against other sites' pages), JSON only, sizes, rates,
credentials, and the headers that tell a browser what a page may do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from standfast.rates import GUESSES, GUESSES_A_SECOND, Rate
from standfast.server.actors import PROBE, STOP_VERBS, Actor, Who
from standfast.server.problems import Problem
from standfast.ways import ByToken

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
PROBES: Final = ("/healthz", "/readyz")  # what asks them has no token: they answer yes or no
STALE = 100  # requests with one cookie that counts no longer, at once
STALE_A_SECOND = 1.0
BODY_SECONDS = 30.0
STRANGERS_SECONDS = 5.0
STRANGERS_BODY = 10_000  # bytes: a token
MOST_STRANGERS = 50  # bodies of strangers that are being read
DRAIN_SECONDS = 5.0
DRAINED = 32_000_000  # of a body that is too large: read and thrown away, so that its sender reads the answer
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
CORS: Final = {
    "access-control-allow-methods": "GET, POST, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
    "access-control-expose-headers": "location, retry-after",
    "access-control-max-age": "600",
    "vary": "Origin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the guard insists on."""

    hosts: Collection[str] | None = None  # names this server answers to; None: whoever mounts it checks that
    ip_hosts: bool = False  # and to its addresses: a page of another site can have a name bound here, not an address
    origins: Collection[str] = ()  # other origins whose pages may act here
    max_body: int = 1_000_000
    a_second: float = 200.0
    burst: float = 1000.0
    public: Callable[[Scope], bool] = lambda _: False  # the login page
    exchange: Callable[[Request], Response | None] | None = None  # a link with a token in it
    has_login: bool = False  # a person without credentials is sent to /login


Refused: TypeAlias = Callable[[str | None, str, str, str | None, str], None]
"""Told of whoever is turned away: who, by which way, wanting what, of which run, why."""


class _Instead(Exception):
    """An answer that the guard gives by itself."""

    def __init__(self, response: Response) -> None:
        self.response = response


class _Guesses(Problem):
    """One wrong token too many: slowed down, and an attempt like those before it."""


class Guard:
    """Asks `who` before anything else of the app sees a request; `scope["state"]["actor"]` is the answer."""

    def __init__(self, app: ASGIApp, who: Who, rules: Rules, refused: Refused | None = None) -> None:
        self._app = app
        self._who = who
        self._rules = rules
        self._refused = refused
        self._rate = Rate(rules.a_second, rules.burst)
        self._guesses = Rate(GUESSES_A_SECOND, GUESSES)
        self._stale = Rate(STALE_A_SECOND, STALE)  # cookies that count no longer, each by itself
        self._strangers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        try:
            receive = await self._admit(scope, receive)
        except Problem as problem:
            if self._refused is not None and is_attempt(problem, scope):
                self._refused(problem.by, route_of(scope), "enter", None, problem.detail)
            await _refuse(problem, scope, receive, send, self._with_headers(scope, send))
            return
        except _Instead as instead:
            await instead.response(scope, receive, self._with_headers(scope, send))
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
        else:
            await self._app(scope, receive, self._with_headers(scope, send))

    def _with_headers(self, scope: Scope, send: Send) -> Send:
        """What tells a browser what a page may do, and which other pages may ask."""
        origin = Headers(scope=scope).get("origin", "")
        more = {**HEADERS, **CORS, "access-control-allow-origin": origin} if origin in self._rules.origins else HEADERS

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in more.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        return sending

    async def _admit(self, scope: Scope, receive: Receive) -> Receive:
        headers = Headers(scope=scope)
        self._check_host(headers)
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE
        if changes:
            self._check_origin(scope, headers)
        request = as_request(scope)
        if scope["type"] == "http" and scope["method"] == "OPTIONS" and headers.get("origin") in self._rules.origins:
            raise _Instead(Response(status_code=204))
        if scope["type"] == "http" and self._rules.exchange is not None and b"token=" in scope["query_string"]:
            response = self._rules.exchange(request)
            if response is not None:
                raise _Instead(response)
        if not self._rules.public(scope):
            actor = await self._known(request)
            if actor is None:
                scope.setdefault("state", {})["actor"] = replace(PROBE, route=route_of(scope))
                return receive
            scope.setdefault("state", {})["actor"] = replace(actor, route=_way(actor, scope))
            if not _is_stop(scope) and not self._rate.allows(actor.name):
                raise Problem(
                    429,
                    "too many requests",
                    "wait a second; pause, cancel and force always pass",
                    headers={"retry-after": "1"},
                )
            scope["state"]["rate"] = self._rate
        if scope["type"] == "http" and changes:
            return await self._body_of(scope, headers, receive)
        return receive

    async def _known(self, request: Request) -> Actor | None:
        """Who asks; None for a probe, which shows nothing and is told nothing but whether all is well.

        Whoever shows something right is let in, however many wrong ones came from the same address before.
        """
        try:
            actor = await self._who(request)
        except Problem as problem:
            if problem.status == 401:
                self._check_guesses(request, problem)
            raise
        if actor is not None:
            return actor
        shows = _shows_something(request)
        if not shows and _is_probe(request):
            if not self._rate.allows(f"probe {_network(request)}"):
                raise Problem(429, "too many requests", "wait a second", headers={"retry-after": "1"})
            return None
        unknown = self._unknown(request)
        if shows:
            self._check_guesses(request, unknown)
        raise unknown

    def _check_guesses(self, request: Request, problem: Problem) -> None:
        """Problem if too many wrong tokens came from there; what is asked with a right one never gets here.

        A cookie alone is a session that has ended, in a tab left open: nobody guesses one. It leads to the login page,
        and is counted by itself: many people can share an address, and their sessions end at the same time.
        """
        if _shows_token(request):
            passes = self._guesses.allows(_network(request))
        else:
            cookie = sha256(request.headers.get("cookie", "").encode("utf-8", "replace")).hexdigest()
            passes = bool(problem.more.get("to_login")) or self._stale.allows(cookie)
        if not passes:
            raise _Guesses(
                429,
                "too many wrong tokens came from this address",
                "wait a minute; a right one is let in at once",
                headers={"retry-after": "60", "connection": "close"},
            )

    async def _body_of(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """What strangers send is short, and so few of them send at one time that the others are not kept waiting."""
        if "actor" in scope.get("state", {}):
            return await self._whole_body(scope, headers, receive, self._rules.max_body, BODY_SECONDS)
        if self._strangers >= MOST_STRANGERS:
            raise Problem(429, "too many are logging in", "try again in a few seconds", headers={"retry-after": "5"})
        self._strangers += 1
        try:
            return await self._whole_body(scope, headers, receive, STRANGERS_BODY, STRANGERS_SECONDS)
        finally:
            self._strangers -= 1

    def _unknown(self, request: Request) -> Problem:
        return Problem(
            401,
            "this needs a token that counts here; none was sent, or another one",
            "send `Authorization: Bearer TOKEN` with the token you were given (a server prints its own when it starts)",
            headers={"www-authenticate": 'Bearer realm="standfast"'},
            to_login=self._rules.has_login and wants_page(request),
        )

    def _check_host(self, headers: Headers) -> None:
        allowed = self._rules.hosts
        name = host_name(headers.get("host", ""))
        if allowed is not None and name not in allowed and not (self._rules.ip_hosts and _is_address(name)):
            raise Problem(
                421,
                f"this server is not {headers.get('host', 'nameless')[:100]!r}",
                "use the address it printed, or start it with --allow-host NAME",
            )

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """A browser says which page a request comes from; programs do not, and carry no cookies of a browser."""
        origin = headers.get("origin")
        if origin is None:
            if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
                raise Problem(403, "a page of another site may not act here", "open the page of this server")
            return
        if origin in self._rules.origins:
            return
        secure = scope.get("scheme") in ("https", "wss")
        scheme, _, place = origin.partition("://")
        if place.lower() != headers.get("host", "").lower() or scheme not in (
            ("https",) if secure else ("http", "https")
        ):
            raise Problem(
                403,
                f"the origin {origin[:100]!r} may not act here",
                "open the page of this server, or start it with --allow-origin ORIGIN",
            )

    async def _whole_body(self, scope: Scope, headers: Headers, receive: Receive, most: int, seconds: float) -> Receive:
        """The body is read here, within its limits; the app gets it as one message."""
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > most):
            await _drain(receive)
            raise Problem(413, f"the body has {length[:18]} bytes, more than {most}", "send less")
        body = bytearray()
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        _check_cut_off(scope, headers, body)
                        break
                    body += message.get("body", b"")
                    if len(body) > most:
                        await _drain(receive)
                        raise Problem(413, f"the body has more than {most} bytes", "send less")
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            raise Problem(400, "the body did not come", "send it at once") from None
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and (body or kind):
            raise Problem(
                415,
                f"the body is {kind[:100] or 'of no kind'}, not application/json",
                "send JSON with `Content-Type: application/json`",
            )
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def receive_whole() -> Message:
            return whole.pop() if whole else await receive()

        return receive_whole


def _check_cut_off(scope: Scope, headers: Headers, body: bytearray) -> None:
    """Half of a request is none, even if it makes sense. A stop without arguments holds, whoever has gone since."""
    announced = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
    if body or (announced and not _is_stop(scope)):
        raise Problem(400, "the connection ended before the body did; nothing was changed", "send it again")


async def _drain(receive: Receive) -> None:
    """Let a client that still sends come to its end, within limits: one that is cut off never sees the answer."""
    taken = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_SECONDS):
            while taken < DRAINED:
                message = await receive()
                taken += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return


def as_request(scope: Scope) -> Request:
    """The request, also of a socket that is being opened."""
    return Request(scope if scope["type"] == "http" else {**scope, "type": "http", "method": "GET"})


def _is_probe(request: Request) -> bool:
    """Does an orchestrator ask whether the server is well? Also where it is mounted into another app."""
    scope = request.scope
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and path in PROBES


def _shows_something(request: Request) -> bool:
    """Has it a token, a cookie of ours, or a link's token with it?"""
    return "standfast_" in request.headers.get("cookie", "") or _shows_token(request)


def _shows_token(request: Request) -> bool:
    """Has it a token with it, in its header or as a link has it?"""
    return "authorization" in request.headers or b"token=" in request.scope["query_string"]


def _network(request: Request) -> str:
    return network_of(request.client.host if request.client else "")


def network_of(host: str) -> str:
    """Whom an address belongs to: of IPv6 one has 2**64 of them."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    mapped = address.ipv4_mapped
    return str(mapped if mapped is not None else ipaddress.ip_network((address, 64), strict=False))


def route_of(scope: Scope) -> str:
    """By which way a request came, as the record says it: without its query, in which somebody may put secrets."""
    method = "WS" if scope["type"] == "websocket" else scope["method"]
    return f"{method} {scope['path']}"[:300]


def _way(actor: Actor, scope: Scope) -> str:
    """By which way an actor came, with the token that was shown; whoever an app knows by its own means showed none."""
    way, shown = route_of(scope), actor.token or ("server" if actor.has_token else "")
    return ByToken(way, shown) if shown else way


def is_attempt(problem: Problem, scope: Scope) -> bool:
    """Did somebody try to get in? A browser that has no credentials yet is only on its way to the login page."""
    if problem.status != 401:
        return problem.status in (403, 421) or isinstance(problem, _Guesses)
    headers = Headers(scope=scope)
    cookie = "standfast_" in headers.get("cookie", "") and not problem.more.get("to_login")
    return problem.by is not None or "authorization" in headers or cookie or b"token=" in scope["query_string"]


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def wants_page(request: Request) -> bool:
    """Does a person look with a browser?"""
    return request.method in ("GET", "HEAD") and "text/html" in request.headers.get("accept", "")


def _is_stop(scope: Scope) -> bool:
    parts = scope["path"].rstrip("/").split("/")
    if scope["type"] != "http" or scope["method"] != "POST":
        return False
    return parts[-1] == "halts" or (parts[-1] in STOP_VERBS and "runs" in parts)


async def _refuse(problem: Problem, scope: Scope, receive: Receive, send: Send, send_with_headers: Send) -> None:
    to_login = problem.more.pop("to_login", False)
    if scope["type"] == "websocket":
        if "websocket.http.response" in scope.get("extensions", {}):
            await _deny(problem, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": problem.detail[:100]})
        return
    if to_login:
        problem = Problem(303, problem.detail, headers={"location": f"{scope.get('root_path', '')}/login"})
    if problem.status == 413:
        problem.headers["connection"] = "close"
    await problem.response()(scope, receive, send_with_headers)


async def _deny(problem: Problem, send: Send) -> None:
    """A socket is refused before it is opened, with the reason."""
    response = problem.response()
    start = {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": response.body})
