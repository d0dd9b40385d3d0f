"""The operator's commands: halt, lift, halts; by the operator's own process, or straight on the store (R13, R34)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from standfast.arguments import shortened
from standfast.cli.codes import Unreachable
from standfast.cli.options import STORE, Label, me, say_json
from standfast.cli.saying import complain, tell
from standfast.clock import RandomIds
from standfast.errors import Misuse, StandfastError, StoreBusy, UnknownHalt
from standfast.evidence.halt_signatures import signs_halts, verifies_halts
from standfast.names import by_words
from standfast.odd_text import mended
from standfast.operator.acting import Acting, halt_from
from standfast.operator.client import NoOperator, ask_port, ask_socket, socket_of
from standfast.operator.listening import listen
from standfast.records import Halt, Json

F = TypeVar("F", bound=Callable[..., Any])
_ERRORS: dict[str, type[StandfastError]] = {"Misuse": Misuse, "UnknownHalt": UnknownHalt, "StoreBusy": StoreBusy}


def operating(command: F) -> F:
    """What the operator's commands have in common: where the store is, by which way, who acts, how it is shown."""

    def wrapped(**given: Any) -> Any:
        click.get_current_context().meta["standfast.json"] = given["as_json"]
        given["store"] = given["store"] or Path(os.environ.get("STANDFAST_STORE") or STORE)
        return command(**given)

    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    options = (
        click.option(
            "--store",
            type=click.Path(path_type=Path, dir_okay=False),
            help="The file the runs are in. [$STANDFAST_STORE, else ./runs.db]",
        ),
        click.option(
            "--halt-port",
            type=click.IntRange(1, 65535),
            help="The operator's port of this machine, with $STANDFAST_HALT_TOKEN, instead of its socket.",
        ),
        click.option("--json", "as_json", is_flag=True, help="Answer in JSON."),
    )
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def ask(store: Path, port: int | None, request: Json) -> tuple[Json, str]:
    """The answer, and by which way it came: the operator's port or socket, or else straight on the store."""
    try:
        if port is not None:
            return ask_port(port, os.environ.get("STANDFAST_HALT_TOKEN", ""), request), f"by port {port}"
        path = socket_of(store.absolute())
        if path.exists():
            return ask_socket(path, request), f"by the operator's socket {socket_of(store)}"
        why = "there is no operator's socket"
    except NoOperator as error:
        why = error.message
    if not store.exists():
        raise Unreachable(f"{why}, and there is no store {store}", hint="give --store; nothing was halted or lifted")
    file = store.absolute()
    acting = Acting(file, sign=signs_halts(file), verify=verifies_halts(file))
    try:
        return acting.answer(request, "store"), f"straight on the store {store} ({why})"
    finally:
        acting.close()


def _answered(store: Path, port: int | None, request: Json) -> tuple[Json, str]:
    answer, way = ask(store, port, request)
    if answer["ok"]:
        return answer, way
    kind = _ERRORS.get(str(answer.get("error")), StandfastError)
    raise kind(str(answer.get("detail")), hint=str(answer.get("hint", "")))


@click.command()
@click.option("--agent", help="Runs of this agent.")
@click.option("--label", "labels", type=Label(), multiple=True, help="Runs with this label, name=value; all of them.")
@click.option("--all", "everything", is_flag=True, help="Every run.")
@click.option(
    "--then",
    type=click.Choice(["pause", "cancel"]),
    default="pause",
    show_default=True,
    help="What becomes of the runs: held until the halt is lifted, or cancelled.",
)
@click.option("--reason", required=True, help="Why; shown to everybody who meets the halt.")
@click.option("--by", help="Who acts. [your user name]")
@operating
def halt(
    store: Path,
    halt_port: int | None,
    as_json: bool,
    agent: str | None,
    labels: tuple[tuple[str, str], ...],
    everything: bool,
    then: str,
    reason: str,
    by: str | None,
) -> None:
    """Stop every run that matches, and let none start or go on until the halt is lifted."""
    if not (agent or labels or everything):
        raise click.UsageError("say what to halt: --agent, --label, or --all; nothing was halted")
    # One id by whichever way: a halt whose answer was lost is not set twice.
    request: Json = {
        "do": "halt",
        "id": RandomIds().halt(),
        "agent": agent,
        "labels": dict(labels),
        "all": everything,
        "then": then,
        "reason": shortened(mended(reason)),  # the operator reads one short line
        "by": by or me(),
    }
    answer, way = _answered(store, halt_port, request)
    done = halt_from(answer["halt"])
    if as_json:
        say_json({"way": way, **cast("Json", answer["halt"])})
        return
    runs = f"{done.runs} run{'' if done.runs == 1 else 's'}"
    tell(f"halted: {what(done)} ({runs} {'cancelled' if done.then == 'cancel' else 'stopped'}), {way}")
    for ref in done.in_flight[:20]:
        tell(f"  in flight: {ref.title or ref.tool} of {ref.run}")
    if len(done.in_flight) > 20:
        tell(f"  and {len(done.in_flight) - 20} more calls in flight")
    for run in done.unreadable:
        complain(f"run {run} cannot be read, and so cannot be driven: it was left as it is")
    tell(f"  standfast lift {done.id} lets them go on")


@click.command()
@click.argument("halt", metavar="HALT")
@click.option("--reason", default="", help="Why; kept in the record.")
@click.option("--by", help="Who acts. [your user name]")
@operating
def lift(store: Path, halt_port: int | None, as_json: bool, halt: str, reason: str, by: str | None) -> None:
    """Lift a halt: runs that nothing else holds go on by themselves."""
    answer, way = _answered(
        store, halt_port, {"do": "lift", "id": halt, "reason": shortened(mended(reason)), "by": by or me()}
    )
    done = halt_from(answer["halt"])
    if as_json:
        say_json({"way": way, **cast("Json", answer["halt"])})
        return
    note = f"; {done.note}" if done.note else ""
    tell(f"lifted: {done.id}, {what(done)} ({done.runs} held by it){note}, {way}")


@click.command()
@click.option("--lifted", is_flag=True, help="Also those that hold no longer.")
@operating
def halts(store: Path, halt_port: int | None, as_json: bool, lifted: bool) -> None:
    """List the halts that hold: what, who, why, since when."""
    answer, _ = _answered(store, halt_port, {"do": "list", "lifted": lifted})
    if as_json:
        say_json({"halts": answer["halts"]})
        return
    found = [halt_from(one) for one in cast("list[Any]", answer["halts"])]
    for one in found:
        state = "lifted" if one.lifted_at is not None else f"holds {one.runs} run{'' if one.runs == 1 else 's'}"
        signed = {"none": "not signed", "unchecked": "signed", "good": "signed", "wrong": "WRONGLY SIGNED"}
        since = time.strftime("since %Y-%m-%d %H:%M:%S", time.localtime(one.at))
        who = by_words(one.by, one.by_token, "somebody")
        tell(f"{one.id}  {what(one)}  {state}  {since}  {who}  {signed[one.signature]}")
        tell(f"  {one.reason}")
    if not found:
        tell("no halt holds")


@click.command()
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="STANDFAST_STORE",
    default=STORE,
    show_default=True,
    help="The file the runs are in.",
)
@click.option("--halt-port", type=click.IntRange(0, 65535), help="Also a port of this machine; 0: any that is free.")
def operator(store: Path, halt_port: int | None) -> None:
    """Be the operator of a store: listen on STORE.halt for halts, as `standfast serve` does beside the server."""
    token = os.environ.get("STANDFAST_HALT_TOKEN", "")
    if token and len(token) < 16:
        raise Misuse("$STANDFAST_HALT_TOKEN is too short to be a secret", hint="give at least 16 characters")
    listen(store.absolute(), port=halt_port, token=token, tell=tell)


def what(halt: Halt) -> str:
    """What a halt holds, in words."""
    parts = [f"agent {halt.agent}"] if halt.agent is not None else []
    parts += [f"{name}={value}" for name, value in halt.labels.items()]
    return " with ".join(parts) if parts else "every run"
