"""`approve`, `deny`, `answer`, `resolve`, `resend`, `drop`, `abandon`, `return-to`: what only a person can settle."""

from __future__ import annotations

from typing import Any

import click
from pydantic_core import from_json

from standfast.cli.access import Access, find, need_for
from standfast.cli.options import JsonObject, JsonText, Place, run_argument, text_of
from standfast.cli.verbs import asking, carry_out, do, tell_answer
from standfast.errors import Misuse
from standfast.records import Json, Need

call_argument = click.argument("call", required=False)
mail_argument = click.argument("mail")


@click.command()
@run_argument
@call_argument
@click.option("--args", "arguments", type=JsonObject(), help="Changed arguments: those named replace the call's own.")
@asking
def approve(place: Place, asked: Json, run: str, call: str | None, arguments: Json | None) -> None:
    """Let a call pass that asks first. CALL may be left out if only one asks."""
    more: Json = {} if arguments is None else {"args": arguments}
    do(place, run, "approve", lambda view: {"call_id": need_for(view, ["approval"], call).call, **more, **asked})


@click.command()
@run_argument
@call_argument
@asking
def deny(place: Place, asked: Json, run: str, call: str | None) -> None:
    """Refuse a call that asks first: it is not executed."""
    do(place, run, "deny", lambda view: {"call_id": need_for(view, ["approval"], call).call, **asked})


@click.command()
@run_argument
@click.argument("value")
@click.option("--call", help="Which question, if there are several.")
@asking
def answer(place: Place, asked: Json, run: str, value: str, call: str | None) -> None:
    """Answer a question of the run. VALUE is text or JSON, whichever the question takes; - is standard input."""

    async def act(access: Access) -> Any:
        view = await find(access, run)
        need = need_for(view, ["question"], call)
        problem: Misuse | None = None
        for meant in _meant(need, text_of(value)):
            args: Json = {"call_id": need.call, "value": meant, **asked}
            try:
                return access.options, "answer", await carry_out(access, view, "answer", args)
            except Misuse as error:  # not of the question's type, and nothing was changed: the other reading may be
                problem = problem or error
        assert problem is not None
        raise problem

    tell_answer(place, *place.do(act))


def _meant(need: Need, typed: str) -> list[Any]:
    """What a typed answer may mean: an option by its words, the text itself, or JSON."""
    options = [option for option in need.choices if typed in (option, str(option))]
    if options:
        return options[:1]
    try:
        return [typed, from_json(typed, allow_inf_nan=False)]
    except ValueError:
        return [typed]


@click.command()
@run_argument
@call_argument
@click.option("--happened", "decision", flag_value="happened", help="The effect took place.")
@click.option("--not-happened", "decision", flag_value="not_happened", help="It did not: it may be issued again.")
@click.option("--check-again", "decision", flag_value="check_again", help="Ask the tool's probe once more.")
@click.option("--result", type=JsonText(), help="With --happened: what the call gave, as JSON.")
@asking
def resolve(place: Place, asked: Json, run: str, call: str | None, decision: str | None, result: Any) -> None:
    """Say what became of a call in doubt."""
    if decision is None:
        raise click.UsageError("say --happened, --not-happened or --check-again")
    if result is not None and decision != "happened":
        raise click.UsageError("--result goes with --happened")
    more: Json = {"decision": decision, **({"result": result} if decision == "happened" else {})}
    do(place, run, "resolve", lambda view: {"call_id": need_for(view, ["doubt"], call).call, **more, **asked})


@click.command()
@run_argument
@click.argument("frame")
@asking
def abandon(place: Place, asked: Json, run: str, frame: str) -> None:
    """Give up a thought, by its id or goal; --reason is needed: nothing is dropped silently."""
    if not asked.get("reason"):
        raise click.UsageError("a thought is not abandoned without a --reason")
    do(place, run, "abandon", {"frame": frame, **asked})


@click.command("return-to")
@run_argument
@click.argument("frame")
@asking
def return_to(place: Place, asked: Json, run: str, frame: str) -> None:
    """Send the run back to a thought on hold, by its id or goal."""
    do(place, run, "return_to", {"frame": frame, **asked})


@click.command()
@run_argument
@mail_argument
@asking
def resend(place: Place, asked: Json, run: str, mail: str) -> None:
    """Send a redirect that was not read again, to the next step; MAIL is the id that its need names."""
    do(place, run, "resend", {"mail": mail, **asked})


@click.command()
@run_argument
@mail_argument
@asking
def drop(place: Place, asked: Json, run: str, mail: str) -> None:
    """Give a redirect that was not read back to its sender; MAIL is the id that its need names."""
    do(place, run, "drop", {"mail": mail, **asked})
