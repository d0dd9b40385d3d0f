"""The command: what an operator may say to `standfast serve`, which is also `python -m standfast.server`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import click

from standfast.errors import Misuse
from standfast.server.limits import HALT_TOKEN, NOTIFY, TOKEN
from standfast.server.serving import Settings
from standfast.server.serving import serve as serve_until_stopped
from standfast.tokens import readable_by_others


@click.command()
@click.argument("agents", nargs=-1, metavar="[MODULE:AGENT]...")
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="STANDFAST_STORE",
    default=Path("runs.db"),
    show_default=True,
    help="The file the runs are in.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any that is free.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Processes that drive.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file with the token, instead of a random one. [else $STANDFAST_TOKEN]",
)
@click.option("--certfile", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="TLS certificate.")
@click.option("--keyfile", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Its key.")
@click.option("--insecure-bind", is_flag=True, help="Listen beyond this machine without TLS.")
@click.option("--allow-host", multiple=True, help="Another name this server answers to.")
@click.option("--allow-origin", multiple=True, help="Another origin whose pages may act here.")
@click.option(
    "--notify",
    metavar="CMD|URL",
    envvar=NOTIFY,
    help="Called once for each thing that needs someone. An address that is a secret belongs into $STANDFAST_NOTIFY.",
)
@click.option(
    "--halt-port",
    type=click.IntRange(0, 65535),
    help="A port of this machine for halts, beside the socket STORE.halt; its token is $STANDFAST_HALT_TOKEN.",
)
@click.option(
    "--anchor",
    multiple=True,
    metavar="file:PATH|syslog|cmd:COMMAND",
    help="Where the hash of each signed checkpoint is kept, outside the store; may be given again.",
)
@click.option(
    "--evidence-for",
    multiple=True,
    metavar="age1...",
    help="Whoever holds this age key can read the agents' instructions in evidence bundles; may be given again.",
)
@click.option("--lease", type=click.FloatRange(min=1), default=10.0, show_default=True, help="Seconds of a lease.")
@click.option(
    "--stop-deadline",
    type=click.FloatRange(min=0.5),
    default=10.0,
    show_default=True,
    help="Seconds a blocked worker may keep a run from stopping.",
)
def serve(
    agents: tuple[str, ...],
    store: Path,
    port: int,
    host: str,
    workers: int,
    token_file: Path | None,
    certfile: Path | None,
    keyfile: Path | None,
    insecure_bind: bool,
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    notify: str | None,
    halt_port: int | None,
    anchor: tuple[str, ...],
    evidence_for: tuple[str, ...],
    lease: float,
    stop_deadline: float,
) -> None:
    """Serve the controls of all runs in a store; drive those of the agents that are named."""
    token = _token_in(token_file) if token_file is not None else os.environ.get(TOKEN) or None
    settings = Settings(
        store=store,
        agents=agents,
        host=host,
        port=port,
        workers=workers,
        token=token,
        certfile=certfile,
        keyfile=keyfile,
        insecure_bind=insecure_bind,
        allow_hosts=allow_host,
        allow_origins=allow_origin,
        notify=notify,
        halt_port=halt_port,
        halt_token=os.environ.get(HALT_TOKEN) or None,
        anchors=anchor,
        evidence_for=evidence_for,
        lease_seconds=lease,
        stop_seconds=stop_deadline,
        tell=click.echo,
    )
    asyncio.run(serve_until_stopped(settings))


def _token_in(file: Path) -> str:
    """Never from the command line, where every process could read it."""
    try:
        if told := readable_by_others(file):
            click.echo(f"standfast: {told} (chmod 600 {file})", err=True)
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        hint = "give a file with the token in it, and nothing else; nothing was started"
        raise Misuse(f"the token file {file} cannot be read: {error}", hint=hint) from error
