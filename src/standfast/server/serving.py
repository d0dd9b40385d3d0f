"""`standfast serve`: a control process without agent code, and workers that have it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import secrets
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from standfast.descriptors import Descriptors
from standfast.errors import KeyUnusable, Misuse
from standfast.evidence.keys import load_or_make
from standfast.evidence.notary import Notary
from standfast.evidence.sealing import recipients_from
from standfast.leases import LEASE_SECONDS
from standfast.redaction import Redactor, exactly, of_environment
from standfast.runtime import Runtime
from standfast.server.app import control_app
from standfast.server.connections import LONGEST_HEAD, Connection, Socket, connections
from standfast.server.guard import Rules
from standfast.server.keys import Keys
from standfast.server.logs import log_to_stderr
from standfast.server.notifying import Notifier
from standfast.server.operating import OperatorProcess
from standfast.server.pool import STOP_SECONDS, Pool
from standfast.server.reading import Reader
from standfast.server.sessions import Sessions
from standfast.stores.sqlite import SqliteStore

log = logging.getLogger("standfast")

LOOPBACK = ("localhost", "127.0.0.1", "[::1]", "::1")
SHUTDOWN_SECONDS = 2
LONGEST_MESSAGE = 1_000_000  # bytes of one message of a socket, unpacked
SWITCH_INTERVAL = 0.0005  # a verb's thread must not wait 5 ms for each statement while pages are being told things

SHORTEST_SECRET = 16
LONGEST_SECRET = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator says on the command line."""

    store: Path
    agents: Sequence[str] = ()
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    token: str | None = None
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure_bind: bool = False
    allow_hosts: Sequence[str] = ()
    allow_origins: Sequence[str] = ()
    notify: str | None = None
    halt_port: int | None = None
    halt_token: str | None = None
    anchors: Sequence[str] = ()
    evidence_for: Sequence[str] = ()
    lease_seconds: float = LEASE_SECONDS
    stop_seconds: float = STOP_SECONDS
    tell: Callable[[str], None] = log.info


def check(settings: Settings) -> None:
    """Refuse what would put the controls into strangers' hands."""
    if settings.workers < 1:
        raise Misuse("--workers must be at least 1", hint="leave the agents out for a server that only controls")
    if (settings.certfile is None) != (settings.keyfile is None):
        raise Misuse("--certfile and --keyfile belong together", hint="give both")
    _check_secret("the token", settings.token, "give at least 16 characters, or leave it out")
    _check_secret("$STANDFAST_HALT_TOKEN", settings.halt_token, "give at least 16 characters")
    recipients_from(settings.evidence_for)  # Misuse here, not when evidence is wanted
    if settings.certfile is not None and settings.keyfile is not None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certfile, settings.keyfile)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            hint = "give a certificate and its key in PEM, without a password; nothing was started"
            raise Misuse(f"--certfile and --keyfile cannot be used: {error}", hint=hint) from error
    if not is_loopback(settings.host) and settings.certfile is None and not settings.insecure_bind:
        raise Misuse(
            f"{settings.host} can be reached from other machines, and nothing would be encrypted",
            hint="give --certfile and --keyfile, or --insecure-bind if something in front of it does that",
        )


def _check_secret(name: str, token: str | None, hint: str) -> None:
    if token is None:
        return
    if len(token) < SHORTEST_SECRET:
        raise Misuse(f"{name} is too short to be a secret", hint=hint)
    if len(token) > LONGEST_SECRET or not token.isascii() or not token.isprintable() or " " in token:
        raise Misuse(
            f"{name} cannot be sent in a header: nobody could ever get in with it",
            hint=f"give one word of at most {LONGEST_SECRET} letters, digits and signs of ASCII; nothing was started",
        )


def is_loopback(host: str) -> bool:
    """Can only this machine reach it?"""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    """The socket, bound before anything else is begun."""
    name = host.strip("[]")
    try:
        family, kind, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listening = socket.socket(family, kind)
    except OSError as error:
        raise Misuse(f"{host} cannot be listened on: {error}", hint="give an address of this machine") from error
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise Misuse(
            f"port {port} of {host} cannot be used: {error.strerror}",
            hint="another server may be using it: give --port",
        ) from error
    return listening


def _notary(settings: Settings) -> Notary | bool:
    """Signs what is done here beside the workers; without a key, only if no anchor was asked for."""
    if settings.anchors:
        return Notary(anchors=settings.anchors)
    store = settings.store.absolute()
    _refuse_what_is_no_store(store)
    try:
        return Notary(key=load_or_make(store))
    except KeyUnusable as error:
        settings.tell(f"the record is not signed: {error}")
        return False


def _refuse_what_is_no_store(path: Path) -> None:
    """Somebody's other file, given by mistake, gets no key beside it."""
    store = SqliteStore(path, looks_only=True)
    try:
        store.exists()
    finally:
        store.close()


def _redactor(*tokens: str | None) -> Redactor:
    """Knows this server's own tokens, whatever they look like."""
    own = [exactly("token", token) for token in tokens if token is not None]
    return Redactor(*own, *of_environment(os.environ))


class _Server(uvicorn.Server):
    """Leaves signals to us: SIGTERM and Ctrl-C are an orderly end, not a death by signal."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; then pages are told, runs released, and all is resumable."""
    check(settings)
    sys.setswitchinterval(SWITCH_INTERVAL)
    secure = settings.certfile is not None
    token = settings.token or secrets.token_urlsafe(24)
    store = settings.store.absolute()
    going = asyncio.Event()
    listening = _listen(settings.host, settings.port)
    port: int = listening.getsockname()[1]
    redactor = _redactor(token, settings.halt_token)
    log_to_stderr(redactor)
    async with Runtime(store, drive=False, notary=_notary(settings), redact=redactor) as runs:
        runs.keep_room()
        own_reader = Reader(runs, 1)
        pool = Pool(
            *(runs, own_reader, store, settings.agents, settings.workers),
            lease_seconds=settings.lease_seconds,
            stop_seconds=settings.stop_seconds,
        )
        kept = store.with_name(store.name + "-sessions")
        made_up = settings.token is None
        sessions = Sessions(token, kept, Keys(runs), secure=secure, cookie=f"standfast_{port}", made_up=made_up)
        app = control_app(
            runs,
            who=sessions.who,
            rules=_rules(settings, sessions),
            workers=pool,
            routes=sessions.routes(),
            evidence_for=settings.evidence_for,
        )
        protocol = connections()
        server = _Server(_config(settings, app, protocol))
        spare = Descriptors(protocol.idle.make_room)
        spare.start(asyncio.get_running_loop())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, going.set)
        pool.start()
        operator = OperatorProcess(store, settings.halt_port, settings.halt_token)
        operator.start()
        notifier = Notifier(runs, own_reader, settings.notify) if settings.notify else None
        if notifier is not None:
            notifier.start()
        telling = asyncio.create_task(_tell(server, settings, port, token, secure))
        ending = asyncio.create_task(_end(going, server, app, pool))
        giving_up = asyncio.create_task(_give_up(going, pool, runs))
        try:
            await server.serve(sockets=[listening])
        finally:
            going.set()
            spare.close()
            telling.cancel()
            giving_up.cancel()
            if notifier is not None:
                await notifier.close()
            await asyncio.gather(ending, telling, giving_up, operator.close(), return_exceptions=True)
            own_reader.close()
        if not giving_up.cancelled() and giving_up.exception() is None:
            raise Misuse(
                f"no worker can load {', '.join(settings.agents)}: what is wrong was said above",
                hint="mend it and serve again; nothing was started",
            )


def _rules(settings: Settings, sessions: Sessions) -> Rules:
    """Whom the guard lets in, by their address and origin."""
    return Rules(
        hosts=frozenset(host.lower() for host in (*LOOPBACK, settings.host, *settings.allow_hosts)),
        ip_hosts=not is_loopback(settings.host),
        origins=frozenset(origin.rstrip("/") for origin in settings.allow_origins),
        public=sessions.public,
        exchange=sessions.exchange,
        has_login=True,
    )


def _config(settings: Settings, app: Starlette, protocol: type[Connection]) -> uvicorn.Config:
    """The web server, with limits on everything that strangers could make it wait for."""
    return uvicorn.Config(
        app,
        http=protocol,
        h11_max_incomplete_event_size=LONGEST_HEAD,
        host=settings.host,
        port=settings.port,
        ssl_certfile=settings.certfile,
        ssl_keyfile=settings.keyfile,
        log_level="warning",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws=Socket,
        ws_max_size=LONGEST_MESSAGE,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        timeout_keep_alive=30,
        backlog=1024,
    )


async def _give_up(going: asyncio.Event, pool: Pool, runs: Runtime) -> None:
    """Until this is clearly a wrong command: its agents were never loaded, and there is no run to be stopped."""
    await pool.hopeless.wait()
    while await runs.list(limit=1):  # noqa: ASYNC110 - those that are there go on to be controlled
        await asyncio.sleep(1.0)
    going.set()


async def _end(going: asyncio.Event, server: uvicorn.Server, app: Any, pool: Pool) -> None:
    """Workers are told to go while pages are: together they have less than five seconds."""
    await going.wait()
    leaving = asyncio.create_task(pool.close())
    await app.state.surface.close()  # pages hear it from us before the server closes their sockets
    server.should_exit = True
    await leaving


async def _tell(server: uvicorn.Server, settings: Settings, port: int, token: str, secure: bool) -> None:
    """Where it is, and the token, once; when it can be used."""
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.02)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    settings.tell(f"standfast: http{'s' if secure else ''}://{host}:{port}/")
    if settings.token is None:
        settings.tell(f"token: {token}")
    settings.tell(f"store: {settings.store}")
