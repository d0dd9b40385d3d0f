"""The verbs: pause, resume, redirect, message, cancel, and the rest of what a person can do to a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, TypeVar

import click

from standfast.cli.access import Access, asked_with, find
from standfast.cli.answer_codes import code_of_answer
from standfast.cli.codes import Code, Hidden
from standfast.cli.options import JsonObject, JsonText, Place, reaching, run_argument, say_json, text_of
from standfast.cli.pages import receipt_page
from standfast.cli.saying import complain, tell
from standfast.cli.words import answer_lines, waiting_lines
from standfast.odd_text import mended
from standfast.records import Accepted, Answer, Json, Receipt, RunView
from standfast.shapes import answer_json, receipt_json

F = TypeVar("F", bound=Callable[..., Any])
WAIT_SECONDS = 0.05
QUIET_SECONDS = 1.0  # a stop that takes longer says what it waits for
AGAIN_SECONDS = 30.0  # and says so again, so that nobody takes it for dead


def asking(command: F) -> F:
    """What every verb takes: --reason, --request-id, --if-seq; it gets them as `asked`."""

    def wrapped(**given: Any) -> Any:
        reason, request_id, if_seq = given.pop("reason"), given.pop("request_id"), given.pop("if_seq")
        asked: Json = {"reason": mended(reason)} if reason else {}  # what was typed may be no UTF-8
        if request_id:
            asked["request_id"] = request_id
        if if_seq is not None:
            asked["if_seq"] = if_seq
        return command(asked=asked, **given)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    options = (
        click.option("--reason", default="", help="Why; kept in the record."),
        click.option("--request-id", help="Asked again with the same id, the first answer is given again."),
        click.option("--if-seq", type=int, help="Only if the run is still at this seq."),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return reaching(wrapped)  # type: ignore[return-value]


waiting = click.option("--wait", is_flag=True, help="Until it has settled; then show the receipt.")


async def settled(access: Access, run: str) -> Receipt:
    """The receipt, once nothing of the run is running; meanwhile what it waits for, and what would help."""
    began = time.monotonic()
    said, at = "", began
    while (found := await access.receipt(run)) is None:
        now = time.monotonic()
        if now - began > QUIET_SECONDS:
            lines = await _waits_for(access, run)
            if lines and (lines[0] != said or now - at > AGAIN_SECONDS):
                complain(f"{lines[0]} ({now - began:.0f} s)", *lines[1:])
                said, at = lines[0], now
        await asyncio.sleep(WAIT_SECONDS if now - began < QUIET_SECONDS else 5 * WAIT_SECONDS)
    return found


async def _waits_for(access: Access, run: str) -> list[str]:
    try:
        view = await access.view(run)
    except Hidden:
        return []
    return waiting_lines(view, access.options)


async def carry_out(
    access: Access, view: RunView, verb: str, args: Json, *, wait: bool = False
) -> tuple[Answer, RunView, Receipt | None]:
    """Do it, and look what has become of the run."""
    answer = await access.verb(view.id, verb, args)
    receipt = await settled(access, view.id) if wait and isinstance(answer, Accepted) else None
    try:
        return answer, await access.view(view.id), receipt
    except Hidden:  # what was accepted is under way: that much is known without looking
        return answer, replace(view, status="cancelling" if verb == "cancel" else "pausing"), receipt


def tell_answer(place: Place, options: str, verb: str, done: tuple[Answer, RunView, Receipt | None]) -> None:
    """Say what became of a verb; a no ends the command with its code."""
    answer, view, receipt = done
    if place.json:
        more = {} if receipt is None else {"receipt": receipt_json(receipt)}
        say_json({"run": view.id, "status": view.status, **answer_json(answer), **more})
    else:
        lines = answer_lines(verb.replace("_", " "), answer, view, options)
        if isinstance(answer, Accepted):
            for line in lines:
                tell(line)
            for line in receipt_page(receipt) if receipt is not None else ():
                tell(line)
        else:
            complain(*lines)
    code = code_of_answer(answer)
    if code is not Code.OK:
        raise click.exceptions.Exit(code)


def do(place: Place, run: str, verb: str, args: Json | Callable[[RunView], Json], *, wait: bool = False) -> None:
    """Carry out a verb on the run that was named, and tell what became of it."""

    async def act(access: Access) -> tuple[str, tuple[Answer, RunView, Receipt | None]]:
        try:
            view = await find(access, run)
        except Hidden:
            if verb not in ("cancel", "pause"):
                raise
            view = RunView(id=run, agent="", status="running")  # a stop needs no look
        given = asked_with("terminal", verb, args(view) if callable(args) else args)
        return access.options, await carry_out(access, view, verb, given, wait=wait)

    tell_answer(place, *_named(place.do(act), verb))


def _named(found: tuple[str, Any], verb: str) -> tuple[str, str, Any]:
    return found[0], verb, found[1]


# --- the three controls, and going on ------------------------------------------------------------------


@click.command()
@run_argument
@waiting
@asking
def pause(place: Place, asked: Json, run: str, wait: bool) -> None:
    """Hold a run: no further call begins, nothing is lost."""
    do(place, run, "pause", asked, wait=wait)


@click.command()
@run_argument
@click.option("--note", help="What the record says about it.")
@click.option("--accept-stale", is_flag=True, help="Go on although the world has changed.")
@click.option("--budget", type=JsonObject(), help='New caps: {"steps": 20, "tokens": 5000}.')
@asking
def resume(place: Place, asked: Json, run: str, note: str | None, accept_stale: bool, budget: Json | None) -> None:
    """Go on exactly where the run was held."""
    more: Json = {name: value for name, value in (("note", note), ("budget", budget)) if value is not None}
    do(place, run, "resume", {**asked, **more, **({"accept_stale": True} if accept_stale else {})})


@click.command()
@run_argument
@asking
def step(place: Place, asked: Json, run: str) -> None:
    """Take one step of a paused run, then pause again."""
    do(place, run, "step_once", asked)


@click.command()
@run_argument
@click.argument("text")
@click.option("--now", "when", flag_value="now", default="now", help="Set the step in progress back. [default]")
@click.option("--next", "when", flag_value="next", help="Let the step in progress finish first.")
@click.option("--from", "from_step", help="Undo this step (or plan item) and all later ones, and take it anew.")
@asking
def redirect(place: Place, asked: Json, run: str, text: str, when: str, from_step: str | None) -> None:
    """Rewrite what the agent does next. TEXT may be - for standard input."""
    args: Json = {"text": text_of(text), "when": when, **asked}
    if from_step is not None:
        args["from_step"] = number_or_name(from_step)
    do(place, run, "redirect", args)


@click.command()
@run_argument
@click.argument("text")
@click.option("--when", type=click.Choice(["now", "next", "later"]), default="next", show_default=True)
@click.option("--data", type=JsonText(), help="JSON to go with it.")
@asking
def message(place: Place, asked: Json, run: str, text: str, when: str, data: Any) -> None:
    """Tell the agent something beside its task. TEXT may be - for standard input."""
    do(place, run, "message", {"text": text_of(text), "when": when, "data": data, **asked})


@click.command()
@run_argument
@click.option("--undo", type=click.Choice(["step", "all", "none"]), default="step", show_default=True)
@click.option("--soft", is_flag=True, help="Let the call in flight finish.")
@click.option("--suspicious", is_flag=True, help="Mark the transcript: what it was saying looks wrong.")
@waiting
@asking
def cancel(
    place: Place,
    asked: Json,
    run: str,
    undo: Literal["step", "all", "none"],
    soft: bool,
    suspicious: bool,
    wait: bool,
) -> None:
    """End a run: nothing new begins, effects in flight are undone, finished steps are kept."""
    args: Json = {"undo": undo, "soft": soft, **asked}
    do(place, run, "cancel", {**args, "suspicious": True} if suspicious else args, wait=wait)


# --- time travel, and acting by hand ---------------------------------------------------------------------


@click.command()
@run_argument
@click.argument("to")
@waiting
@asking
def rewind(place: Place, asked: Json, run: str, to: str, wait: bool) -> None:
    """Undo step TO (or a plan item) and everything later, and hold the run before it."""
    do(place, run, "rewind", {"to": number_or_name(to), **asked}, wait=wait)


@click.command("take-over")
@run_argument
@waiting
@asking
def take_over(place: Place, asked: Json, run: str, wait: bool) -> None:
    """Hold a run and act in it yourself, until hand-back."""
    do(place, run, "take_over", asked, wait=wait)


@click.command("hand-back")
@run_argument
@click.argument("note", default="")
@asking
def hand_back(place: Place, asked: Json, run: str, note: str) -> None:
    """Let the agent go on; it reads NOTE, and what you did, first."""
    do(place, run, "hand_back", {"note": text_of(note), **asked})


@click.command()
@run_argument
@click.argument("tool")
@click.option("--args", "arguments", type=JsonObject(), default="{}", help="Its arguments, as a JSON object.")
@click.option("--reason", default="", help="Why; kept in the record.")
@reaching
def perform(place: Place, run: str, tool: str, arguments: Json, reason: str) -> None:
    """Perform a tool in a run that you have taken over, through its own gate."""

    async def act(access: Access) -> tuple[str, Any, float]:
        view, began = await find(access, run), time.monotonic()
        return view.id, await access.perform(view.id, tool, arguments, reason), time.monotonic() - began

    id_, result, seconds = place.do(act)
    place.show(
        {"run": id_, "tool": tool, "result": result},
        lambda: [f"{tool} performed in {id_} ({seconds:.1f} s)", f"  result: {result!r}"],
    )


def number_or_name(given: str) -> int | str:
    """A step by its number, or a plan item by its id."""
    return int(given) if given.lstrip("-").isdigit() else given
