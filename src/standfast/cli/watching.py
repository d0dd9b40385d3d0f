"""`standfast watch`: the runs on the whole terminal, with the same bar and panes as on the page."""

from __future__ import annotations

import sys

import click

from standfast.cli.access import Access, find
from standfast.cli.options import Place, RunId, reaching
from standfast.cli.saying import tell
from standfast.errors import Misuse
from standfast.tui.app import WatchApp


@click.command()
@click.argument("run", type=RunId(), metavar="[RUN]", required=False)
@reaching
def watch(place: Place, run: str | None) -> None:
    """Watch and control runs on the whole terminal; q detaches, and they go on."""
    if place.json:
        raise Misuse("watch is for people", hint="standfast events RUN --follow --json is for programs")

    async def look(access: Access) -> str | None:
        return None if run is None else (await find(access, run)).id

    found = place.do(look)  # what is wrong is said before the screen is taken
    if not sys.stdout.isatty():
        raise Misuse("watch needs a terminal", hint="standfast show and standfast events work without one")
    WatchApp(place.open, found).run()
    tell(f"detached; {found or 'every run'} goes on")
