"""`token` and `house`: who may do what, and who tried what. On a store file, whoever has the file may do all of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import click

from standfast.cli.access import Access, find
from standfast.cli.options import Label, Place, reaching
from standfast.names import by_words
from standfast.rights import RIGHTS


@click.group()
def token() -> None:
    """Rights for others: view, pause, redirect, cancel, resolve, forensics, operator."""


@token.command()
@click.option("--right", "rights", type=click.Choice(RIGHTS), multiple=True, required=True, help="Give several times.")
@click.option("--run", help="For this run and its children.")
@click.option("--label", "labels", type=Label(), multiple=True, help="For runs with this label: name=value.")
@click.option("--all", "for_all", is_flag=True, help="For all runs.")
@click.option("--expires", default="7d", show_default=True, help="30m, 2h, 7d ... or never.")
@click.option("--name", default="", help="Who it is for; it is in the record with everything they do.")
@reaching
def create(
    place: Place,
    rights: tuple[str, ...],
    run: str | None,
    labels: tuple[tuple[str, str], ...],
    for_all: bool,
    expires: str,
    name: str,
) -> None:
    """Make a token and say its secret, this once."""
    if [run is not None, bool(labels), for_all].count(True) != 1:
        raise click.UsageError("say for which runs: one of --run, --label, --all")

    async def act(access: Access) -> tuple[dict[str, Any], str]:
        wanted = None if run is None else (await find(access, run)).id
        args: dict[str, Any] = {"rights": list(rights), "run": wanted, "labels": dict(labels) or None}
        return await access.make_token({**args, "expires": expires, "name": name, **({"all": True} if for_all else {})})

    made, secret = place.do(act)

    def lines() -> list[str]:
        return [secret, f"{_line(made)}; the line above is said this once"]

    place.show({"token": made, "secret": secret}, lines)


@token.command(name="list")
@reaching
def list_(place: Place) -> None:
    """Show the tokens there are, those that count no longer too; never their secrets."""
    found = place.do(lambda access: access.tokens())
    place.show(found, lambda: [_line(one) for one in found] or ["no tokens were made"])


@token.command()
@click.argument("id")
@reaching
def revoke(place: Place, id: str) -> None:  # noqa: A002
    """A token, and all that were made with it, count no longer: open pages and streams end too."""
    ended = place.do(lambda access: access.revoke_token(id))
    place.show({"revoked": ended}, lambda: [f"revoked {', '.join(ended)}" if ended else f"{id} was revoked before"])


@click.command()
@click.option("--after", type=click.IntRange(min=0), default=0, help="Only what came after this seq.")
@reaching
def house(place: Place, after: int) -> None:
    """Show the record of the house: refused attempts, tokens, halts, exports."""
    found: Sequence[dict[str, Any]] = place.do(lambda access: access.house(after))
    place.show(found, lambda: [house_line(event) for event in found] or ["nothing has happened yet"])


def _when(at: Any) -> str:
    """Any number that a store holds can be shown."""
    try:
        return datetime.fromtimestamp(float(at), UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"second {at}, which is in no calendar"


def _line(one: dict[str, Any]) -> str:
    labels: dict[str, str] = one["labels"]
    runs = one["run"] or " ".join(f"{name}={value}" for name, value in labels.items()) or "all runs"
    until = "never ends" if one["expires"] is None else f"until {_when(one['expires'])}"
    ended = f"revoked {_when(one['revoked'])}" if one["revoked"] is not None else until
    name = f" {one['name']}" if one["name"] else ""
    return f"{one['id']}{name}: {', '.join(one['rights'])} on {runs}; {ended}"


def house_line(event: dict[str, Any]) -> str:
    """One event of the house, on one line: nothing that somebody tried can draw on the terminal."""
    common = ("seq", "at", "type", "by", "route")
    more = ", ".join(f"{name}={value!r}" for name, value in event.items() if name not in common and value)
    who = by_words(event["by"], event.get("by_token", ""), "somebody unknown")
    kind = str(event["type"]).replace("_", " ")
    line = f"{event['seq']} {_when(event['at'])} {kind} {who} via {event['route'] or '-'}: {more}"
    return "".join(letter if letter.isprintable() else "?" for letter in line)
