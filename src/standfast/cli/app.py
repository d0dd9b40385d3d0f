"""`standfast`: the commands, put together. Each is imported when it is asked for."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import click

from standfast.cli.codes import code_of_error
from standfast.cli.options import place_options
from standfast.cli.saying import complain, complain_in_json, tell, version
from standfast.errors import Misuse, StandfastError

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Running": {
        "run": "running:run",
        "start": "starting:start",
        "serve": "serve:serve",
    },
    "Looking": {
        "ps": "looking:ps",
        "show": "looking:show",
        "watch": "watching:watch",
        "events": "looking:events",
        "transcript": "looking:transcript",
        "receipt": "looking:receipt",
        "state": "looking:state",
    },
    "Controlling": {
        "pause": "verbs:pause",
        "redirect": "verbs:redirect",
        "cancel": "verbs:cancel",
        "resume": "verbs:resume",
        "message": "verbs:message",
        "step": "verbs:step",
    },
    "Answering": {
        "approve": "answering:approve",
        "deny": "answering:deny",
        "answer": "answering:answer",
        "resolve": "answering:resolve",
        "abandon": "answering:abandon",
        "return-to": "answering:return_to",
    },
    "Changing": {
        "edit": "starting:edit",
        "rewind": "verbs:rewind",
        "fork": "starting:fork",
        "take-over": "verbs:take_over",
        "perform": "verbs:perform",
        "hand-back": "verbs:hand_back",
    },
    "Operating": {
        "halt": "halting:halt",
        "lift": "halting:lift",
        "halts": "halting:halts",
        "operator": "halting:operator",
    },
    "Keeping house": {
        "token": "tokens:token",
        "house": "tokens:house",
        "doctor": "doctor:doctor",
        "evidence": "evidence:evidence",
        "verify": "verifying:verify",
        "forget": "forgetting:forget",
        "model": "model:model",
    },
}
_COMMANDS: Final = {name: where for section in SECTIONS.values() for name, where in section.items()}
_BEFORE: Final = "standfast.before"  # options that stood before the command
_EXTRAS: Final = {"starlette": "server", "uvicorn": "server", "websockets": "server", "textual": "tui"}


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            rows: list[tuple[str, str]] = []
            for name in names:
                try:
                    command = self.get_command(ctx, name)
                except Misuse as error:
                    rows.append((name, f"({error.message})"))
                else:
                    rows.append((name, command.get_short_help_str(90) if command else ""))
            with formatter.section(title):
                formatter.write_dl(rows)

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
