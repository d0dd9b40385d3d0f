"""`start`, `fork`, `edit`: new runs, and changed ones."""

from __future__ import annotations

import json
from typing import Any, cast

import click

from standfast.cli.access import Access, find
from standfast.cli.local import LocalAccess
from standfast.cli.options import JsonObject, Label, Place, reaching, run_argument, text_of
from standfast.cli.saying import tell
from standfast.cli.verbs import asking, do
from standfast.cli.words import status_words
from standfast.errors import Misuse
from standfast.loading import agents_named
from standfast.records import Json, RunView
from standfast.shapes import view_json


def beginning(command: Any) -> Any:
    """What a new run is given: --state or --task, --id, --label, --budget, --deadline, --reason."""
    options = (
        click.option("--state", type=JsonObject(), help="What it begins with, as JSON or @FILE."),
        click.option("--task", help="What it begins with, as text, for agents that take one; - is standard input."),
        click.option("--id", "run_id", help="The new run's id. [made up]"),
        click.option("--label", "labels", type=Label(), multiple=True, help="name=value; may be given several times."),
        click.option("--budget", type=JsonObject(), help='Caps: {"steps": 20, "tokens": 5000, "seconds": 60}.'),
        click.option("--reason", default="", help="Why; kept in the record."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def new_run(
    state: Json | None,
    task: str | None,
    run_id: str | None,
    labels: tuple[tuple[str, str], ...],
    budget: Json | None,
    reason: str,
) -> Json:
    """The arguments of start, as they were given on the command line."""
    if state is not None and task is not None:
        raise click.UsageError("--state and --task both say what it begins with: give one of them")
    args: Json = {"state": text_of(task) if task is not None else (state or {})}
    for name, value in (("id", run_id), ("labels", dict(labels)), ("budget", budget), ("reason", reason)):
        if value:
            args[name] = cast("Any", value)
    return args


@click.command()
@click.argument("agent", metavar="AGENT|MODULE:AGENT")
@beginning
@click.option("--request-id", help="Asked again with the same id, the same run is given again.")
@reaching
def start(place: Place, agent: str, request_id: str | None, **given: Any) -> None:
    """Queue a new run, for whoever drives that agent; `standfast run` also drives it."""
    args = {"agent": agent, **new_run(**given), **({"request_id": request_id} if request_id else {})}

    async def act(access: Access) -> tuple[RunView, str]:
        if ":" in agent:
            if not isinstance(access, LocalAccess):
                raise Misuse(
                    "a server starts agents by their names", hint="standfast serve MODULE:AGENT knows the code"
                )
            return await access.start_agent(only_one(agent), args), access.options
        return await access.start(args), access.options

    view, options = place.do(act)
    code = agent if ":" in agent else "MODULE:AGENT"
    driver = f"  drive it here: standfast run --resume {view.id} {code}{options}"
    lines = [f"started {view.id}: {status_words(view)}"]
    if view.waiting_for:
        lines.append(f"  waiting for {view.waiting_for}")
        lines += [driver] if place.url is None and view.waiting_for.startswith("a driver") else []
    place.show(view_json(view), lambda: lines)


def only_one(name: str) -> Any:
    """The one agent that MODULE:NAME means."""
    found = agents_named([name])
    if len(found) != 1:
        names = ", ".join(one.name for one in found)
        raise Misuse(f"{name} holds {len(found)} agents: {names}", hint="name one of them")
    return found[0]


@click.command()
@run_argument
@click.option("--at", type=int, help="From the state before this step. [the current one]")
@click.option("--state", type=JsonObject(), help="A changed state to begin with, as JSON or @FILE.")
@click.option("--id", "new_id", help="The new run's id. [made up]")
@click.option("--reason", default="", help="Why; kept in the record.")
@click.option("--request-id", help="Asked again with the same id, the same fork is given again.")
@reaching
def fork(
    place: Place, run: str, at: int | None, state: Json | None, new_id: str | None, reason: str, request_id: str | None
) -> None:
    """Make a new run from a snapshot of another, which is not changed."""
    given = (("at", at), ("state", state), ("id", new_id), ("reason", reason), ("request_id", request_id))
    args: Json = {name: cast("Any", value) for name, value in given if value not in (None, "")}

    async def act(access: Access) -> tuple[RunView, RunView, str]:
        source = await find(access, run)
        return source, await access.fork(source.id, args), access.options

    source, view, options = place.do(act)
    lines = [f"forked {view.id} from {source.id}: {status_words(view)}"]
    lines += [f"  waiting for {view.waiting_for}"] if view.waiting_for else []
    place.show(view_json(view), lambda: [*lines, f"  look at it: standfast show {view.id}{options}"])


@click.command()
@run_argument
@click.option("--patch", type=JsonObject(), help="A JSON Merge Patch: what is named replaces, null removes.")
@click.option("--set", "sets", multiple=True, metavar="NAME=JSON", help="One field; text need not be quoted.")
@asking
def edit(place: Place, asked: Json, run: str, patch: Json | None, sets: tuple[str, ...]) -> None:
    """Change the state of a paused run; without --patch or --set in your editor."""
    if patch is not None or sets:
        do(place, run, "edit", {"patch": {**(patch or {}), **_fields(sets)}, **asked})
        return

    async def look(access: Access) -> tuple[RunView, Any]:
        view = await find(access, run)
        return view, await access.state(view.id)

    view, old = place.do(look)
    typed = click.edit(json.dumps(old, indent=2, ensure_ascii=False), extension=".json")
    changes = {} if typed is None else merge_patch(old, _parsed(typed))
    if changes:
        do(place, view.id, "edit", {"patch": changes, "if_seq": view.seq, **asked})  # two editors: the second is told
    else:
        tell("nothing was changed")


def _parsed(typed: str) -> Any:
    try:
        return json.loads(typed)
    except ValueError as error:
        raise Misuse(f"this is not JSON: {error}", hint="nothing was changed; edit it again") from error


def _fields(sets: tuple[str, ...]) -> Json:
    fields: Json = {}
    for one in sets:
        name, equals, text = one.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--set {one!r}: write NAME=VALUE")
        try:
            fields[name] = json.loads(text)
        except ValueError:
            fields[name] = text
    return fields


def merge_patch(old: Any, new: Any) -> Json:
    """The JSON Merge Patch (RFC 7396) that makes `new` of `old`, two objects."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        raise Misuse("the state is a JSON object", hint="keep its braces; nothing was changed")
    before, after = cast("Json", old), cast("Json", new)
    patch: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        was = before.get(name)
        if name in before and was == value:
            continue
        patch[name] = (
            cast("Any", merge_patch(was, value)) if isinstance(was, dict) and isinstance(value, dict) else value
        )
    return patch
