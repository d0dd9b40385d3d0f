"""`standfast`: the commands, put together. Each is imported when it is invoked."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Final

import click

from standfast.cli.codes import code_of_error
from standfast.cli.placing import place_options
from standfast.cli.saying import complain, complain_in_json, tell, version
from standfast.errors import Misuse, StandfastError

# Where a command is, and what is said of it among the others: its own short help, without importing it.
SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Running": {
        "run": ("running:run", "Run an agent here, with a live list of steps and what it says."),
        "start": ("starting:start", "Queue a new run, for whoever drives that agent; `standfast run` also drives it."),
        "serve": (
            "serve:serve",
            "Serve the controls of all runs in a store; drive those of the agents that are named.",
        ),
    },
    "Looking": {
        "ps": ("looking:ps", "List runs; those that need someone on top."),
        "show": ("looking:show", "Show a run as it is now, and what can be done."),
        "watch": ("watching:watch", "Watch and control runs on the whole terminal; q detaches, and they go on."),
        "events": (
            "looking:events",
            "Print the record of a run, one event a line; with --json one JSON object a line.",
        ),
        "transcript": ("looking:transcript", "Show what was said, call by call, partial text included."),
        "receipt": ("looking:receipt", "Show what the last stop did: finished, aborted, undone, left behind."),
        "state": ("looking:state", "Print the state of a run."),
    },
    "Controlling": {
        "pause": ("verbs:pause", "Hold a run: no further call begins, nothing is lost."),
        "redirect": ("verbs:redirect", "Rewrite what the agent does next."),
        "cancel": (
            "verbs:cancel",
            "End a run: nothing new begins, effects in flight are undone, finished steps are kept.",
        ),
        "resume": ("verbs:resume", "Go on exactly where the run was held."),
        "message": ("verbs:message", "Tell the agent something beside its task."),
        "step": ("verbs:step", "Take one step of a paused run, then pause again."),
    },
    "Answering": {
        "approve": ("answering:approve", "Let a call pass that asks first."),
        "deny": ("answering:deny", "Refuse a call that asks first: it is not executed."),
        "answer": ("answering:answer", "Answer a question of the run."),
        "resolve": ("answering:resolve", "Say what became of a call in doubt."),
        "resend": (
            "answering:resend",
            "Send a redirect that was not read again, to the next step; MAIL is the id that its need...",
        ),
        "drop": (
            "answering:drop",
            "Give a redirect that was not read back to its sender; MAIL is the id that its need names.",
        ),
        "abandon": (
            "answering:abandon",
            "Give up a thought, by its id or goal; --reason is needed: nothing is dropped silently.",
        ),
        "return-to": ("answering:return_to", "Send the run back to a thought on hold, by its id or goal."),
    },
    "Changing": {
        "edit": ("starting:edit", "Change the state of a paused run; without --patch or --set in your editor."),
        "rewind": ("verbs:rewind", "Undo step TO (or a plan item) and everything later, and hold the run before it."),
        "fork": ("starting:fork", "Make a new run from a snapshot of another, which is not changed."),
        "take-over": ("verbs:take_over", "Hold a run and act in it yourself, until hand-back."),
        "perform": ("verbs:perform", "Perform a tool in a run that you have taken over, through its own gate."),
        "hand-back": ("verbs:hand_back", "Let the agent go on; it reads NOTE, and what you did, first."),
    },
    "Operating": {
        "halt": ("halting:halt", "Stop every run that matches, and let none start or go on until the halt is lifted."),
        "lift": ("halting:lift", "Lift a halt: runs that nothing else holds go on by themselves."),
        "halts": ("halting:halts", "List the halts that hold: what, who, why, since when."),
        "operator": (
            "halting:operator",
            "Be the operator of a store: listen on STORE.halt for halts, as `standfast serve` does...",
        ),
    },
    "Keeping house": {
        "token": ("tokens:token", "Rights for others: view, pause, redirect, cancel, resolve, forensics, operator."),
        "house": ("tokens:house", "Show the record of the house: refused attempts, tokens, halts, exports."),
        "doctor": ("doctor:doctor", "Check Python, SQLite, extras, the store and who drives; say what to do."),
        "evidence": ("evidence:evidence", "Write a signed evidence bundle of a run; that you took it is on record."),
        "verify": (
            "verifying:verify",
            "Follow every chain and signature of a store or an evidence bundle; 0 only if everything...",
        ),
        "rekey": (
            "rekeying:rekey",
            "Make a new signing key for a store, in place of the one it has; that is on record,...",
        ),
        "forget": (
            "forgetting:forget",
            "Delete what ended runs did and said, for good; hashes stay, so that the record still...",
        ),
        "model": ("model:model", "A real small model in your own process: no key, no network."),
    },
}
_COMMANDS: Final = {name: where for section in SECTIONS.values() for name, (where, _) in section.items()}
_BEFORE: Final = "standfast.before"  # options that stood before the command
_EXTRAS: Final = {"starlette": "server", "uvicorn": "server", "websockets": "server", "textual": "tui"}
_NEEDED: Final = {"serve": ("starlette", "uvicorn", "websockets"), "watch": ("textual",)}  # what they import


def run() -> None:
    """Do what the command line asks; KeyboardInterrupt after Ctrl-C."""
    try:
        code = standfast.main(prog_name="standfast", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        raise KeyboardInterrupt from None
    if isinstance(code, int):  # click's way of saying that a command ended early, as --help does
        sys.exit(code)


def _keep(context: click.Context, option: click.Parameter, value: Any) -> None:
    if value not in (None, False):
        words = [option.opts[0]] if value is True else [option.opts[0], str(value)]
        context.meta.setdefault(_BEFORE, []).extend(words)


def _say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        tell(version())
        context.exit()


def _missing(name: str) -> str:
    for package in _NEEDED.get(name, ()):
        if importlib.util.find_spec(package) is None:
            return f"({name} needs {package})"
    return ""


class _Commands(click.Group):
    """Commands by what they are for; an error ends with its code and a line that says what to do."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        where = _COMMANDS.get(cmd_name)
        if where is None:
            return None
        module, _, name = where.partition(":")
        try:
            found: Any = getattr(importlib.import_module(f"standfast.cli.{module}"), name)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            raise Misuse(f"{cmd_name} needs {error.name}", hint=f"pip install 'standfast[{extra}]'") from error
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """What was said of the place before the command's name counts as if it stood behind it."""
        name, command, rest = super().resolve_command(ctx, args)
        at = 1 if isinstance(command, click.Group) and rest and rest[0] in command.commands else 0
        return name, command, [*rest[:at], *ctx.meta.get(_BEFORE, []), *rest[at:]]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, _missing(name) or short) for name, (_, short) in names.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except StandfastError as error:
            if ctx.meta.get("standfast.json"):
                complain_in_json(error)
            else:
                complain(error)
            return ctx.exit(int(code_of_error(error)))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_say_version, help="Say which.")
def standfast() -> None:
    """Long-running agents that a person can pause, redirect or cancel at any moment."""


for _option in place_options(expose_value=False, callback=_keep):
    _option(standfast)
