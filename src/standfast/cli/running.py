"""`standfast run`: a run in this process, told while it goes. Ctrl-C pauses; cancel is a word, not a reflex."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from standfast.agents import Agent
from standfast.cli.access import find
from standfast.cli.codes import Code
from standfast.cli.local import LocalAccess
from standfast.cli.options import STORE, JsonObject, RunId, me
from standfast.cli.run_session import Session
from standfast.cli.saying import complain
from standfast.cli.starting import beginning, new_run
from standfast.cli.words import answer_lines, ended
from standfast.errors import Misuse
from standfast.handle import Handle
from standfast.loading import agents_named
from standfast.records import Json, TooLate
from standfast.runtime import Runtime


@click.command()
@click.argument("agents", nargs=-1, required=True, metavar="MODULE:AGENT...")
@beginning
@click.option("--resume", "resumed", type=RunId(), metavar="RUN", help="Go on with this run, instead of a new one.")
@click.option("--accept-stale", is_flag=True, help="With --resume: go on although the world has changed.")
@click.option("--caps", type=JsonObject(), help="With --resume: new caps for its budget.")
@click.option(
    "--wait/--no-wait",
    default=None,
    help="Stay while the run is held, or leave with exit code 5. [stay, on a terminal]",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="STANDFAST_STORE",
    default=STORE,
    show_default=True,
    help="The file the runs are in.",
)
@click.option("--by", help="Who acts. [your user name]")
@click.option("--json", "as_json", is_flag=True, help="Events as JSON, one a line; the last line is the run.")
def run(
    agents: tuple[str, ...],
    resumed: str | None,
    accept_stale: bool,
    caps: Json | None,
    wait: bool | None,
    store: Path,
    by: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Run an agent here, with a live list of steps and what it says.

    The first MODULE:AGENT is started; others are there to be its children. Ctrl-C pauses the run and says how to
    resume it; a second one leaves at once, and the run stays paused.
    """
    context = click.get_current_context()
    context.meta["standfast.json"] = as_json
    found = agents_named(agents)
    args = new_run(**given)
    if resumed is not None and (args.pop("state") or args):
        raise click.UsageError("--resume goes on with what is there: --state, --task, --id ... are for new runs")
    if resumed is None and (accept_stale or caps):
        raise click.UsageError("--accept-stale and --caps go with --resume")
    who = by or me()
    stays = wait if wait is not None else sys.stdin.isatty() and sys.stdout.isatty()

    async def drive() -> int:
        async with Runtime(store, found) as runs:
            if resumed is None:
                handle = await runs.start(found[0], args.pop("state"), by=who, **_typed(args))
            else:
                access = LocalAccess(runs, store, who, store)
                handle = await _taken_up(runs, access, resumed, found, {"accept_stale": accept_stale, "budget": caps})
            session = Session(runs, handle, by=who, names=agents, store=store, as_json=as_json, stays=stays)
            await session.watched()
        session.left()
        return session.code

    code = asyncio.run(drive())
    if code != Code.OK:
        raise click.exceptions.Exit(code)


def _typed(args: Json) -> dict[str, Any]:
    return dict(args)


async def _taken_up(
    runs: Runtime, access: LocalAccess, given: str, agents: list[Agent[Any, Any]], more: dict[str, Any]
) -> Handle[Any]:
    """The run to go on with: resumed if it is paused; driven, also to the end of a stop, if nobody drives it."""
    view = await find(access, given)
    if view.agent not in {one.name for one in agents}:
        raise Misuse(f"run {view.id} is of agent {view.agent!r}", hint="name the code of that agent: MODULE:AGENT")
    if ended(view.status):
        complain(*answer_lines("resume", TooLate(view.status), view, access.options))
        raise click.exceptions.Exit(Code.TOO_LATE)
    args = {name: value for name, value in more.items() if value}
    if view.status in ("paused", "pausing"):
        answer = await access.verb(view.id, "resume", args)
        if not answer:
            complain(*answer_lines("resume", answer, await access.view(view.id), access.options))
            if not view.needs:
                raise click.exceptions.Exit(Code.REFUSED)
    return runs.handle(view.id)
