"""`ps`, `show`, `state`, `receipt`, `transcript`, `events`: looking changes nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, get_args

import click

from standfast.cli.access import Access, Wanted, find
from standfast.cli.codes import Code, Unreachable
from standfast.cli.options import Label, Place, reaching, run_argument, say_json
from standfast.cli.pages import event_line, receipt_page, run_page, run_table, transcript_page
from standfast.cli.saying import complain, tell
from standfast.cli.stop_pages import stops_page
from standfast.events import RunCancelled, RunDone, RunFailed, TextDelta
from standfast.records import LIVE, Receipt, Status
from standfast.shapes import event_json, receipt_json, said_json, stops_json, view_json
from standfast.stop_records import StopRecord

LOST_SECONDS = 60.0


@click.command()
@click.option("--status", type=click.Choice(get_args(Status)), multiple=True, help="Only runs in this status.")
@click.option("--agent", help="Only runs of this agent.")
@click.option("--label", "labels", type=Label(), multiple=True, help="Only runs with this label: name=value.")
@click.option("--needs", is_flag=True, help="Only runs that need someone.")
@click.option("--live", is_flag=True, help="Only runs that have not ended.")
@click.option("--text", default="", help="Only runs with this text in their id, agent, plan, labels or needs.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@reaching
def ps(
    place: Place,
    status: tuple[Status, ...],
    agent: str | None,
    labels: tuple[tuple[str, str], ...],
    needs: bool,
    live: bool,
    text: str,
    limit: int,
) -> None:
    """List runs; those that need someone on top."""
    wanted = Wanted(status or (LIVE if live else ()), agent, dict(labels) or None, needs or None, text, limit)

    async def look(access: Access) -> tuple[Any, str]:
        return await access.list(wanted), access.where

    views, where = place.do(look)
    if place.json:
        say_json([view_json(view) for view in views])
    elif views:
        for line in run_table(views):
            tell(line)
    else:
        tell(f"no such runs in {where}" if wanted != Wanted(limit=limit) else f"no runs in {where}")


@click.command()
@run_argument
@reaching
def show(place: Place, run: str) -> None:
    """Show a run as it is now, and what can be done."""

    async def look(access: Access) -> tuple[Any, str, Any]:
        view = await find(access, run)
        return view, access.options, [] if place.json else await access.transcript(view.id)

    view, options, said = place.do(look)
    place.show(view_json(view), lambda: run_page(view, options, said))


@click.command()
@run_argument
@click.option("--step", type=int, help="The state before this step. [the current one]")
@reaching
def state(place: Place, run: str, step: int | None) -> None:
    """Print the state of a run."""

    async def look(access: Access) -> Any:
        return await access.state((await find(access, run)).id, step)

    body = place.do(look)
    place.show(body, lambda: json.dumps(body, indent=2, ensure_ascii=False).split("\n"))


@click.command()
@run_argument
@click.option("--wait", is_flag=True, help="Until the run has settled.")
@click.option("--stops", is_flag=True, help="Instead: each stop so far, with its times and what had reached whom.")
@reaching
def receipt(place: Place, run: str, wait: bool, stops: bool) -> None:
    """Show what the last stop did: finished, aborted, undone, left behind."""

    async def look(access: Access) -> Receipt | str | Sequence[StopRecord]:
        view = await find(access, run)
        if stops and not wait:
            return await access.stops(view.id)
        while True:
            found = await access.receipt(view.id)
            if found is not None:
                return await access.stops(view.id) if stops else found
            view = await access.view(view.id)
            if not wait:
                return f"{view.id} is {view.status}: nothing has been stopped and settled"
            await asyncio.sleep(0.1)

    found = place.do(look)
    if isinstance(found, str):
        complain(found)
        raise click.exceptions.Exit(Code.REFUSED)
    if isinstance(found, Receipt):
        place.show(receipt_json(found), lambda: receipt_page(found))
    else:
        place.show(stops_json(found), lambda: stops_page(found))


@click.command()
@run_argument
@reaching
def transcript(place: Place, run: str) -> None:
    """Show what was said, call by call, partial text included."""

    async def look(access: Access) -> Any:
        return await access.transcript((await find(access, run)).id)

    said = place.do(look)
    place.show(said_json(said), lambda: transcript_page(said))


@click.command()
@run_argument
@click.option("--after", type=click.IntRange(min=0), default=0, help="From this event on.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended.")
@click.option("--text", is_flag=True, help="With --follow: live text too.")
@reaching
def events(place: Place, run: str, after: int, follow: bool, text: bool) -> None:
    """Print the record of a run, one event a line; with --json one JSON object a line."""

    async def look(access: Access) -> None:
        id_ = (await find(access, run)).id
        if follow:
            await _follow(access, id_, after, text, place.json)
        else:
            for event in await access.record(id_, after):
                _tell(event, place.json)

    place.do(look)


async def _follow(access: Access, run: str, after: int, text: bool, as_json: bool) -> None:
    """Every event once, in order, also when the server was away for a while."""
    lost: float | None = None
    while True:
        stream = access.events(run, after)
        try:
            async for event in stream:
                lost = None
                if isinstance(event, TextDelta):
                    if text:
                        _tell(event, as_json)
                    continue
                after = event.seq
                _tell(event, as_json)
                if isinstance(event, RunDone | RunCancelled | RunFailed):
                    return
            return
        except Unreachable as error:
            lost = lost or time.monotonic()
            if time.monotonic() - lost > LOST_SECONDS:
                raise
            complain(f"{error.message}; trying again")
            await asyncio.sleep(1.0)
        finally:
            await stream.aclose()


def _tell(event: Any, as_json: bool) -> None:
    if as_json:
        say_json(event_json(event))
    else:
        tell(event_line(event))
